"""Advanced filters: the values that keys lead to, and all operators beside a slow reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.events.event import Event
from shared.events.topic import InputSchema
from shared.subscriptions.advanced_filter import FilterOperator
from shared.subscriptions.event_values import EventValues
from tests.unit.arm.documents import subscription

NOTHING = object()  # the key is missing
LARGE = 2**53 + 1

SWITCH = "enableAdvancedFilteringOnArrays"
EXISTENCE = {FilterOperator.IS_NULL_OR_UNDEFINED, FilterOperator.IS_NOT_NULL}


def asked(
    operator: str, given: dict[str, Any], *, on_arrays: bool = False
) -> Callable[[Any], bool]:
    """Ask the product: a stored subscription with one filter, and events with one value each."""
    document = {"operatorType": operator.lower(), "key": "data.a.b", **given}
    stored = subscription(
        filter={"advancedFilters": [document], "enableAdvancedFilteringOnArrays": on_arrays}
    )
    wanted = to_subscription(stored).filter

    def matches(value: Any) -> bool:
        members = {"eventType": "t", "data": {"a": {} if value is NOTHING else {"b": value}}}
        event = Event(schema=InputSchema.EVENT_GRID, members=members, text="")
        return wanted.matches(EventValues(event))

    return matches


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


@pytest.mark.parametrize("key", ["data.Kind", "Data.KIND", "data.kind"])
@pytest.mark.parametrize(
    ("operator", "given", "expected"),
    [
        ("StringIn", {"values": ["a"]}, True),
        ("StringNotIn", {"values": ["a"]}, False),
        ("IsNullOrUndefined", {}, False),
        ("IsNotNull", {}, True),
    ],
)
def test_case_does_not_count_in_names(
    key: str, operator: str, given: dict[str, Any], *, expected: bool
) -> None:
    """A look-up that misses would turn round those with ``Not`` and ``Null``."""
    members = {"data": {"kinD": "a"}}

    assert wants(members, {"operatorType": operator, "key": key, **given}) is expected


@pytest.mark.parametrize(
    ("operator", "given", "is_true"),
    [
        (FilterOperator.NUMBER_IN, {"values": [LARGE]}, True),
        (FilterOperator.NUMBER_NOT_IN, {"values": [LARGE]}, False),
        (FilterOperator.NUMBER_IN_RANGE, {"values": [[LARGE, LARGE]]}, True),
        (FilterOperator.NUMBER_LESS_THAN_OR_EQUALS, {"value": LARGE}, True),
    ],
)
def test_whole_numbers_beyond_doubles_are_compared_as_doubles(
    operator: FilterOperator, given: dict[str, Any], *, is_true: bool
) -> None:
    """A filter's number is a double: 2^53 + 1 would else be unequal to itself."""
    assert asked(operator, given)(LARGE) is is_true
    assert asked(operator, given, on_arrays=True)([LARGE]) is is_true
    assert asked(FilterOperator.NUMBER_GREATER_THAN, {"value": 1})(10**400)


def test_all_filters_must_match_including_those_of_one_key() -> None:
    more = {"operatorType": "NumberGreaterThan", "key": "data.n", "value": 1}
    less = {"operatorType": "NumberLessThan", "key": "data.n", "value": 5}

    matched = [wants({"data": {"n": number}}, more, less) for number in (1, 1.1, 4.9, 5)]

    assert matched == [False, True, True, False]


@pytest.mark.parametrize(
    ("operator", "refused"),
    [
        ("StringIn", "data.a StringIn 'x'; the event has an array, which needs " + SWITCH),
        ("IsNullOrUndefined", "data.a IsNullOrUndefined; the event has ('x',)"),
        ("IsNotNull", None),
    ],
)
def test_an_array_is_refused_for_want_of_the_switch_only_where_the_switch_helps(
    operator: str, refused: str | None
) -> None:
    values = {"values": ["x"]} if operator == "StringIn" else {}
    wanted = {"operatorType": operator, "key": "data.a", **values}
    stored = subscription(filter={"advancedFilters": [wanted]})
    members = {"eventType": "t", "data": {"a": ["x"]}}
    event = Event(schema=InputSchema.EVENT_GRID, members=members, text="")

    refusal = to_subscription(stored).filter.refusal(EventValues(event))

    assert (refusal and refusal.why) == refused


JSON_TEXT = "; it seems to be JSON in a string: publish the object itself"


