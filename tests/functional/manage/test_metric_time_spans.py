"""The time spans that metrics are asked for, in every form that Azure Monitor's clients write."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.engine.operations.metric_names import TOPIC_METRICS
from shared.engine.operations.metrics_query import parse_query
from shared.errors import InvalidDocument
from tests.fakes import START

HALF = timedelta(minutes=30)  # START is 2026-02-09, 12:00


@pytest.mark.parametrize(
    "timespan",
    [
        "2026-02-09T11:30:00Z/2026-02-09T12:00:00Z",
        "2026-02-09T12:30+01:00/2026-02-09T13:00 01:00",
        "2026-02-09T11:30:00Z/PT30M",
        " 2026-02-09T11:30:00Z / PT1800.0S ",
        "PT30M",
        "PT1800.0S",
    ],
)
def test_a_span_is_two_times_or_a_duration(timespan: str) -> None:
    """azure-monitor-query writes durations as seconds; alone, one ends now."""
    query = parse_query({"timespan": timespan, "interval": "FULL"}, START, TOPIC_METRICS)

    assert (query.since, query.until) == (START - HALF, START)


@pytest.mark.parametrize(
    ("timespan", "words"),
    [
        *((each, "ISO 8601") for each in ("", "/", "/P1D", "P1D/P1D", "P", "PT", "now", "a/b/c")),
        *((each, "ISO 8601") for each in ("P999999Y", "P999999D", "9999-12-31/P1D")),
        ("0001-01-01T00:00:00+14:00/2026-02-09", "ISO 8601"),
        ("2026-02-09/9999-12-31T23:59:59-14:00", "ISO 8601"),
        *((each, "before it begins") for each in ("PT0S", "2026-02-09/PT0S")),
    ],
)
def test_anything_else_is_refused(timespan: str, words: str) -> None:
    with pytest.raises(InvalidDocument, match=words) as refused:
        parse_query({"timespan": timespan}, START, TOPIC_METRICS)

    assert [fault.target for fault in refused.value.faults] == ["timespan"]
