"""Translates the requests and responses of Azure Functions."""

from __future__ import annotations

import azure.functions as func

from shared.http import HttpAnswer, HttpRequest, query_of


def to_request(req: func.HttpRequest) -> HttpRequest:
    """
    Read a request.

    The query is read from the URL: hosts drop what is empty, join what is repeated and merge names
    that differ in case, and have no order.
    """
    return HttpRequest(
        method=req.method,
        url=req.url,
        headers={name.lower(): value for name, value in req.headers.items()},
        params=dict(req.route_params),
        query=query_of(req.url),
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
