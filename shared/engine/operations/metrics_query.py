"""Reads the query of a metrics request, in Azure Monitor's terms, and reports all its errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote

from shared.arm.odata import Tokens
from shared.engine.operations.metric_names import MetricDefinition
from shared.errors import Fault, InvalidDocument
from shared.events.iso_8601 import parse_duration

FULL = "FULL"  # the interval that is the whole time span
INTERVALS = {
    "PT1M": timedelta(minutes=1),
    "PT5M": timedelta(minutes=5),
    "PT15M": timedelta(minutes=15),
    "PT30M": timedelta(minutes=30),
    "PT1H": timedelta(hours=1),
    "PT6H": timedelta(hours=6),
    "PT12H": timedelta(hours=12),
    "P1D": timedelta(days=1),
}
AGGREGATIONS = ("Average", "Count", "Maximum", "Minimum", "Total")
MAX_POINTS = 50_000  # of one answer
_MAX_TOKENS = 4000  # of a $filter: a thousand values of a dimension


class DimensionFilter(NamedTuple):
    """A filter on one dimension: lower-case values, ``*`` for all; each value is a series."""

    dimension: str
    values: frozenset[str]

    def accepts(self, value: str) -> bool:
        return "*" in self.values or value.lower() in self.values


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsQuery:
    """A request for metrics."""

    metrics: tuple[MetricDefinition, ...]
    since: datetime
    until: datetime  # excluded
    interval: timedelta
    interval_name: str  # the client's spelling
    aggregations: tuple[str, ...]  # empty: each metric's own
    filters: tuple[DimensionFilter, ...]


def parse_query(
    query: Mapping[str, str], now: datetime, known: Sequence[MetricDefinition]
) -> MetricsQuery:
    """
    Read the query parameters; *query* has lower-case names, *known* are the resource's metrics.

    Raises:
        InvalidDocument: with all errors.

    Source: Azure Monitor REST API, Metrics - List (2023-10-01).
    """
    faults: list[Fault] = []
    by_name = {each.name: each for each in known}
    asked = _chosen("metricnames", query, by_name, faults)
    metrics = tuple(by_name[name] for name in asked) or tuple(known)
    aggregations = _chosen("aggregation", query, AGGREGATIONS, faults)
    since, until = _timespan(query.get("timespan"), now, faults)
    name = query.get("interval", "PT1M").upper()
    if name != FULL and name not in INTERVALS:
        _fault(faults, "interval", f"The interval is one of {', '.join([*INTERVALS, FULL])}.")
    interval = INTERVALS.get(name, until - since)
    filters = _filters(query.get("$filter", ""), metrics, faults)
    if not faults:
        since = _floor(since, interval if name != FULL else timedelta(minutes=1))
        interval = INTERVALS.get(name, until - since)
        if (until - since) / interval * len(metrics) > MAX_POINTS:
            _fault(faults, "interval", f"More than {MAX_POINTS} points: ask for a longer interval.")
    if faults:
        message = faults[0].message if len(faults) == 1 else "The request for metrics is invalid."
        raise InvalidDocument(message, faults=tuple(faults))
    return MetricsQuery(
        metrics=metrics,
        since=since,
        until=until,
        interval=interval,
        interval_name=name,
        aggregations=aggregations,
        filters=filters,
    )


def timestamp(moment: datetime) -> str:
    """Write *moment* as Azure Monitor does."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _chosen(
    parameter: str, query: Mapping[str, str], valid: Collection[str], faults: list[Fault]
) -> tuple[str, ...]:
    names = {each.lower(): str(each) for each in valid}
    asked = [each.strip() for each in query.get(parameter, "").split(",") if each.strip()]
    if unknown := [each for each in asked if each.lower() not in names]:
        message = f"{', '.join(unknown)}: not found in {parameter}. Valid: {', '.join(valid)}."
        _fault(faults, parameter, message)
        return ()
    return tuple(dict.fromkeys(names[each.lower()] for each in asked))


def _timespan(text: str | None, now: datetime, faults: list[Fault]) -> tuple[datetime, datetime]:
    """Return start and end; default is the last hour. A duration alone ends now."""
    if text is None:
        return now - timedelta(hours=1), now
    try:
        since, until = _ends(text.strip(), now)
    except (ValueError, OverflowError):  # the first and the last day, in another time zone
        _fault(
            faults,
            "timespan",
            "The timespan must be two ISO 8601 times separated by '/', a start time and a "
            "duration separated by '/', or a duration.",
        )
        return now, now
    if since >= until:
        _fault(faults, "timespan", "The timespan ends before it begins.")
    return since, until


def _ends(text: str, now: datetime) -> tuple[datetime, datetime]:
    # `az monitor` encodes it twice; unencoded, a timespan has no percent sign.
    first, _, last = (part.strip() for part in unquote(text).partition("/"))
    if not last and (duration := parse_duration(first)) is not None:
        return now - duration, now
    since, duration = _moment(first), parse_duration(last)
    return since, _moment(last) if duration is None else since + duration


def _moment(text: str) -> datetime:
    # A plus that isn't encoded arrives as a blank, and then between two digits.
    moment = datetime.fromisoformat(text.replace(" ", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _filters(
    text: str, metrics: Sequence[MetricDefinition], faults: list[Fault]
) -> tuple[DimensionFilter, ...]:
    """Read ``A eq 'x' and (B eq 'y' or B eq 'z')``."""
    try:
        chosen = _chosen_values(Tokens(text, _MAX_TOKENS)) if text.strip() else []
    except ValueError as error:
        _fault(faults, "$filter", f"The $filter can't be read: {error}.")
        return ()
    filters: list[DimensionFilter] = []
    for name, values in chosen:
        for metric in metrics:
            valid = {each.lower(): each for each in metric.dimensions}
            if name not in valid:
                all_of_it = ", ".join(metric.dimensions) or "none"
                message = f"{metric.name} has no dimension {name}; valid: {all_of_it}."
                _fault(faults, "$filter", message)
                break
        else:
            filters.append(DimensionFilter(valid[name], frozenset(values)))
    return tuple(filters)


def _chosen_values(tokens: Tokens) -> list[tuple[str, list[str]]]:
    """
    Return dimensions and their values; ``or`` adds a value to the dimension before it.

    Parentheses change nothing, since ``or`` stands between values of one dimension only.

    Raises:
        ValueError: the filter has another form.
    """
    chosen: list[tuple[str, list[str]]] = []
    depth, follows = 0, "and"
    while follows:
        while tokens.take("("):
            depth += 1
        name = tokens.take_word()
        tokens.expect("eq")
        value = tokens.take_text().lower()
        if follows == "and":
            chosen.append((name, [value]))
        elif chosen[-1][0] == name:
            chosen[-1][1].append(value)
        else:
            raise ValueError(f"or is between {chosen[-1][0]} and {name}")
        while depth and tokens.take(")"):
            depth -= 1
        follows = next((each for each in ("and", "or") if tokens.take(each)), "")
    if depth:
        tokens.expect(")")
    tokens.end()
    return chosen


def _floor(moment: datetime, interval: timedelta) -> datetime:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (moment - midnight) // interval * interval


def _fault(faults: list[Fault], target: str, message: str) -> None:
    faults.append(Fault(code="BadRequest", message=message, target=target))
