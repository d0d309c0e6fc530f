"""
Reads the trace context of publish requests and events, and writes that of deliveries.

Source: W3C Trace Context (2021, and Level 2 of 2024); CloudEvents, Distributed Tracing extension.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

PARENT, STATE = "traceparent", "tracestate"
MAX_STATE = 512  # characters
_MAX_MEMBERS = 32
_LONG_MEMBER = 128  # characters; longer ones are the first to go
_VERSION = "00"
_FLAGS = 0b11  # sampled, random; the others are reserved and sent as 0
_PARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-.*)?",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"([a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


class TraceContext(NamedTuple):
    """The trace that an event belongs to: a ``traceparent`` of version 00, and a ``tracestate``."""

    parent: str
    state: str = ""

    @property
    def trace_id(self) -> str:
        return self.parent[3:35]

    def headers(self, span_id: str) -> dict[str, str]:
        """Return the headers of a request that is the span *span_id*, of 16 hex digits."""
        flags = self.parent[53:]
        state = {STATE: self.state} if self.state else {}
        return {PARENT: f"{_VERSION}-{self.trace_id}-{span_id}-{flags}"} | state


def trace_context(values: Mapping[str, Any]) -> TraceContext | None:
    """
    Return the context in *values*, headers of a request or attributes of an event.

    ``None``: there is no ``traceparent``, or it is invalid. An invalid ``tracestate`` is left out.
    """
    if PARENT not in values:
        return None
    parent, state = values[PARENT], values.get(STATE)
    found = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if not found or found["version"] == "ff" or (found["more"] and found["version"] == _VERSION):
        return None
    if not found["trace"].strip("0") or not found["span"].strip("0"):
        return None
    flags = int(found["flags"], 16) & _FLAGS
    parent = f"{_VERSION}-{found['trace']}-{found['span']}-{flags:02x}"
    return TraceContext(parent, _state(state) if isinstance(state, str) else "")


def trace_of_event(text: str) -> TraceContext | None:
    """Return the context in the attributes of an event, *text* being its JSON."""
    if f'"{PARENT}"' not in text:  # Nearly always: nothing is parsed.
        return None
    try:
        return trace_context(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None


def _state(text: str) -> str:
    """Return the list of members, shortened where it is too long; empty if one is malformed."""
    members = [each for part in text.split(",") if (each := part.strip(" \t"))]
    if len(members) > _MAX_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return ""
    if len(",".join(members)) > MAX_STATE:
        members = [each for each in members if len(each) <= _LONG_MEMBER]
    while len(kept := ",".join(members)) > MAX_STATE:
        members.pop()
    return kept
