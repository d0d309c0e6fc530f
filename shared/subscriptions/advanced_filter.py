"""Compiles advanced filters, each a test of one value of an event."""

from __future__ import annotations

import operator as compare
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from shared.events.paths import MISSING, fold_case
from shared.subscriptions.event_values import EventValues

Check = Callable[[Any], bool]  # tests one value; False for another type
Real = int | float

_NUMBERS = (int, float)


class FilterOperator(StrEnum):
    """Names of ``operatorType``. Source: "Understand event filtering" (2022-09-09)."""

    NUMBER_IN = "NumberIn"
    NUMBER_NOT_IN = "NumberNotIn"
    NUMBER_LESS_THAN = "NumberLessThan"
    NUMBER_LESS_THAN_OR_EQUALS = "NumberLessThanOrEquals"
    NUMBER_GREATER_THAN = "NumberGreaterThan"
    NUMBER_GREATER_THAN_OR_EQUALS = "NumberGreaterThanOrEquals"
    NUMBER_IN_RANGE = "NumberInRange"
    NUMBER_NOT_IN_RANGE = "NumberNotInRange"
    BOOL_EQUALS = "BoolEquals"
    STRING_IN = "StringIn"
    STRING_NOT_IN = "StringNotIn"
    STRING_CONTAINS = "StringContains"
    STRING_NOT_CONTAINS = "StringNotContains"
    STRING_BEGINS_WITH = "StringBeginsWith"
    STRING_NOT_BEGINS_WITH = "StringNotBeginsWith"
    STRING_ENDS_WITH = "StringEndsWith"
    STRING_NOT_ENDS_WITH = "StringNotEndsWith"
    IS_NULL_OR_UNDEFINED = "IsNullOrUndefined"
    IS_NOT_NULL = "IsNotNull"


class Operand(StrEnum):
    """The kind of operand that an operator compares with, as faults describe it."""

    NUMBER = "a number"
    NUMBERS = "a list of numbers, at least one"
    RANGES = "a list of pairs of numbers, at least one, the smaller number first: [[1, 10]]"
    FLAG = "true or false"
    STRINGS = "a list of strings, at least one, none longer than 512 characters"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvancedFilter:
    """A test of the value at a path."""

    operator: FilterOperator
    key: tuple[str, ...]  # the path
    values: tuple[Any, ...] = ()  # the operands: numbers, pairs of numbers or strings
    on_arrays: bool = False  # arrays match by their elements; otherwise IsNotNull alone
    matches: Callable[[EventValues], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matches", _compile(self))


class _Rule(NamedTuple):
    """The semantics of an operator, or of its opposite, which has a ``Not`` in its name."""

    operand: Operand
    check: Callable[[Any], Check]


def operand_of(operator: FilterOperator) -> Operand:
    """Return the kind of operand that *operator* compares with."""
    rule = _rule_of(operator)
    return rule.operand if rule else Operand.NOTHING


def _rule_of(operator: FilterOperator) -> _Rule | None:
    return _RULES.get(operator.replace("Not", ""))


def _compile(advanced: AdvancedFilter) -> Callable[[EventValues], bool]:
    operator, key, on_arrays = advanced.operator, advanced.key, advanced.on_arrays
    rule = _rule_of(operator)
    if rule is None:
        wants_missing = operator is FilterOperator.IS_NULL_OR_UNDEFINED
        return lambda values: (values.value(key) in (None, MISSING)) is wants_missing
    check = rule.check(advanced.values)
    if "Not" in operator:
        return _compile_opposite(advanced, rule, check)

    def matches(values: EventValues) -> bool:
        value = values.value(key)
        if value.__class__ is tuple:
            return on_arrays and any(map(check, value))
        return check(value)

    return matches


def _compile_opposite(
    advanced: AdvancedFilter, rule: _Rule, check: Check
) -> Callable[[EventValues], bool]:
    key, on_arrays = advanced.key, advanced.on_arrays
    classes = (str,) if rule.operand is Operand.STRINGS else _NUMBERS
    matches_missing = advanced.operator in _MATCH_MISSING

    def matches(values: EventValues) -> bool:
        value = values.value(key)
        if value.__class__ is tuple:
            return on_arrays and not any(map(check, value))
        if value is None or value is MISSING:
            return matches_missing
        return value.__class__ in classes and not check(value)

    return matches


def _number_in(values: tuple[Real, ...]) -> Check:
    wanted = frozenset(values)
    return lambda value: value.__class__ in _NUMBERS and value in wanted


def _in_range(ranges: tuple[tuple[Real, Real], ...]) -> Check:
    return lambda value: (
        value.__class__ in _NUMBERS and any(low <= value <= high for low, high in ranges)
    )


def _number(test: Callable[[Real, Real], bool]) -> Callable[[tuple[Real, ...]], Check]:
    def check(values: tuple[Real, ...]) -> Check:
        (limit,) = values
        return lambda value: value.__class__ in _NUMBERS and test(value, limit)

    return check


def _bool_equals(values: tuple[bool, ...]) -> Check:
    (wanted,) = values
    return lambda value: value is wanted


def _string_in(values: tuple[str, ...]) -> Check:
    wanted = frozenset(map(fold_case, values))
    return lambda value: value.__class__ is str and value in wanted


def _string(test: Callable[[str, tuple[str, ...]], bool]) -> Callable[[tuple[str, ...]], Check]:
    def check(values: tuple[str, ...]) -> Check:
        wanted = tuple(map(fold_case, values))
        return lambda value: value.__class__ is str and test(value, wanted)

    return check


def _contains_any(text: str, parts: Collection[str]) -> bool:
    return any(part in text for part in parts)


_RULES: Mapping[str, _Rule] = {
    FilterOperator.NUMBER_IN: _Rule(Operand.NUMBERS, _number_in),
    FilterOperator.NUMBER_LESS_THAN: _Rule(Operand.NUMBER, _number(compare.lt)),
    FilterOperator.NUMBER_LESS_THAN_OR_EQUALS: _Rule(Operand.NUMBER, _number(compare.le)),
    FilterOperator.NUMBER_GREATER_THAN: _Rule(Operand.NUMBER, _number(compare.gt)),
    FilterOperator.NUMBER_GREATER_THAN_OR_EQUALS: _Rule(Operand.NUMBER, _number(compare.ge)),
    FilterOperator.NUMBER_IN_RANGE: _Rule(Operand.RANGES, _in_range),
    FilterOperator.BOOL_EQUALS: _Rule(Operand.FLAG, _bool_equals),
    FilterOperator.STRING_IN: _Rule(Operand.STRINGS, _string_in),
    FilterOperator.STRING_CONTAINS: _Rule(Operand.STRINGS, _string(_contains_any)),
    FilterOperator.STRING_BEGINS_WITH: _Rule(Operand.STRINGS, _string(str.startswith)),
    FilterOperator.STRING_ENDS_WITH: _Rule(Operand.STRINGS, _string(str.endswith)),
}
# A missing value matches no operator "…, except NumberNotIn and StringNotIn"; that it matches
# NumberNotInRange is ours.
_MATCH_MISSING = {
    FilterOperator.NUMBER_NOT_IN,
    FilterOperator.STRING_NOT_IN,
    FilterOperator.NUMBER_NOT_IN_RANGE,
}
