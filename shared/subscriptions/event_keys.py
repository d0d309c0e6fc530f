"""Which keys lead anywhere in an event: those of filters, and those of dynamic headers."""

from __future__ import annotations

from collections.abc import Collection

from shared.events.topic import InputSchema

_OF_EVENTS = ("id", "topic", "subject", "eventtype", "dataversion")
# Events in these schemas are refused when they are published if they have others.
_KNOWN = {InputSchema.EVENT_GRID: _OF_EVENTS, InputSchema.CUSTOM: _OF_EVENTS}


def key_fault(key: str, schema: InputSchema, also: Collection[str] = ()) -> str | None:
    """
    Say what is wrong with *key*, if no event of *schema* can have it.

    A key is a member of the event, whatever its case, or a path into ``data``; *also* are members
    that are understood beside the schema's own. CloudEvents may have any, as extensions.

    Source: Event Grid "Understand event filtering" (2022-09-09), and of headers "Set custom headers
    on delivered events" (2023-02-21), whose keys are the same.
    """
    first, *names = key.lower().split(".")
    known = _KNOWN.get(schema)
    if first == "data" and all(names):
        return None
    if first and not names and (known is None or first in known or first in also):
        return None
    others = f"{', '.join(known)} and " if known else "an attribute of the event or "
    return f"The key '{key[:256]}' is no key of an event: there are {others}data.…."
