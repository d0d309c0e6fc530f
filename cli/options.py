"""Defines options that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from math import isnan, nan
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.deployment import DEFAULT_SCOPE, Deployment, entra_token
from cli.failure import CommandFailed
from cli.filter_expression import HINT, parse_filter_expression
from cli.known_locally import DEFAULT_URL, deployment_url, find_local, local_key
from cli.terminal import Found, print_json, say
from cli.waiting import spinner
from shared.subscriptions.request_limits import parse_limit

EVENT_GRID, CLOUD_EVENTS = "EventGridSchema", "CloudEventSchemaV1_0"
CUSTOM_INPUT = "CustomInputSchema"
_SHORT = {EVENT_GRID: "eventgrid", CLOUD_EVENTS: "cloudevents", CUSTOM_INPUT: "custom"}
F = TypeVar("F", bound=Callable[..., Any])
_AUDIENCE = "https://management.azure.com"
_SPAN = re.compile(r"([0-9]{1,5})([mhd]?)")
_UNITS = {"": "minutes", "m": "minutes", "h": "hours", "d": "days"}
_FOREVER = timedelta(seconds=-1)


def calls_deployment(command: F) -> F:
    """Give a command the deployment that its options or the environment name."""

    @click.option(
        "--url",
        envvar="PUSHGRID_URL",
        show_envvar=True,
        help=f"Base URL of the deployment; the default is {DEFAULT_URL}.",
    )
    @click.option(
        *([] if command.__name__ == "publish" else ["--key"]),  # there it is the topic's
        "--admin-key",
        "key",
        envvar=["PUSHGRID_ADMIN_KEY", "PUSHGRID_READER_KEY"],
        show_envvar=True,
        help="Admin key, or the reader's key, which only reads. For a local URL, the default is "
        "the one of 'pushgrid dev', or that in local.settings.json.",
    )
    @click.option("--entra", is_flag=True, help="Use a token of Entra ID instead of the key.")
    @click.option(
        "--scope",
        envvar="PUSHGRID_SCOPE",
        default=DEFAULT_SCOPE,
        show_envvar=True,
        help="ARM id of the resource group.",
    )
    @wraps(command)
    def called(
        *arguments: Any, url: str | None, key: str | None, entra: bool, scope: str, **options: Any
    ) -> Any:
        url = deployment_url(url)
        if "@" in url.partition("//")[2].partition("/")[0]:
            raise CommandFailed(
                "--url has a user name or password: leave it out, and use --admin-key"
            )
        local = find_local(url)
        found = key or local_key(url, Path.cwd())
        deployment = Deployment(
            url=url.rstrip("/"),
            token=entra_token(_AUDIENCE) if entra else lambda: _checked(found, deployment),
            scope=f"/{scope.strip('/')}",
            authorities=local.authorities if local else None,
            while_waiting=spinner,
        )
        return command(*arguments, deployment=deployment, **options)

    return called  # type: ignore[return-value]


def _checked(key: str | None, deployment: Deployment) -> str:
    if not key:
        deployment.reach()  # else that is what is wrong
        raise CommandFailed(
            "there is no admin key: give it with --admin-key or PUSHGRID_ADMIN_KEY, or use --entra"
        )
    if not (key.isascii() and key.isprintable()):
        raise CommandFailed("the admin key has characters that no request can carry")
    return key


def prints_json(command: F) -> F:
    """Give a command the options ``--json`` and ``--output``, and the parameter *as_json*."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @click.option(
        "--output",
        "-o",
        type=click.Choice(["json", "table"]),
        help="Output format; json is the same as --json.",
    )
    @wraps(command)
    def printing(*arguments: Any, as_json: bool, output: str | None, **options: Any) -> Any:
        return command(*arguments, as_json=as_json or output == "json", **options)

    return printing  # type: ignore[return-value]


def prints_found(command: F) -> F:
    """Give a command a deployment, and the options to print the `Found` that it returns as JSON."""

    @prints_json
    @calls_deployment
    @wraps(command)
    def printing(*, as_json: bool, **options: Any) -> int:
        found: Found = command(**options)
        if as_json:
            print_json(found.document)
        elif isinstance(found.shown, str):
            say(found.shown)
        else:
            found.shown()
        return found.exit_code

    return printing  # type: ignore[return-value]


def regenerates_key(command: F) -> F:
    """Give a command the option ``--regenerate``."""
    names = click.Choice(["key1", "key2"])
    return click.option("--regenerate", type=names, help="Regenerate this key first.")(command)


