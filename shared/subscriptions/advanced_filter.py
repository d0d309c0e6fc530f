"""Advanced filters: one test of one value of an event, compiled when the subscription is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shared.subscriptions.event_values import MISSING, EventValues, fold_case

Check = Callable[[Any], bool]  # of one value; False for one of another type
Number = int | float

_NUMBERS = (int, float)


class Operator(StrEnum):
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
    """What an operator is given to compare with: the member of the document that holds it."""

    NUMBER = "a number"
    NUMBERS = "a list of numbers, at least one"
    RANGES = "a list of pairs of numbers, at least one, the smaller number first: [[1, 10]]"
    FLAG = "true or false"
    STRINGS = "a list of strings, at least one, none longer than 512 characters"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvancedFilter:
    """
    One test.

    *key* is the path to the value, *values* what it is compared with: numbers, pairs of numbers,
    strings or, for the operators that take a single ``value``, just that. *on_arrays*: an array
    matches by its elements, else never.
    """

    operator: Operator
    key: tuple[str, ...]
    values: tuple[Any, ...] = ()
    on_arrays: bool = False
    matches: Callable[[EventValues], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matches", _compile(self))


def _compile(advanced: AdvancedFilter) -> Callable[[EventValues], bool]:
    key, on_arrays = advanced.key, advanced.on_arrays
    if advanced.operator is Operator.IS_NULL_OR_UNDEFINED:
        return lambda values: values.value(key) in (None, MISSING)
    if advanced.operator is Operator.IS_NOT_NULL:
        return lambda values: values.value(key) not in (None, MISSING)
    if opposite := _NEGATIVE.get(advanced.operator):
        return _compile_negative(advanced, _CHECKS[opposite](advanced.values))
    check = _CHECKS[advanced.operator](advanced.values)

    def matches(values: EventValues) -> bool:
        value = values.value(key)
        if value.__class__ is tuple:
            return on_arrays and any(map(check, value))
        return check(value)

    return matches


def _compile_negative(advanced: AdvancedFilter, check: Check) -> Callable[[EventValues], bool]:
    """
    Return the opposite of *check*, for values of the right type.

    A value that is missing matches where the operator compares with whole values only.
    """
    key, on_arrays = advanced.key, advanced.on_arrays
    is_right = _is_number if advanced.operator in _NUMERIC else _is_string
    if_missing = advanced.operator in _MATCH_MISSING

    def matches(values: EventValues) -> bool:
        value = values.value(key)
        if value.__class__ is tuple:
            return on_arrays and not any(map(check, value))
        if value is None or value is MISSING:
            return if_missing
        return is_right(value) and not check(value)

    return matches


def _is_number(value: object) -> bool:
    return value.__class__ in _NUMBERS  # neither a subclass, which a flag is


def _is_string(value: object) -> bool:
    return value.__class__ is str


def _number_in(values: tuple[Number, ...]) -> Check:
    wanted = frozenset(values)
    return lambda value: value.__class__ in _NUMBERS and value in wanted


def _in_range(ranges: tuple[tuple[Number, Number], ...]) -> Check:
    return lambda value: (
        value.__class__ in _NUMBERS and any(low <= value <= high for low, high in ranges)
    )


def _less(values: tuple[Number, ...]) -> Check:
    (limit,) = values
    return lambda value: value.__class__ in _NUMBERS and value < limit


def _less_or_equal(values: tuple[Number, ...]) -> Check:
    (limit,) = values
    return lambda value: value.__class__ in _NUMBERS and value <= limit


def _greater(values: tuple[Number, ...]) -> Check:
    (limit,) = values
    return lambda value: value.__class__ in _NUMBERS and value > limit


def _greater_or_equal(values: tuple[Number, ...]) -> Check:
    (limit,) = values
    return lambda value: value.__class__ in _NUMBERS and value >= limit


def _bool_equals(values: tuple[bool, ...]) -> Check:
    (wanted,) = values
    return lambda value: value is wanted


def _string_in(values: tuple[str, ...]) -> Check:
    wanted = frozenset(map(fold_case, values))
    return lambda value: value.__class__ is str and value in wanted


def _contains(values: tuple[str, ...]) -> Check:
    wanted = tuple(map(fold_case, values))
    return lambda value: value.__class__ is str and any(part in value for part in wanted)


def _begins_with(values: tuple[str, ...]) -> Check:
    wanted = tuple(map(fold_case, values))
    return lambda value: value.__class__ is str and value.startswith(wanted)


def _ends_with(values: tuple[str, ...]) -> Check:
    wanted = tuple(map(fold_case, values))
    return lambda value: value.__class__ is str and value.endswith(wanted)


_CHECKS: dict[Operator, Callable[[Any], Check]] = {
    Operator.NUMBER_IN: _number_in,
    Operator.NUMBER_LESS_THAN: _less,
    Operator.NUMBER_LESS_THAN_OR_EQUALS: _less_or_equal,
    Operator.NUMBER_GREATER_THAN: _greater,
    Operator.NUMBER_GREATER_THAN_OR_EQUALS: _greater_or_equal,
    Operator.NUMBER_IN_RANGE: _in_range,
    Operator.BOOL_EQUALS: _bool_equals,
    Operator.STRING_IN: _string_in,
    Operator.STRING_CONTAINS: _contains,
    Operator.STRING_BEGINS_WITH: _begins_with,
    Operator.STRING_ENDS_WITH: _ends_with,
}
_NEGATIVE = {
    Operator.NUMBER_NOT_IN: Operator.NUMBER_IN,
    Operator.NUMBER_NOT_IN_RANGE: Operator.NUMBER_IN_RANGE,
    Operator.STRING_NOT_IN: Operator.STRING_IN,
    Operator.STRING_NOT_CONTAINS: Operator.STRING_CONTAINS,
    Operator.STRING_NOT_BEGINS_WITH: Operator.STRING_BEGINS_WITH,
    Operator.STRING_NOT_ENDS_WITH: Operator.STRING_ENDS_WITH,
}
_NUMERIC = frozenset({Operator.NUMBER_NOT_IN, Operator.NUMBER_NOT_IN_RANGE})
# "…, except NumberNotIn and StringNotIn"; of NumberNotInRange the documents say nothing.
_MATCH_MISSING = _NUMERIC | {Operator.STRING_NOT_IN}

OPERANDS = {
    Operator.NUMBER_IN: Operand.NUMBERS,
    Operator.NUMBER_NOT_IN: Operand.NUMBERS,
    Operator.NUMBER_LESS_THAN: Operand.NUMBER,
    Operator.NUMBER_LESS_THAN_OR_EQUALS: Operand.NUMBER,
    Operator.NUMBER_GREATER_THAN: Operand.NUMBER,
    Operator.NUMBER_GREATER_THAN_OR_EQUALS: Operand.NUMBER,
    Operator.NUMBER_IN_RANGE: Operand.RANGES,
    Operator.NUMBER_NOT_IN_RANGE: Operand.RANGES,
    Operator.BOOL_EQUALS: Operand.FLAG,
    Operator.IS_NULL_OR_UNDEFINED: Operand.NOTHING,
    Operator.IS_NOT_NULL: Operand.NOTHING,
}  # and the others Takes.STRINGS
