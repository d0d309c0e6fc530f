"""Reads the JSON of management requests and writes that of their answers."""

from __future__ import annotations

from dataclasses import asdict, replace
from http import HTTPStatus

from shared.arm.member_names import Names, read_names
from shared.arm.sections import Document
from shared.errors import AppError, InvalidDocument, InvalidEvents, TooLarge, Unauthenticated
from shared.events import literals, strict_json
from shared.http import HttpAnswer

MAX_BODY = 1_048_576


def read_json(body: bytes, names: Names) -> object:
    """
    Parse the body of a request, a document whose members have these *names* in any case.

    Raises:
        TooLarge: it is larger than 1 MiB.
        InvalidDocument: it is not JSON, has a number, text or nesting that can't be stored, or
            names of members that can't be meant.
    """
    if len(body) > MAX_BODY:
        message = f"The request content is larger than {MAX_BODY} bytes."
        raise TooLarge(message, detail_code="RequestEntityTooLarge")
    try:
        document = strict_json.parse(body, strict_json.PLAIN)
    except InvalidEvents as error:
        reason = error.message.removesuffix(".")
        message = f"The request content was invalid and could not be deserialized: '{reason}'."
        raise InvalidDocument(message, detail_code="InvalidRequestContent") from error
    return read_names(document, names)


def answer(status: int, document: Document | None = None) -> HttpAnswer:
    """Build an answer; without a *document* its body is empty."""
    if document is None:
        return HttpAnswer(status=status)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    return HttpAnswer(status=status, headers=headers, body=literals.dumps(document).encode())


def error_answer(error: AppError) -> HttpAnswer:
    """
    Build an answer with ARM's error document, and the headers that belong to its status.

    A single fault becomes the error itself; several become its details.
    """
    first, *more = error.faults
    if more:
        shown = {"code": error.code, "message": error.message, "target": None}
    else:
        shown = asdict(first)
    details = [asdict(fault) for fault in error.faults] if more else []
    document = {"error": {**shown, "details": details, "additionalInfo": []}}
    plain = answer(error.status, document)
    headers = dict(plain.headers)
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "5"
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = error.challenge
    return replace(plain, headers=headers)
