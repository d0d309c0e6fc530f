"""Metrics of topics and subscriptions, as Azure Monitor answers them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest

from pushgrid.testing.memory import START
from shared.engine.operations.metric_names import TOPIC_METRICS
from shared.engine.operations.metrics_query import parse_query
from shared.errors import InvalidDocument
from shared.metrics import DEFINITIONS, Metric, Series, Sum
from tests.builders import a_minute
from tests.functional.manage.arm_api import CRM, ORDERS, ArmApi, hook

METRICS = "/providers/Microsoft.Insights/metrics"
EXTENSION = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def counted(orders: ArmApi) -> ArmApi:
    """Two subscriptions; it is 12:00. Each minute of the last hour: 1 delivered, by each."""
    for name in ("crm", "erp"):
        orders.json("PUT", f"{ORDERS}/eventSubscriptions/{name}", hook(), status=201)
    for number in range(60):
        at = START - HOUR + number * MINUTE
        for name in ("crm", "erp"):
            count(orders, at, name, Metric.DELIVERY_SUCCESS, 1)
        count(orders, at, "", Metric.DELIVERY_SUCCESS, 2)
    return orders


def count(
    api: ArmApi,
    at: datetime,
    name: str,
    metric: Metric,
    *values: float,
    dimensions: tuple[tuple[str, str], ...] = (),
    instance: str = "a",
) -> None:
    series = Series(metric, dimensions)
    row = a_minute({}, start=at, subscription=name, instance=f"{instance}{metric}{dimensions}")
    api.counts.write([row._replace(counts={series: Sum.of(values)})])


def ask(api: ArmApi, resource: str, **query: str) -> Any:
    return api.json("GET", _target(resource, **query))


def series(api: ArmApi, resource: str, **query: str) -> dict[str, list[Any]]:
    """Ask for one metric; return its values by the values of its dimensions."""
    (metric,) = ask(api, resource, **query)["value"]
    return {
        "/".join(value["value"] for value in each["metadatavalues"]): [
            next((point[key] for key in point if key != "timeStamp"), None)
            for point in each["data"]
        ]
        for each in metric["timeseries"]
    }


def _target(resource: str, **query: str) -> str:
    named = {"metricnames": "DeliverySuccessCount"} | query
    pairs = [f"{'$filter' if n == 'filter' else n}={quote(v)}" for n, v in named.items() if v]
    return f"{resource}{METRICS}?{'&'.join(pairs)}"


@pytest.mark.parametrize(
    ("resource", "expected"), [(ORDERS, 2), (CRM, 1), (EXTENSION, 1), (CRM.upper(), 1)]
)
def test_a_topic_sums_over_its_subscriptions(counted: ArmApi, resource: str, expected: int) -> None:
    """The last hour by minute, where nothing else is asked for."""
    assert series(counted, resource) == {"": [expected] * 60}


@pytest.mark.parametrize(
    ("interval", "expected"),
    [("PT5M", [5] * 12), ("pt1h", [60]), ("FULL", [60])],
)
def test_intervals_add_up(counted: ArmApi, interval: str, expected: list[int]) -> None:
    assert series(counted, CRM, interval=interval) == {"": expected}


def test_intervals_begin_on_the_clock(counted: ArmApi) -> None:
    """A span that begins within one has all of it."""
    query = {"timespan": "2026-02-09T11:40:00Z/2026-02-09T13:10:00Z", "interval": "PT1H"}

    (metric,) = ask(counted, CRM, **query)["value"]

    assert metric["timeseries"][0]["data"] == [
        {"timeStamp": f"2026-02-09T{hour}:00:00Z", "total": total}
        for hour, total in ((11, 60.0), (12, 0.0), (13, 0.0))
    ]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("", 40), ("average", 40), ("Total", 80), ("Count", 2), ("Minimum", 20), ("Maximum", 60)],
)
def test_each_aggregation(counted: ArmApi, aggregation: str, expected: float) -> None:
    """Without one, that which Event Grid documents: the average of durations."""
    name = Metric.PROCESSING_DURATION
    count(counted, START - HOUR, "crm", name, 20, 60)

    found = series(counted, CRM, metricnames=name, aggregation=aggregation)

    rest = 0 if aggregation in {"Total", "Count"} else None
    assert found == {"": [expected] + [rest] * 59}


def test_all_metrics_of_the_kind_where_none_is_named(counted: ArmApi) -> None:
    of_subscription = [each for each in DEFINITIONS if not DEFINITIONS[each].is_of_topic]

    for resource, expected in ((ORDERS, list(DEFINITIONS)), (CRM, of_subscription)):
        found = ask(counted, resource, metricnames="", interval="FULL")["value"]
        assert [each["name"]["value"] for each in found] == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("", {"": 7}),
        ("DropReason eq '*'", {"X": 5, "Y's": 2}),
        ("dropreason EQ 'x'", {"X": 5}),
        ("DropReason eq 'X' or DropReason eq 'Y''s'", {"X": 5, "Y's": 2}),
        ("DropReason eq 'Z'", {}),
        ("EventSubscriptionName eq '*'", {"crm": 3, "erp": 4}),
        ("EventSubscriptionName eq 'CRM' and DropReason eq '*'", {"crm/X": 1, "crm/Y's": 2}),
        pytest.param("DropReason" + " " * 200_000 + "eq 'X'", {"X": 5}, id="blanks"),
        ("((DropReason eq 'X') or (DropReason eq 'z'))", {"X": 5}),
        ("DropReason eq ' and '' or ' or DropReason eq 'X'", {"X": 5}),
    ],
)
def test_a_filter_chooses_and_divides(
    counted: ArmApi, condition: str, expected: dict[str, int]
) -> None:
    for name, reason, number in (("crm", "X", 1), ("crm", "Y's", 2), ("erp", "X", 4)):
        for owner in (name, ""):
            dimensions = (("DropReason", reason),)
            at, dropped = START - MINUTE, Metric.DROPPED
            count(counted, at, owner, dropped, number, dimensions=dimensions, instance=name)

    query = {"metricnames": Metric.DROPPED, "interval": "FULL", "filter": condition}
    found = series(counted, ORDERS, **query)

    assert {key: total for key, (total,) in found.items()} == expected


@pytest.mark.parametrize(
    ("query", "target", "words"),
    [
        ({"metricnames": "Nonsense"}, "metricnames", ["Nonsense", *DEFINITIONS]),
        ({"aggregation": "median"}, "aggregation", ["median", "Average"]),
        ({"interval": "PT2M"}, "interval", ["PT1M", "P1D"]),
        ({"timespan": "yesterday"}, "timespan", ["ISO 8601"]),
        ({"timespan": "2020-02-09T11:00:00Z/2026-02-09T10:00:00Z"}, "interval", ["points"]),
        ({"filter": "DropReason eq '*'"}, "$filter", ["DeliverySuccessCount", "DropReason"]),
        ({"filter": "DropReason ne 'X'"}, "$filter", ["can't be read"]),
        ({"filter": "DropReason eq 'X' or Error eq 'Y'"}, "$filter", ["can't be read"]),
        ({"filter": "'X' eq 'X'"}, "$filter", ["can't be read", "a name is missing"]),
        ({"filter": "(DropReason eq 'X'"}, "$filter", ["can't be read", "')' is missing"]),
        ({"filter": "DropReason eq 'X' x"}, "$filter", ["can't be read", "unexpected x"]),
        ({"metricnames": "", "filter": "Nonsense eq '*'"}, "$filter", ["no dimension nonsense"]),
    ],
)
def test_what_can_not_be_answered_is_named(
    counted: ArmApi, query: dict[str, str], target: str, words: list[str]
) -> None:
    error = counted.error("GET", _target(ORDERS, **query), status=400)

    assert (error["code"], error["target"]) == ("BadRequest", target)
    assert [word for word in words if word.lower() not in error["message"].lower()] == []


def test_a_storage_that_fails_is_no_zero(counted: ArmApi) -> None:
    counted.counts.fail_next("minutes")

    assert counted.error("GET", _target(ORDERS), status=503)["code"] == "ServiceUnavailable"


def test_only_what_is_kept_is_read_however_long_the_time_span(
    counted: ArmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each day is a table: all of history would keep storage busy for minutes."""
    minutes = Mock(wraps=counted.counts.minutes)
    monkeypatch.setattr(counted.counts, "minutes", minutes)

    for timespan in ("0001-01-01T00:00:00Z/9999-12-31T00:00:00Z", "1000-01-01/1000-01-02"):
        ask(counted, CRM, timespan=timespan, interval="FULL")

    (asked,) = minutes.call_args_list
    assert asked.args[3] - asked.args[2] == timedelta(days=31)


