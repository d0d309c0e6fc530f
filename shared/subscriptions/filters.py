"""Matches events against the filter of a subscription."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from shared.clip import clip
from shared.events.paths import MISSING
from shared.subscriptions.advanced_filter import AdvancedFilter, Operand, operand_of
from shared.subscriptions.event_values import EventValues

_NO_OBJECTS = {
    str: "text",
    tuple: "an array",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
_JSON_TEXT = "; it seems to be JSON in a string: publish the object itself"


class Refusal(NamedTuple):
    """The number of conditions that held before the first that did not, and what that one says."""

    passed: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """
    The conditions under which a subscription gets an event; all of them must match.

    The text to compare with is already case-folded, unless the subject is case-sensitive.
    """

    included_event_types: frozenset[str] | None = None  # ``None``: all
    subject_begins_with: str = ""
    subject_ends_with: str = ""
    is_subject_case_sensitive: bool = False
    advanced: tuple[AdvancedFilter, ...] = ()

    @property
    def weight(self) -> int:
        """Return how many comparisons an event may need, and one for itself."""
        return 1 + sum(1 + len(each.values) for each in self.advanced)

    def matches(self, values: EventValues) -> bool:
        """
        Tell whether the event with these *values* is wanted.

        Event types are compared without case, and so are subjects unless the filter says
        otherwise. Prefix and suffix are plain text, without wildcards.

        Source: Event Grid "Understand event filtering" (2022-09-09).
        """
        # Apart from `refusal`, which says the same: it is asked of every event that is published.
        types = self.included_event_types
        if types is not None and values.event_type not in types:
            return False
        prefix, suffix = self.subject_begins_with, self.subject_ends_with
        if prefix or suffix:
            is_exact = self.is_subject_case_sensitive
            subject = values.subject if is_exact else values.folded_subject
            if not (subject.startswith(prefix) and subject.endswith(suffix)):
                return False
        return all(each.matches(values) for each in self.advanced)

    def refusal(self, values: EventValues) -> Refusal | None:
        """Return the first condition that the event with these *values* does not meet, if any."""
        for passed, (holds, why) in enumerate(self._conditions(values)):
            if not holds:
                return Refusal(passed, why)
        return None

    def _conditions(self, values: EventValues) -> Iterator[tuple[bool, str]]:
        """Yield whether each condition holds, and what to say if not."""
        if (types := self.included_event_types) is not None:
            wanted = ", ".join(map(repr, sorted(types)))
            why = f"event types: {wanted}; the event has {values.event_type!r}"
            yield values.event_type in types, clip(why)
        subject = values.subject if self.is_subject_case_sensitive else values.folded_subject
        has = f"the event has {subject!r}"
        if prefix := self.subject_begins_with:
            yield subject.startswith(prefix), clip(f"subject begins with {prefix!r}; {has}")
        if suffix := self.subject_ends_with:
            yield subject.endswith(suffix), clip(f"subject ends with {suffix!r}; {has}")
        for each in self.advanced:
            yield each.matches(values), clip(_described(each, values))


def _described(advanced: AdvancedFilter, values: EventValues) -> str:
    key, value = ".".join(advanced.key), values.value(advanced.key)
    wanted = ", ".join(repr(each).removesuffix(".0") for each in advanced.values)
    has = _missing(advanced.key, values) if value is MISSING else f"the event has {value!r}"
    has_operand = operand_of(advanced.operator) is not Operand.NOTHING
    if isinstance(value, tuple) and has_operand and not advanced.on_arrays:
        has = "the event has an array, which needs enableAdvancedFilteringOnArrays"
    return f"{key} {advanced.operator} {wanted}".rstrip() + f"; {has}"


def _missing(path: tuple[str, ...], values: EventValues) -> str:
    """Say why no value is at *path*: whatever is above it may be no object."""
    for length in range(1, len(path)):
        value, above = values.value(path[:length]), ".".join(path[:length])
        if kind := _NO_OBJECTS.get(type(value)):
            return f"{above} is {kind}, not an object" + _JSON_TEXT * _begins_as_object(value)
    if path[0] == "data" and values.value(("data_base64",)) is not MISSING:
        return "the event has data_base64 instead of data, and no key leads into it"
    return f"the event has no {'.'.join(path)}"


def _begins_as_object(value: object) -> bool:
    return isinstance(value, str) and value.lstrip().startswith("{")


MATCH_ALL = EventFilter()
