"""Advanced filters: a truth table of operator and shape of value, and a slow reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.arm.subscription_codec import to_subscription
from shared.events.event import Event
from shared.events.topic import InputSchema
from shared.subscriptions.advanced_filter import FilterOperator
from shared.subscriptions.event_values import EventValues
from tests.unit.arm.documents import subscription

NOTHING = object()  # the key is missing

# What an operator is given, a value it is true of, one of the same type it is false of, and one of
# another type. Source: "Understand event filtering" (2022-09-09).
OPERATORS: dict[FilterOperator, tuple[dict[str, Any], Any, Any, Any]] = {
    FilterOperator.NUMBER_IN: ({"values": [3, 14.5]}, 14.5, 4, "3"),
    FilterOperator.NUMBER_NOT_IN: ({"values": [3, 14.5]}, 4, 3, "4"),
    FilterOperator.NUMBER_LESS_THAN: ({"value": 100}, 99.9, 100, "99"),
    FilterOperator.NUMBER_LESS_THAN_OR_EQUALS: ({"value": 100}, 100, 100.1, "99"),
    FilterOperator.NUMBER_GREATER_THAN: ({"value": 20}, 20.1, 20, True),
    FilterOperator.NUMBER_GREATER_THAN_OR_EQUALS: ({"value": 20}, 20, 19, True),
    FilterOperator.NUMBER_IN_RANGE: ({"values": [[3, 4], [8, 9]]}, 9, 5, "3"),
    FilterOperator.NUMBER_NOT_IN_RANGE: ({"values": [[3, 4], [8, 9]]}, 5, 8, "5"),
    FilterOperator.BOOL_EQUALS: ({"value": True}, True, False, 1),
    FilterOperator.STRING_IN: ({"values": ["Small", "large"]}, "sMALL", "smal", 1),
    FilterOperator.STRING_NOT_IN: ({"values": ["Small", "large"]}, "smal", "LARGE", 1),
    FilterOperator.STRING_CONTAINS: ({"values": ["Ab", "x"]}, "zaBz", "za", 1),
    FilterOperator.STRING_NOT_CONTAINS: ({"values": ["Ab", "x"]}, "za", "zaBz", 1),
    FilterOperator.STRING_BEGINS_WITH: ({"values": ["Ab", "x"]}, "aBz", "zab", True),
    FilterOperator.STRING_NOT_BEGINS_WITH: ({"values": ["Ab", "x"]}, "zab", "abz", True),
    FilterOperator.STRING_ENDS_WITH: ({"values": ["Ab", "x"]}, "zAB", "abz", 1),
    FilterOperator.STRING_NOT_ENDS_WITH: ({"values": ["Ab", "x"]}, "abz", "zAB", 1),
    FilterOperator.IS_NULL_OR_UNDEFINED: ({}, None, "a", 1),
    FilterOperator.IS_NOT_NULL: ({}, "a", None, None),
}
NEGATIVE = {each for each in FilterOperator if "Not" in each} - {FilterOperator.IS_NOT_NULL}
EXISTENCE = {FilterOperator.IS_NULL_OR_UNDEFINED, FilterOperator.IS_NOT_NULL}
MATCH_MISSING = {
    *(
        FilterOperator.NUMBER_NOT_IN,
        FilterOperator.STRING_NOT_IN,
        FilterOperator.NUMBER_NOT_IN_RANGE,
    ),
    FilterOperator.IS_NULL_OR_UNDEFINED,
}
COMPARING = sorted(set(FilterOperator) - EXISTENCE)


def verdict(
    operator: FilterOperator,
    value: Any,
    *,
    on_arrays: bool = False,
    given: dict[str, Any] | None = None,
) -> bool:
    """Ask the product: a stored subscription with one filter, and an event with one value."""
    document = {"operatorType": operator.lower(), "key": "data.a.b"}
    document |= OPERATORS[operator][0] if given is None else given
    stored = subscription(
        filter={"advancedFilters": [document], "enableAdvancedFilteringOnArrays": on_arrays}
    )
    data = {"a": {} if value is NOTHING else {"b": value}}
    event = Event(schema=InputSchema.EVENT_GRID, members={"eventType": "t", "data": data}, text="")
    return to_subscription(stored).filter.matches(EventValues(event))


def test_the_table_has_every_operator() -> None:
    assert (set(OPERATORS), len(OPERATORS)) == (set(FilterOperator), 19)


@pytest.mark.parametrize("operator", COMPARING)
def test_a_value_of_its_type_decides(operator: FilterOperator) -> None:
    _, right, wrong, _ = OPERATORS[operator]

    assert (verdict(operator, right), verdict(operator, wrong)) == (True, False)


@pytest.mark.parametrize("operator", COMPARING)
@pytest.mark.parametrize("value", ["of another type", {}, {"b": 1}])
def test_a_value_of_another_type_never_matches(operator: FilterOperator, value: Any) -> None:
    other = OPERATORS[operator][3] if value == "of another type" else value

    assert not verdict(operator, other)


@pytest.mark.parametrize("value", [NOTHING, None], ids=["missing", "null"])
@pytest.mark.parametrize("operator", FilterOperator)
def test_only_some_operators_match_a_missing_value(operator: FilterOperator, value: object) -> None:
    assert verdict(operator, value) is (operator in MATCH_MISSING)
    assert verdict(operator, value, on_arrays=True) is (operator in MATCH_MISSING)


@pytest.mark.parametrize("value", [0, "", False, [], [None], {}])
def test_every_value_but_null_is_not_null(value: object) -> None:
    assert verdict(FilterOperator.IS_NOT_NULL, value)
    assert not verdict(FilterOperator.IS_NULL_OR_UNDEFINED, value)


@pytest.mark.parametrize("operator", COMPARING)
def test_an_array_never_matches_unless_asked_for(operator: FilterOperator) -> None:
    _, right, wrong, other = OPERATORS[operator]

    assert not any(verdict(operator, each) for each in ([right], [wrong], [other], []))


@pytest.mark.parametrize("operator", COMPARING)
def test_an_array_matches_by_its_elements(operator: FilterOperator) -> None:
    _, right, wrong, other = OPERATORS[operator]
    is_negative = operator in NEGATIVE

    def on_array(*values: Any) -> bool:
        return verdict(operator, list(values), on_arrays=True)

    assert on_array(right)
    assert not on_array(wrong)
    assert on_array(wrong, right) is not is_negative  # any element, or: none of them
    assert on_array(other, right)  # another type is skipped
    assert on_array(other) is is_negative
    assert on_array() is is_negative
    assert on_array([right], {"b": right}) is is_negative  # no way into them


def wants(members: dict[str, Any], *filters: dict[str, Any]) -> bool:
    stored = subscription(filter={"advancedFilters": list(filters)})
    event = Event(schema=InputSchema.EVENT_GRID, members={"eventType": "t", **members}, text="")
    return to_subscription(stored).filter.matches(EventValues(event))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("Subject", "/Orders/17"),
        ("ID", "e-0"),
        ("eventType", "t"),
        ("DATAVERSION", "1.0"),
        ("topic", "/t"),
        ("data.kind", "k"),
        ("Data.kind", "k"),
        ("data.deep.er.still", "d"),
    ],
)
def test_keys_lead_to_their_values(key: str, expected: str) -> None:
    data = {"kind": "k", "deep": {"er": {"still": "d"}}}
    members = {"id": "e-0", "topic": "/t", "subject": "/Orders/17", "dataVersion": "1.0"}

    assert wants(
        members | {"data": data}, {"operatorType": "StringIn", "key": key, "values": [expected]}
    )


def test_names_within_data_are_case_sensitive() -> None:
    assert not wants({"data": {"kind": 1}}, {"operatorType": "IsNotNull", "key": "data.Kind"})


def test_whole_numbers_beyond_doubles_are_compared_as_doubles() -> None:
    """A filter's number is a double: 2^53 + 1 would else be unequal to itself."""
    number = 2**53 + 1

    for operator in ("NumberIn", "NumberInRange", "NumberLessThanOrEquals"):
        given = {"values": [number]}
        if "Range" in operator:
            given = {"values": [[number, number]]}  # type: ignore[list-item]
        elif "Than" in operator:
            given = {"value": number}  # type: ignore[dict-item]
        assert verdict(FilterOperator(operator), number, given=given)
    assert not verdict(FilterOperator.NUMBER_NOT_IN, number, given={"values": [number]})
    assert not verdict(
        FilterOperator.NUMBER_NOT_IN, [number], on_arrays=True, given={"values": [number]}
    )
    assert verdict(FilterOperator.NUMBER_GREATER_THAN, 10**400, given={"value": 1})


