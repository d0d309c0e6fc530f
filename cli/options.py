"""Defines options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.deployment import DEFAULT_SCOPE, Deployment, entra_token
from cli.failure import CommandFailed
from cli.filter_expression import HELP, parse_filter_expression
from cli.known_locally import DEFAULT_URL, default_url, find_local, local_key

F = TypeVar("F", bound=Callable[..., Any])
_AUDIENCE = "https://management.azure.com"
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def calls_deployment(command: F) -> F:
    """Give a command the deployment that its options or the environment name."""

    @click.option(
        "--url",
        envvar="PUSHGRID_URL",
        show_default=DEFAULT_URL,
        show_envvar=True,
        help="Base URL of the deployment.",
    )
    @click.option(
        "--key",
        envvar="PUSHGRID_ADMIN_KEY",
        show_envvar=True,
        help="Admin key. For a local URL, the default is the one of 'pushgrid dev', or that in "
        "local.settings.json.",
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
        url = url or default_url()
        local = find_local(url)
        found = key or local_key(url, Path.cwd())
        if not found and not entra:
            raise CommandFailed(
                "there is no admin key: give it with --key or PUSHGRID_ADMIN_KEY, or use --entra"
            )
        deployment = Deployment(
            url=url.rstrip("/"),
            token=entra_token(_AUDIENCE) if entra else lambda: found or "",
            scope=scope.rstrip("/"),
            authorities=local.authorities if local else None,
        )
        return command(*arguments, deployment=deployment, **options)

    return called  # type: ignore[return-value]


def prints_json(command: F) -> F:
    """Give a command the option ``--json``."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    return option(command)


def of_topic(command: F) -> F:
    """Give a command the option ``--topic``, which it needs."""
    return click.option(
        "--topic", "-t", required=True, metavar="TOPIC", help="Topic, or NAMESPACE.TOPIC."
    )(command)


class Duration(click.ParamType[Any]):
    """A time such as ``90m``, ``6h`` or ``2d``; a bare number is minutes."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a timedelta."""
        if isinstance(value, timedelta):
            return value
        number, unit = (value, "m") if value.isdecimal() else (value[:-1], value[-1:])
        if not number.isdecimal() or unit not in _UNITS:
            self.fail(f"'{value}' is no time: write 90m, 6h or 2d", param, ctx)
        return timedelta(**{_UNITS[unit]: int(number)})


class NameValue(click.ParamType[Any]):
    """A pair written as ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a pair of texts."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"'{value}' is no pair: write name=value", param, ctx)
        return name, text


class FilterExpression(click.ParamType[Any]):
    """A filter such as ``data.total > 10``."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the ARM form of an advanced filter."""
        if isinstance(value, dict):
            return value
        try:
            return parse_filter_expression(value)
        except ValueError as error:
            self.fail(f"{error}\n\n{HELP}", param, ctx)
