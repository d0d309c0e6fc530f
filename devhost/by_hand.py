"""Runs a function once with a text as its input, as operators' scripts ask for."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from devhost.functions.invoke import Invoker
from devhost.functions.loader import Function
from devhost.functions.metadata import HttpTrigger, QueueTrigger
from devhost.http.request import Request
from devhost.queue import message as queue_message
from devhost.queue.listener import INVISIBILITY
from devhost.queue.storage import ReceivedMessage
from devhost.timer import listener as timer


async def run_by_hand(invoker: Invoker, function: Function, text: str) -> None:
    """Call *function*; a queue message has made-up metadata, and nothing is deleted or moved."""
    match function.metadata.trigger:
        case QueueTrigger(binary=binary):
            body = queue_message.body_datum(text.encode(), binary=binary)
            metadata = queue_message.metadata(_message(text), body)
            await invoker.invoke(function, body, metadata)
        case HttpTrigger():
            url = f"/admin/functions/{function.metadata.name}"
            request = Request(method="POST", path=url[1:], url=url, headers={}, query={})
            await invoker.invoke(function, request.datum({}, text.encode()), None)
        case _:
            await invoker.invoke(function, timer.datum(None, past_due=False), None)


def _message(text: str) -> ReceivedMessage:
    now = datetime.now(UTC)
    return ReceivedMessage(
        id=str(uuid.uuid4()),
        pop_receipt="",
        dequeue_count=1,
        insertion_time=now,
        expiration_time=now + timedelta(days=7),
        next_visible_time=now + INVISIBILITY,
        text=text,
    )