def test_all_filters_must_match_including_those_of_one_key() -> None:
    more = {"operatorType": "NumberGreaterThan", "key": "data.n", "value": 1}
    less = {"operatorType": "NumberLessThan", "key": "data.n", "value": 5}

    matched = [wants({"data": {"n": number}}, more, less) for number in (1, 1.1, 4.9, 5)]

    assert matched == [False, True, True, False]


# --- a reference, slow and written from the documents alone

WORDS = st.sampled_from(["", "a", "A", "ab", "aB", "b", "ß", "SS", "ss", "ba", "straße", "É", "é"])
NUMBERS = st.sampled_from([0, -0.0, 1, 1.0, 1.5, 2, -1, 10**15, 2**53, 1e300])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
VALUES = st.one_of(
    st.just(NOTHING), SCALARS, st.lists(SCALARS, max_size=3), st.just({}), st.just([[1], {}])
)
POSITIVE: dict[str, Callable[[Any, Any], bool]] = {
    "NumberIn": lambda value, given: value == given,
    "NumberInRange": lambda value, given: given[0] <= value <= given[1],
    "NumberLessThan": lambda value, given: value < given,
    "NumberLessThanOrEquals": lambda value, given: value <= given,
    "NumberGreaterThan": lambda value, given: value > given,
    "NumberGreaterThanOrEquals": lambda value, given: value >= given,
    "BoolEquals": lambda value, given: value == given,
    "StringIn": lambda value, given: same(value) == same(given),
    "StringContains": lambda value, given: same(given) in same(value),
    "StringBeginsWith": lambda value, given: same(value).startswith(same(given)),
    "StringEndsWith": lambda value, given: same(value).endswith(same(given)),
}