def shows_most(numbers: WholeNumber, default: int, description: str) -> Callable[[F], F]:
    """Give a command the option ``--most``."""
    return click.option(
        "--most", type=numbers, default=default, metavar="N", show_default=True, help=description
    )


def of_topic(command: F) -> F:
    """Give a command the option ``--topic``, which it needs."""
    return click.option(
        "--topic",
        "-t",
        required=True,
        metavar="TOPIC",
        help="Topic, NAMESPACE.TOPIC, system-ACCOUNT or systemTopics/NAME.",
    )(command)


def chooses_dead_letters(command: F) -> F:
    """Give a command the options that choose dead letters: whose, and in which blobs."""
    for option in reversed(
        [
            click.option("--topic", "-t", help="Only of this topic, or NAMESPACE.TOPIC."),
            click.option("--subscription", "-s", help="Only of event subscriptions of this name."),
            click.option(
                "--since",
                type=Since(),
                help="Written since 90m, 6h or 2d ago, or since a time such as 2026-02-09T12:00 "
                "(UTC); whole hours.",
            ),
            click.option(
                "--until",
                type=Since(),
                help="Written before that, in the same forms; whole hours.",
            ),
            click.option(
                "--prefix", metavar="PATH", help="Only blobs whose path begins like this."
            ),
        ]
    ):
        command = option(command)
    return command


def span_members(since: datetime | None, until: datetime | None) -> dict[str, Any]:
    """
    Return the members of a request that choose a span of time.

    Raises:
        click.UsageError: it is empty.
    """
    if since and until and until <= since:
        raise click.UsageError("--until must be later than --since.")
    return {"since": since and since.isoformat(), "until": until and until.isoformat()}


class WholeNumber(click.IntRange):
    """A whole number in a range; what is none is told with the range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an int."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is not a whole number {_bounds(self)}", param, ctx)


class RequestLimit(click.ParamType[Any]):
    """A limit of requests as ARM documents have it, with a *unit* that may follow."""

    def __init__(self, unit: str = "") -> None:
        self.unit = unit
        self.name = f"N{unit}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number as text; an empty text removes."""
        text = str(value).removesuffix(self.unit)
        try:
            return str(parse_limit(text)) if text else ""
        except ValueError as error:
            self.fail(f"'{value}' {error}".removesuffix(", as text"), param, ctx)


class NumberRange(click.FloatRange):
    """A number in a range; what is none is told with the range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a float."""
        try:
            found = super().convert(value, param, ctx)
        except click.BadParameter:
            found = nan
        return (
            self.fail(f"'{value}' is not a number {_bounds(self)}", param, ctx)
            if isnan(found)
            else found
        )


def _bounds(numbers: click.IntRange | click.FloatRange) -> str:
    if numbers.max is None:
        return f"of {numbers.min} or more"
    return f"from {numbers.min} to {numbers.max}"


class Duration(click.ParamType[Any]):
    """A time such as ``90m``, ``6h`` or ``2d``; a bare number is minutes."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a timedelta."""
        if isinstance(value, timedelta):
            return value
        if not (span := _span(value)):
            self.fail(f"'{value}' is not a duration: write 90m, 6h or 2d", param, ctx)
        return span


class QueueTime(Duration):
    """How long a queue keeps a message: such a time, or ``forever``, which is -1 s."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a timedelta."""
        return _FOREVER if value == "forever" else super().convert(value, param, ctx)


class Since(click.ParamType[Any]):
    """A time ago, such as ``6h``, or a time of ISO 8601; both in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a datetime."""
        if isinstance(value, datetime):
            return value
        try:
            span = None if value.isdecimal() else _span(value)
            if span is not None:
                return datetime.now(UTC) - span
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is not a time: write 6h, 2d or 2026-02-09T12:00", param, ctx)


def _span(text: str) -> timedelta | None:
    found = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


class NameValue(click.ParamType[Any]):
    """A pair written as ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a pair of texts."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"'{value}' is not a pair: write name=value", param, ctx)
        return name, text


class FilterExpression(click.ParamType[Any]):
    """A filter such as ``data.total > 10``."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the ARM form of an advanced filter."""
        if isinstance(value, dict) or not value:
            return value or {}
        try:
            return parse_filter_expression(value)
        except ValueError as error:
            self.fail(f"{error}\n{HINT}", param, ctx)


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
