"""Defines the types of options: how their texts are parsed, and the errors of wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import isnan, nan
from typing import Any

import click

from cli.subscription.filter_expression import HINT, parse_filter_expression
from shared.subscriptions.request_limits import parse_limit

EVENT_GRID, CLOUD_EVENTS = "EventGridSchema", "CloudEventSchemaV1_0"
CUSTOM_INPUT = "CustomInputSchema"
_SHORT = {EVENT_GRID: "eventgrid", CLOUD_EVENTS: "cloudevents", CUSTOM_INPUT: "custom"}
_SPAN = re.compile(r"([0-9]{1,5})([mhd]?)")
_UNITS = {"": "minutes", "m": "minutes", "h": "hours", "d": "days"}
_FOREVER = timedelta(seconds=-1)


class ParsedText(click.ParamType[Any]):
    """What *parse* returns for a text; its ValueError is the message. *name* is the metavar."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value; click converts some values twice."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WholeNumber(click.IntRange):
    """A whole number in a range, which its errors name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an int."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is not a whole number {_bounds(self)}", param, ctx)


class NumberRange(click.FloatRange):
    """A number in a range, which its errors name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a float."""
        try:
            found = super().convert(value, param, ctx)
        except click.BadParameter:
            found = nan
        if isnan(found):
            self.fail(f"'{value}' is not a number {_bounds(self)}", param, ctx)
        return found


def _bounds(numbers: click.IntRange | click.FloatRange) -> str:
    if numbers.max is None:
        return f"of {numbers.min} or more"
    return f"from {numbers.min} to {numbers.max}"


class SchemaName(click.ParamType[Any]):
    """A schema of events, by Event Grid's name or the short one; of those in *names*."""

    name = "schema"

    def __init__(self, *names: str) -> None:
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return Event Grid's name."""
        found = [each for each in self._names if value.lower() in {each.lower(), _SHORT[each]}]
        if not found:
            known = ", ".join(f"{_SHORT[name]} ({name})" for name in self._names)
            self.fail(f"'{value}' is none of {known}", param, ctx)
        return found[0]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the short names."""
        del param, ctx
        return f"[{'|'.join(_SHORT[name] for name in self._names)}]"


def request_limit(unit: str = "") -> ParsedText:
    """Return the type of a limit of requests, as text; *unit* may follow, an empty text removes."""

    def parse(text: str) -> str:
        number = text.removesuffix(unit)
        try:
            return str(parse_limit(number)) if text else ""
        except ValueError as error:
            said = f"'{text}' {error}".removesuffix(", as text")
            per_second = f" requests a second: write 20{unit}" if unit else ""
            raise ValueError(said + per_second) from None

    return ParsedText(f"N{unit}", parse)


def _span(text: str) -> timedelta | None:
    found = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def _duration(text: str) -> timedelta:
    if not (span := _span(text)):
        raise ValueError(f"'{text}' is not a duration: write 90m, 6h or 2d")
    return span


def _since(text: str) -> datetime:
    try:
        span = None if text.isdecimal() else _span(text)
        if span is not None:
            return datetime.now(UTC) - span
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        message = f"'{text}' is not a time: write 6h, 2d or 2026-02-09T12:00"
        raise ValueError(message) from None


def _iso_time(text: str) -> str:
    try:
        if text:
            datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a time: write 2027-01-31T00:00:00Z") from None
    return text


def _name_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"'{text}' is not a pair: write name=value")
    return name, value


def _filter(text: str) -> dict[str, Any]:
    try:
        return parse_filter_expression(text) if text else {}
    except ValueError as error:
        raise ValueError(f"{error}\n{HINT}") from None


#: A time such as ``90m``, ``6h`` or ``2d``; a bare number is minutes. Gives a timedelta.
DURATION = ParsedText("time", _duration)
#: How long a queue keeps a message: such a time, or ``forever``, which is -1 s.
QUEUE_TIME = ParsedText("time", lambda text: _FOREVER if text == "forever" else _duration(text))
#: A time ago, such as ``6h``, or a time of ISO 8601; gives a datetime in UTC.
SINCE = ParsedText("time", _since)
#: A time of ISO 8601, or an empty text.
ISO_TIME = ParsedText("time", _iso_time)
#: A pair of texts written as ``name=value``.
NAME_VALUE = ParsedText("name=value", _name_value)
#: A filter such as ``data.total > 10``; gives the ARM form of an advanced filter.
FILTER_EXPRESSION = ParsedText("filter", _filter)
