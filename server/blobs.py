"""Answers the address of a dead letter's blob, which notices name."""

from __future__ import annotations

from shared.app import App
from shared.arm import arm_json
from shared.deadletter.reader import MAX_BLOB
from shared.errors import AppError, NotFound
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import DeadLetterDestination

#: The first segment of the address; the container and the blob's path follow.
BLOBS = "blobs"


def answer_blob(app: App, request: HttpRequest) -> HttpAnswer:
    """Answer with a blob, byte for byte, to whoever has the admin key."""
    try:
        operator = app.operators.authorize(request.headers.get("authorization"))
        if operator.is_reader:
            raise operator.forbidden("reading a dead letter")
        there = DeadLetterDestination(container=request.params["container"])
        body = app.store.dead_letters.read(there, request.params["blob"], MAX_BLOB)
        if body is None:
            raise NotFound("There is no such blob.")
    except AppError as error:
        return arm_json.error_answer(error)
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return HttpAnswer(status=200, headers=headers, body=body)
