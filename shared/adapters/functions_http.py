"""Translates the requests and responses of Azure Functions."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import azure.functions as func

from shared.http import HttpAnswer, HttpRequest


def to_request(req: func.HttpRequest) -> HttpRequest:
    """Read a request; the query is read from the URL, since the host drops what is empty in it."""
    return HttpRequest(
        method=req.method,
        url=req.url,
        headers={name.lower(): value for name, value in req.headers.items()},
        params=dict(req.route_params),
        query=dict(parse_qsl(urlsplit(req.url).query, keep_blank_values=True)),
        body=req.get_body() or b"",
    )


def to_response(answer: HttpAnswer) -> func.HttpResponse:
    """Convert an answer; it gets one more header, so that no browser guesses its type."""
    return func.HttpResponse(
        answer.body,
        status_code=answer.status,
        headers={**answer.headers, "X-Content-Type-Options": "nosniff"},
        mimetype="",  # else an answer without a content type gets text/plain; the host omits ""
    )
