"""Reads ``filter`` of an event subscription, and compiles stored filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from shared.arm.sections import Document, Section
from shared.events.paths import fold_case
from shared.events.topic import InputSchema
from shared.subscriptions.advanced_filter import AdvancedFilter, FilterOperator, Operand, operand_of
from shared.subscriptions.event_values import key_fault
from shared.subscriptions.filters import EventFilter

MAX_FILTERS = 25
MAX_VALUES = 25  # of all filters of a subscription together
MAX_TEXT = 512  # characters of one value
_PAIR = 2


def parse_filter(
    section: Section, schema: InputSchema, advanced_member: str = "advancedFilters"
) -> dict[str, Any]:
    """Read ``filter``; faults are added to *section*."""
    types = section.texts("includedEventTypes")
    stored: dict[str, Any] = {
        "subjectBeginsWith": section.text("subjectBeginsWith") or "",
        "subjectEndsWith": section.text("subjectEndsWith") or "",
    }
    if types:
        stored["includedEventTypes"] = list(types)
    if section.flag("isSubjectCaseSensitive"):
        stored["isSubjectCaseSensitive"] = True
    if section.flag("enableAdvancedFilteringOnArrays"):
        stored["enableAdvancedFilteringOnArrays"] = True
    if advanced := _parse_all_advanced(section, advanced_member, schema):
        stored["advancedFilters"] = advanced
    return stored


def to_filter(stored: Document) -> EventFilter:
    types = [fold_case(name) for name in _list(stored.get("includedEventTypes", []))]
    is_case_sensitive = stored.get("isSubjectCaseSensitive", False)
    prefix, suffix = stored["subjectBeginsWith"], stored["subjectEndsWith"]
    on_arrays = stored.get("enableAdvancedFilteringOnArrays", False)
    return EventFilter(
        # Very old clients write "All" where later ones omit the list.
        included_event_types=None if types in ([], ["all"]) else frozenset(types),
        subject_begins_with=prefix if is_case_sensitive else fold_case(prefix),
        subject_ends_with=suffix if is_case_sensitive else fold_case(suffix),
        is_subject_case_sensitive=is_case_sensitive,
        advanced=tuple(
            _to_advanced_filter(each, on_arrays=on_arrays)
            for each in _list(stored.get("advancedFilters", []))
        ),
    )


def _to_advanced_filter(stored: Document, *, on_arrays: bool) -> AdvancedFilter:
    operator = FilterOperator(stored["operatorType"])
    values: Any = []
    if (operand := operand_of(operator)) is not Operand.NOTHING:
        values = _READERS[operand](stored[_member(operand)])
    if not isinstance(values, list):
        values = [values]
    return AdvancedFilter(
        operator=operator,
        key=tuple(stored["key"].split(".")),
        values=tuple(tuple(each) if isinstance(each, list) else each for each in values),
        on_arrays=on_arrays,
    )


def _parse_all_advanced(section: Section, name: str, schema: InputSchema) -> list[dict[str, Any]]:
    sections = section.sections(name)
    if len(sections) > MAX_FILTERS:
        section.refuse(name, f"There can be at most {MAX_FILTERS} advanced filters.")
        return []
    stored = [_parse_advanced(each, schema) for each in sections]
    values = sum(len(each.get("values", ())) + ("value" in each) for each in stored)
    if values > MAX_VALUES:
        section.refuse(
            name,
            f"All advanced filters together can have at most {MAX_VALUES} values, not {values}.",
        )
    return stored


def _parse_advanced(section: Section, schema: InputSchema) -> dict[str, Any]:
    kind = section.required_choice("operatorType", tuple(FilterOperator))
    stored: dict[str, Any] = {
        "operatorType": kind and str(kind),
        "key": _parse_key(section, schema),
    }
    operand = operand_of(FilterOperator(kind)) if kind else Operand.NOTHING
    if operand is Operand.NOTHING:
        return stored
    member = _member(operand)
    try:
        stored[member] = _READERS[operand](_operand_of(section, member))
    except (TypeError, ValueError, OverflowError):
        section.refuse(member, f"{section.target(member)} of {kind} must be {operand}.")
    return stored


def _member(operand: Operand) -> str:
    return "value" if operand in (Operand.NUMBER, Operand.FLAG) else "values"


def _operand_of(section: Section, member: str) -> Any:
    """Return what a filter compares with; Event Grid takes a single one as ``values``, too."""
    given = section.members.get(member)
    if given is None and member == "value":
        return section.members.get("values")
    return given


def _parse_key(section: Section, schema: InputSchema) -> str | None:
    key = section.required_text("key")
    if key is not None and (fault := key_fault(key, schema)):
        section.refuse("key", fault)
    return key


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not isfinite(value):
        raise ValueError
    return float(value)


def _numbers(value: object) -> list[float]:
    return [_number(each) for each in _non_empty_list(value)]


def _ranges(value: object) -> list[list[float]]:
    pairs = [_numbers(pair) for pair in _non_empty_list(value)]
    if any(len(pair) != _PAIR or pair[0] > pair[1] for pair in pairs):
        raise ValueError
    return pairs


def _strings(value: object) -> list[str]:
    texts = _non_empty_list(value)
    if not all(isinstance(each, str) and len(each) <= MAX_TEXT for each in texts):
        raise TypeError
    return texts


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _non_empty_list(value: object) -> list[Any]:
    if found := _list(value):
        return found
    raise TypeError


_READERS: Mapping[Operand, Callable[[object], Any]] = {
    Operand.NUMBER: _number,
    Operand.NUMBERS: _numbers,
    Operand.RANGES: _ranges,
    Operand.FLAG: _flag,
    Operand.STRINGS: _strings,
}