def same(text: str) -> str:
    """Compare a character at a time: by its capital, where that is one."""
    return "".join(each.upper() if len(each.upper()) == 1 else each for each in text)


def reference(operator: str, value: Any, given: list[Any], *, on_arrays: bool) -> bool:
    """Say what the documents say, a rule at a time."""
    if operator in ("IsNotNull", "IsNullOrUndefined"):
        return (value in (None, NOTHING)) is (operator == "IsNullOrUndefined")
    if value in (None, NOTHING):
        return operator in ("NumberNotIn", "StringNotIn", "NumberNotInRange")
    if isinstance(value, list) and not on_arrays:
        return False
    types: tuple[type, ...] = (str,)
    if operator.startswith("Number"):
        types = (int, float)
    elif operator == "BoolEquals":
        types = (bool,)
    test = POSITIVE[operator.replace("Not", "")]
    elements = value if isinstance(value, list) else [value]
    usable = [
        each
        for each in elements
        if isinstance(each, types) and (bool in types or each not in FLAGS)
    ]
    if not usable and not isinstance(value, list):
        return False
    found = any(test(each, wanted) for each in usable for wanted in given)
    return not found if "Not" in operator else found


FLAGS = type("Flags", (), {"__contains__": lambda _, each: isinstance(each, bool)})()


@st.composite
def cases(draw: st.DrawFn) -> tuple[FilterOperator, Any, list[Any], bool]:
    operator = draw(st.sampled_from(FilterOperator))
    if operator in EXISTENCE:
        given: list[Any] = []
    elif "Range" in operator:
        given = draw(
            st.lists(st.lists(NUMBERS, min_size=2, max_size=2).map(sorted), min_size=1, max_size=3)
        )
    elif operator is FilterOperator.BOOL_EQUALS:
        given = [draw(st.booleans())]
    elif operator.startswith("Number"):
        most = 3 if "In" in operator else 1
        given = draw(st.lists(NUMBERS, min_size=1, max_size=most))
    else:
        given = draw(st.lists(WORDS, min_size=1, max_size=3))
    return operator, draw(VALUES), given, draw(st.booleans())


@given(cases())
@example((FilterOperator.NUMBER_IN, True, [1], True))
@example((FilterOperator.NUMBER_NOT_IN, [True], [1], True))
def test_the_product_agrees_with_the_reference(
    case: tuple[FilterOperator, Any, list[Any], bool],
) -> None:
    operator, value, given, on_arrays = case
    members: dict[str, Any] = {"values": given}
    if operator in EXISTENCE:
        members = {"values": None}
    elif operator is FilterOperator.BOOL_EQUALS or "Than" in operator:
        members = {"value": given[0]}

    told = verdict(operator, value, on_arrays=on_arrays, given=members)

    assert told is reference(operator, value, given, on_arrays=on_arrays)
