"""
Validates the members of a JSON document, and reads the bodies of PATCHes.

Readers add faults to their section; who has read a document raises all of them, by `raise_faults`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shared.errors import Fault, InvalidDocument
from shared.events.iso_8601 import parse_iso_8601

TLS_VERSIONS = ("1.0", "1.1", "1.2")  # of minimumTlsVersionAllowed
FLAGS = {"true": True, "false": False}  # by the text that means it, in small letters
WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
Document = Mapping[str, Any]  # a JSON object in the form of ARM
Merge = Callable[[Any, Any], Any]


class Section(NamedTuple):
    """
    One JSON object of a document.

    A reader returns ``None`` for a member that is missing, null or invalid. So it does for an empty
    text where another type is wanted; there, ``"true"`` and ``"5"`` are true and 5.
    """

    members: Document
    path: str  # the target of its faults
    faults: list[Fault]  # of all sections of a document

    def target(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, name: str, message: str) -> None:
        """Add a fault of the member *name*, once."""
        fault = Fault(code=InvalidDocument.code, message=message, target=self.target(name))
        if fault not in self.faults:
            self.faults.append(fault)

    def refuse_unsupported(self, name: str, sentence: str) -> None:
        """Refuse a member that is set to anything but null or an empty value, with a *sentence*."""
        if self.members.get(name) not in (None, [], {}, ""):
            self.refuse(name, f"{self.target(name)} is not supported. {sentence}")

    def refuse_others(self, *known: str) -> None:
        """Refuse members that are none of *known*."""
        for name in self.members.keys() - known:
            self.refuse(
                name, f"{self.target(name)} is unknown; the members are {', '.join(known)}."
            )

    def has(self, name: str) -> bool:
        """Tell whether a member is given; null and an empty text mean that there is none."""
        return self.members.get(name) not in (None, "")

    def section(self, name: str) -> Section:
        """Return the object *name*; an empty section if it is missing."""
        value = self._typed(name, dict, "an object")
        return Section(value or {}, self.target(name), self.faults)

    def sections(self, name: str) -> list[Section]:
        """Return the objects in the list *name*; an empty list if it is missing."""
        target, found = self.target(name), self._list(name, dict, "a list of objects") or ()
        return [
            Section(item, f"{target}[{number}]", self.faults) for number, item in enumerate(found)
        ]

    def named_sections(self, name: str) -> dict[str, Section]:
        """Return the objects in the object *name*, by member name; null counts as empty."""
        inner = self.section(name)
        return {each: inner.section(each) for each in inner.members}

    def text(self, name: str) -> str | None:
        value: str | None = self._typed(name, str, "a string")
        return value

    def required_text(self, name: str) -> str | None:
        if self.members.get(name) is None:
            self._refuse_missing(name)
        return self.text(name)

    def flag(self, name: str) -> bool | None:
        given = self.members.get(name)
        value = FLAGS.get(given.lower(), given) if isinstance(given, str) else given
        return self._of_type(name, value, bool, "true or false")  # type: ignore[no-any-return]

    def number(self, name: str, low: int, high: int, context: str = "") -> int | None:
        """Return an integer from *low* to *high*, inclusive; *context* is appended to the fault."""
        value = self.whole(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            span = str(low) if low == high else f"a whole number between {low} and {high}"
            self.refuse(name, f"{self.target(name)} must be {span}{context}.")
            return None
        return value

    def whole(self, name: str) -> Any:
        """Return a member as it is, a whole number that is written as text as a number."""
        value = self.members.get(name)
        if isinstance(value, str) and WHOLE.fullmatch(value):
            return int(value)
        return None if value == "" else value

    def texts(self, name: str) -> tuple[str, ...] | None:
        found = self._list(name, str, "a list of strings")
        return None if found is None else tuple(found)

    def moment(self, name: str) -> datetime | None:
        """Return a date and time in UTC; a value without offset is UTC."""
        text = self.text(name)
        if not text:
            return None
        try:
            if moment := parse_iso_8601(text):
                return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        except OverflowError:  # in UTC it would be after the year 9999
            pass
        self.refuse(name, f"{self.target(name)} must be a date and time in ISO 8601 form.")
        return None

    def choice(
        self, name: str, allowed: Sequence[str], refused: Mapping[str, str] | None = None
    ) -> str | None:
        """
        Return the member of *allowed* that the value names, ignoring case.

        *refused* has the faults of what Event Grid allows and Pushgrid does not.
        """
        value = self.text(name)
        if not value:
            return None
        for option in allowed:
            if option.casefold() == value.casefold():
                return option
        choices = ", ".join(allowed)
        other = f"{self.target(name)} has the value '{value}'; it can be: {choices}."
        reasons = {option.casefold(): reason for option, reason in (refused or {}).items()}
        self.refuse(name, reasons.get(value.casefold(), other))
        return None

    def required_choice(
        self, name: str, allowed: Sequence[str], refused: Mapping[str, str] | None = None
    ) -> str | None:
        if not self.has(name):
            self._refuse_missing(name)
        return self.choice(name, allowed, refused)

    def _refuse_missing(self, name: str) -> None:
        self.refuse(name, f"{self.target(name)} is missing.")

    def _typed(self, name: str, kind: type, wanted: str) -> Any:
        return self._of_type(name, self.members.get(name), kind, wanted)

    def _of_type(self, name: str, value: Any, kind: type, wanted: str) -> Any:
        if value is None or isinstance(value, kind):
            return value
        if value == "":
            return None
        self.refuse(name, f"{self.target(name)} must be {wanted}.")
        return None

    def _list(self, name: str, kind: type, wanted: str) -> list[Any] | None:
        value: list[Any] | None = self._typed(name, list, wanted)
        if value is None or all(isinstance(item, kind) for item in value):
            return value
        self.refuse(name, f"{self.target(name)} must be {wanted}.")
        return None


def root_section(body: object) -> Section:
    """Return the root section of *body*, a parsed JSON value."""
    root = Section(body if isinstance(body, dict) else {}, "", [])
    if not isinstance(body, dict):
        message = "The request content must be a JSON object."
        root.faults.append(Fault(code=InvalidDocument.code, message=message))
    return root


def raise_faults(faults: Sequence[Fault]) -> None:
    """Raise `InvalidDocument` with all *faults*, if there are any."""
    if faults:
        raise InvalidDocument(" ".join(fault.message for fault in faults), faults=tuple(faults))


def read_patch(body: object, known: Collection[str], form: str) -> Document:
    """
    Return the members of *body*.

    An empty body changes nothing. A body with none of the *known* members has the wrong form and is
    refused, so that its sender does not believe in a change. *form* describes the right form.
    """
    root = root_section(body)
    raise_faults(root.faults)
    if root.members and root.members.keys().isdisjoint(known):
        raise InvalidDocument(f"{form}; this body has no known member.")
    return root.members


def patched_properties(
    known: Document, patch: Document, merge: Merge = operator.or_
) -> dict[str, Any]:
    """Return the ``properties`` of the PUT that has the effect of *patch*."""
    given = patch.get("properties")
    if isinstance(given, dict):
        given = merge(known, given)
    return {"properties": known if given in (None, "") else given}
