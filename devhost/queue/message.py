"""
Builds a queue function's input: the body and the trigger metadata.

Source: azure-functions-host WebJobs.Script/Utility.cs, ApplyBindingData (2024-10); azure.functions
queue.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime

from azure.functions.meta import Datum

from devhost.queue.storage import ReceivedMessage


class UndecodableError(Exception):
    """The message's text is not in host.json's encoding."""


def decode(text: str, *, is_base64: bool) -> bytes:
    """
    Return a message's body.

    Raises:
        UndecodableError: *text* should be base64 and is not.
    """
    if not is_base64:
        return text.encode()
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError) as fault:
        raise UndecodableError from fault


def body_datum(body: bytes, *, binary: bool) -> Datum:
    """Return the body as the worker receives it: text, unless function.json says binary."""
    return Datum(body, "bytes") if binary else Datum(body.decode(errors="replace"), "string")


def metadata(message: ReceivedMessage, body: Datum) -> dict[str, Datum]:
    """
    Return the trigger metadata of *message*.

    As in the real host, the top-level properties of a JSON object in the body replace the
    message's own, case-insensitively: `msg.id` may come from the body.
    """
    own = {
        "Id": Datum(message.id, "string"),
        "PopReceipt": Datum(message.pop_receipt, "string"),
        "DequeueCount": Datum(str(message.dequeue_count), "json"),
        "InsertionTime": _time(message.insertion_time),
        "ExpirationTime": _time(message.expiration_time),
        "NextVisibleTime": _time(message.next_visible_time),
        "QueueTrigger": body,
    }
    spelling = {name.lower(): name for name in own}
    for name, value in _properties(body).items():
        datum = _datum(value)
        if datum is not None:
            own[spelling.setdefault(name.lower(), name)] = datum
    return own


def _properties(body: Datum) -> Mapping[str, object]:
    text = body.value if body.type == "string" else ""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _datum(value: object) -> Datum | None:
    match value:
        case None | list():
            return None
        case dict():
            return Datum(json.dumps(value), "json")
        case bool():
            return Datum("True" if value else "False", "string")
        case _:
            return Datum(str(value), "string")


def _time(value: datetime) -> Datum:
    return Datum(f'"{value.isoformat(timespec="seconds")}"', "json")