@pytest.mark.parametrize(
    ("members", "has"),
    [
        ({"data": "x"}, "data is text, not an object"),
        ({"data": ""}, "data is text, not an object"),
        (
            {"data": ' {"a": {"b": 1}}'},
            "data is text, not an object" + JSON_TEXT,
        ),
        ({"data": {"a": "x"}}, "data.a is text, not an object"),
        ({"data": {"a": {"b": "x"}}}, None),
        ({"data": [{"a": 1}]}, "data is an array, not an object"),
        ({"data": 1.5}, "data is a number, not an object"),
        ({"data": True}, "data is true or false, not an object"),
        ({"data": None}, "data is null, not an object"),
        ({"data": {"a": {}}}, "the event has no data.a.b"),
        ({"data": {}}, "the event has no data.a.b"),
        ({}, "the event has no data.a.b"),
        (
            {"data_base64": "eA=="},
            "the event has data_base64 instead of data, and no key leads into it",
        ),
    ],
)
def test_a_value_that_is_missing_below_what_is_no_object_is_explained(
    members: dict[str, Any], has: str | None
) -> None:
    wanted = {"operatorType": "StringContains", "key": "data.a.b", "values": ["x"]}
    stored = subscription(filter={"advancedFilters": [wanted]})
    event = Event(schema=InputSchema.CLOUD_EVENTS, members={"type": "t", **members}, text="")

    refusal = to_subscription(stored).filter.refusal(EventValues(event))

    assert (refusal and refusal.why) == (has and f"data.a.b StringContains 'x'; {has}")


# --- a reference, slow and written from the documents alone
# Source: "Understand event filtering" (2022-09-09)

NUMBERS = [0, -0.0, 1, 1.5, 2, -1, 4, 9, 14.5, 10**15, 2**53, 1e300]
WORDS = ["", "a", "A", "ab", "aB", "b", "ß", "SS", "ss", "ba", "straße", "É", "é"]
PAIRED: list[Any] = [None, True, 0, 1, 1.5, "a", "AB", "ß", ""]
SCALARS: list[Any] = [None, True, False, *NUMBERS, *WORDS]
VALUES: list[Any] = [
    *(NOTHING, {}, {"b": 1}, [], [[1], {}], [{"b": "a"}, "a"]),
    *(*SCALARS, *([each] for each in SCALARS)),
    *([one, other] for one in PAIRED for other in PAIRED),
]
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
    is_missing = value is None or value is NOTHING
    if operator in EXISTENCE:
        return is_missing is (operator == "IsNullOrUndefined")
    if is_missing:
        return operator in ("NumberNotIn", "StringNotIn", "NumberNotInRange")
    if isinstance(value, list) and not on_arrays:
        return False
    elements = value if isinstance(value, list) else [value]
    usable = [each for each in elements if type(each) in types_of(operator)]
    if not usable and not isinstance(value, list):
        return False
    test = POSITIVE[operator.replace("Not", "")]
    found = any(test(each, wanted) for each in usable for wanted in given)
    return not found if "Not" in operator else found


def types_of(operator: str) -> tuple[type, ...]:
    if operator.startswith("Number"):
        return (int, float)
    return (bool,) if operator == "BoolEquals" else (str,)


def givens(operator: str) -> list[list[Any]]:
    """Return what the operator may be given: one value, and several where it takes them."""
    if operator in EXISTENCE:
        return [[]]
    if operator == "BoolEquals":
        return [[True], [False]]
    if "Range" in operator:
        return [[[0, 1]], [[1, 1]], [[-1, 2], [9, 1e300]]]
    usable: list[Any] = NUMBERS if operator.startswith("Number") else WORDS
    several = [] if "Than" in operator else [usable[:3], usable[3:6]]
    return [*([each] for each in usable), *several]


@pytest.mark.parametrize("on_arrays", [False, True])
@pytest.mark.parametrize("operator", FilterOperator)
def test_the_product_agrees_with_the_reference(
    operator: FilterOperator, *, on_arrays: bool
) -> None:
    for given in givens(operator):
        has_one = operator == "BoolEquals" or "Than" in operator
        members = {"value": given[0]} if has_one else {"values": given or None}
        matches = asked(operator, members, on_arrays=on_arrays)

        found = [matches(value) for value in VALUES]

        expected = [reference(operator, each, given, on_arrays=on_arrays) for each in VALUES]
        assert found == expected, given
