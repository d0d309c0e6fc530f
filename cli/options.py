"""Defines options that several commands have."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.deployment import DEFAULT_SCOPE, Deployment
from cli.entra import claimed_scope, entra_token
from cli.failure import CommandFailed
from cli.local.known_locally import DEFAULT_URL, deployment_url, find_local, local_key
from cli.option_types import SINCE, WholeNumber
from cli.terminal import Found, print_json, say
from server.failure import CannotStart
from server.secret_files import IN_A_FILE, find_secret
from shared.settings import STORE

F = TypeVar("F", bound=Callable[..., Any])
_KEYS = ("PUSHGRID_ADMIN_KEY", "PUSHGRID_READER_KEY")
_SILENT_SECONDS = 1.0


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
        help="Admin key, or the reader's key, which only reads. The default is "
        f"{' or '.join(_KEYS)}, or what stands in the file that such a name with {IN_A_FILE} "
        "names; for a local URL, then the one of 'pushgrid serve' or 'pushgrid dev', or that in "
        "local.settings.json.",
    )
    @click.option("--entra", is_flag=True, help="Use a token of Entra ID instead of the key.")
    @click.option(
        "--entra-scope",
        envvar="PUSHGRID_ENTRA_SCOPE",
        show_envvar=True,
        metavar="SCOPE",
        help="Scope of that token, such as api://pushgrid/.default; the default is the one that "
        "the deployment asks for, if it names the host of --url.",
    )
    @click.option(
        "--insecure",
        is_flag=True,
        envvar="PUSHGRID_INSECURE",
        show_envvar=True,
        help="Send keys and tokens over http even to another machine.",
    )
    @click.option(
        "--scope",
        envvar="PUSHGRID_SCOPE",
        default=DEFAULT_SCOPE,
        show_envvar=True,
        help="ARM id of the resource group.",
    )
    @wraps(command)
    def called(
        *arguments: Any,
        url: str | None,
        key: str | None,
        entra: bool,
        entra_scope: str | None,
        insecure: bool,
        scope: str,
        **options: Any,
    ) -> Any:
        url = deployment_url(url)
        if "@" in url.partition("//")[2].partition("/")[0]:
            raise CommandFailed(
                "--url has a user name or password: leave it out, and use --admin-key"
            )
        local = find_local(url)
        found = cache(lambda: key or _key_of_environment() or local_key(url, Path.cwd()))
        of_token = cache(lambda: entra_scope or claimed_scope(deployment))
        deployment = Deployment(
            url=url.rstrip("/"),
            token=lambda: entra_token(of_token()) if entra else _checked(found(), deployment),
            scope=f"/{scope.strip('/')}",
            authorities=local.authorities if local else None,
            allows_http=insecure,
            while_waiting=spinner,
        )
        return command(*arguments, deployment=deployment, **options)

    return called  # type: ignore[return-value]


def _key_of_environment() -> str | None:
    try:
        return next(filter(None, (find_secret(each, os.environ) for each in _KEYS)), None)
    except CannotStart as error:
        raise CommandFailed(str(error)) from None


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
        if as_json or found.shown is None:
            print_json(found.document)
        elif isinstance(found.shown, str):
            say(found.shown)
        else:
            found.shown()
        return found.exit_code

    return printing  # type: ignore[return-value]


def with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Give a command several options, which its help shows in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def shows_most(numbers: WholeNumber, default: int, description: str) -> Callable[[F], F]:
    """Give a command the option ``--most``."""
    return click.option(
        "--most", type=numbers, default=default, metavar="N", show_default=True, help=description
    )


of_topic = click.option(
    "--topic",
    "-t",
    required=True,
    metavar="TOPIC",
    help="Topic, NAMESPACE.TOPIC, system-ACCOUNT or systemTopics/NAME.",
)
store_option = click.option(
    "--store",
    metavar="URL",
    help="Database that servers share, in place of a folder: postgresql://USER@HOST/DATABASE, "
    f"without a password. Without --data the default is {STORE}, or the URL in the file that "
    f"{STORE}{IN_A_FILE} names; those may have a password.",
)
names_subscription = with_options(click.argument("name"), of_topic)
chooses_dead_letters = with_options(
    click.option("--topic", "-t", help="Only of this topic, or NAMESPACE.TOPIC."),
    click.option("--subscription", "-s", help="Only of event subscriptions of this name."),
    click.option(
        "--since",
        type=SINCE,
        help="Written since 90m, 6h or 2d ago, or since a time such as 2026-02-09T12:00 "
        "(UTC); whole hours.",
    ),
    click.option(
        "--until",
        type=SINCE,
        help="Written until 90m, 6h or 2d ago, or until a time such as 2026-02-09T12:00 "
        "(UTC); whole hours.",
    ),
    click.option("--prefix", metavar="PATH", help="Only blobs whose path begins like this."),
)


def span_members(since: datetime | None, until: datetime | None) -> dict[str, Any]:
    """
    Return the members of a request that choose a span of time.

    Raises:
        click.UsageError: it is empty.
    """
    if since and until and until <= since:
        raise click.UsageError("--until must be later than --since.")
    return {"since": since and since.isoformat(), "until": until and until.isoformat()}


@contextmanager
def spinner() -> Iterator[None]:
    """Show on standard error that the block runs, if it takes longer than a second."""
    if not sys.stderr.isatty():
        yield
        return
    has_ended = threading.Event()

    def show() -> None:
        if not has_ended.wait(_SILENT_SECONDS):
            from cli.output import Console

            with Console(stderr=True).status("waiting for the deployment's answer …"):
                has_ended.wait()

    shown = threading.Thread(target=show, daemon=True)
    shown.start()
    try:
        yield
    finally:
        has_ended.set()
        shown.join()