@pytest.mark.parametrize(
    "timespan",
    [
        "2026-02-09T11:30:00Z/2026-02-09T12:00:00Z",
        "2026-02-09T12:30+01:00/2026-02-09T13:00 01:00",
        "2026-02-09T11:30:00Z/PT30M",
        " 2026-02-09T11:30:00Z / PT1800.0S ",
        "PT1800.0S",
        "2026-02-09T11%3A30%3A00.000000/2026-02-09T12%3A00%3A00.000000",
    ],
)
def test_a_time_span_is_two_times_or_a_duration(timespan: str) -> None:
    """azure-monitor-query writes durations as seconds (alone, one ends now); `az` encodes twice."""
    query = parse_query({"timespan": timespan, "interval": "FULL"}, START, TOPIC_METRICS)

    assert (query.since, query.until) == (START - timedelta(minutes=30), START)


@pytest.mark.parametrize(
    ("timespan", "words"),
    [
        *((each, "ISO 8601") for each in ("", "/P1D", "P1D/P1D", "P", "a/b/c")),
        *((each, "ISO 8601") for each in ("P999999D", "9999-12-31/P1D")),
        ("0001-01-01T00:00:00+14:00/2026-02-09", "ISO 8601"),
        *((each, "before it begins") for each in ("PT0S", "2026-02-09/2026-02-08")),
    ],
)
def test_any_other_time_span_is_refused(timespan: str, words: str) -> None:
    with pytest.raises(InvalidDocument, match=words) as refused:
        parse_query({"timespan": timespan}, START, TOPIC_METRICS)

    assert [fault.target for fault in refused.value.faults] == ["timespan"]
