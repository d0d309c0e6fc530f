"""`pushgrid dev`: runs a deployment on this machine and shows what happens in it."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from cli.deployment import Deployment
from cli.failure import REFUSED, CommandFailed
from cli.local.local_deployment import LocalRun, own_settings, running_deployment
from cli.local.screen import Screen
from cli.local.watched_file import WatchedFile
from cli.option_types import NAME_VALUE, NumberRange, WholeNumber
from cli.topics import ensure_topic
from devhost.errors import HostError
from devhost.http.server import LOOPBACK, reserved_port
from devhost.settings import STORAGE
from testbed.ending import end_on_signals
from testbed.host_settings import LOCAL

_DEFAULTS = LOCAL | {
    "PUSHGRID_ATTEMPT_LOG": "all",
    "PUSHGRID_AZ_LOGIN": "true",
    "PUSHGRID_LOCAL_SHORTCUTS": "true",
    "PUSHGRID_PUBLISH_LOG": "requests",
    "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8,::1/128",
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.100",
}
_LOG_FORMAT = {"PUSHGRID_LOG_FORMAT": "json"}  # which the narration reads
_DEFAULT_PORT = 7071
_POLL_SECONDS = 0.25


@click.command("dev")
@click.option(
    "--host",
    type=IPv4Address,
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="IPv4 address to listen on; a container needs 0.0.0.0.",
)
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=_DEFAULT_PORT,
    show_default=True,
    help="Port of the deployment; 0 takes a free one.",
)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file; the default is pushgrid.json, pushgrid.yaml or pushgrid.yml in the "
    "working directory, now or later.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Create this topic, or NAMESPACE.TOPIC, unless there is one.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep the storage in this folder; without it, the storage is temporary.",
)
@click.option("--tls", is_flag=True, help="Serve https, with a certificate of this user's own.")
@click.option(
    "--blob-events",
    is_flag=True,
    help="Publish an event when another program creates or deletes a blob in the storage.",
)
@click.option(
    "--time-scale",
    type=NumberRange(1, 100_000),
    metavar="N",
    help="Make all waits N times shorter than Event Grid's.",
)
@click.option(
    "--workers",
    type=WholeNumber(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes, to use as many cores; PUSHGRID_ENDPOINT_LIMIT applies to each.",
)
@click.option("--env", type=NAME_VALUE, multiple=True, help="Override a setting of the app.")
@click.option("--verbose", is_flag=True, help="Print the log of the host as well.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as JSON.")
def dev(
    host: IPv4Address,
    port: int,
    file: Path | None,
    topics: tuple[str, ...],
    data: Path | None,
    time_scale: float | None,
    env: tuple[tuple[str, str], ...],
    verbose: bool,
    as_json: bool,
    **served: Any,
) -> int:
    """
    Run a deployment on this machine and show what happens.

    It applies the configuration file of the working directory, and applies it again when it
    changes. Other pushgrid commands find its admin key automatically. Ctrl-C stops it.
    """
    settings = dict(env) | ({"PUSHGRID_TIME_SCALE": f"{time_scale:g}"} if time_scale else {})
    if STORAGE in settings:
        raise CommandFailed(f"--env {STORAGE}: dev starts its own storage; see --data")
    screen = Screen(as_json=as_json, verbose=verbose, time_scale=_time_scale(settings))
    end_on_signals()
    try:
        watched = WatchedFile(file, Path(), screen.tell)
        watched.read()  # a faulty one is reported before anything is started
        with reserved_port(port, str(host)):
            screen.say("Starting storage (Azurite) and the Functions host …")
        with running_deployment(
            _settings(settings),
            host=str(host),
            port=port,
            on_line=screen.on_host_line,
            data=data,
            **served,
        ) as run:
            _introduce(run, data, settings, screen)
            for name in topics:
                ensure_topic(run.api, name)
            _serve(run, watched, screen)
    except HostError as error:
        raise CommandFailed(str(error), REFUSED) from None
    except KeyboardInterrupt:
        screen.say("Stopped.")
    return 0


def _serve(run: LocalRun, file: WatchedFile, screen: Screen) -> None:
    """Keep the deployment as the file says, until a signal or a fault ends it."""
    failures: list[Exception] = []

    def follow() -> None:
        try:
            _follow(run, file, screen)
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            failures.append(error)

    # On a thread, since Ctrl-C must not wait for an endpoint's handshake.
    threading.Thread(target=follow, daemon=True).start()
    try:
        while screen.has_reader and not failures:
            run.check()
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        screen.say("Stopping; running work gets up to 30 s. Press Ctrl-C again to stop now.")
        raise
    if failures:
        raise failures[0]


def _follow(run: LocalRun, file: WatchedFile, screen: Screen) -> None:
    is_ready, shown = False, frozenset[str]()
    while True:
        has_changed = file.follow(run.api, run.make)
        becomes_ready = file.is_applied and not is_ready
        if has_changed or becomes_ready:
            shown = _show_new_topics(run.api, screen, shown)
        if becomes_ready:
            screen.ready(run.api.url)
            is_ready = True
        time.sleep(_POLL_SECONDS)


def _show_new_topics(api: Deployment, screen: Screen, shown: frozenset[str]) -> frozenset[str]:
    """Show the topics that are not *shown* yet; return all that there are."""
    topics = [*(each["name"] for each in api.list("topics")), *api.namespace_topics()]
    for name in topics:
        if name not in shown:
            keys = f"(keys: pushgrid topic keys {name})"
            screen.show("topic", f"{name}  {api.publish_url(name)}  {keys}")
    if not topics and not shown:
        hint = "none yet: write a pushgrid.json, or run pushgrid topic create NAME"
        screen.show("topics", hint)
    return frozenset(topics)


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    own = {**own_settings(), **given}
    defaults = {name: text for name, text in _DEFAULTS.items() if name not in own}
    if own.keys() & {"PUSHGRID_ENTRA_TENANT", "PUSHGRID_ENTRA_JWKS_URL"}:
        defaults.pop("PUSHGRID_AZ_LOGIN", None)  # one excludes the other
    return {**defaults, **given, **_LOG_FORMAT}


def _storage(folder: Path | None) -> str:
    if folder is None:
        return "temporary, discarded on exit"
    return f"in {folder}, saved every 5 s: a crash loses what was accepted since"


def _time_scale(settings: Mapping[str, str]) -> str:
    return ({**own_settings(), **settings}).get("PUSHGRID_TIME_SCALE", "1")


def _scale_in_words(scale: str) -> str:
    if scale == "1":
        return "1: waits are Event Grid's; --time-scale 20 makes them 20 times shorter"
    return f"{scale}: waits are so many times shorter than Event Grid's"


def _introduce(
    run: LocalRun, data: Path | None, settings: Mapping[str, str], screen: Screen
) -> None:
    is_default = urlsplit(run.api.url).port == _DEFAULT_PORT
    screen.show("address", run.api.url)
    screen.show("console", f"{run.api.url}/console  (asks for the admin key)")
    if not is_default:
        screen.show("for pushgrid", f"export PUSHGRID_URL={run.api.url}")
    for name, value in run.host.variables.items():
        screen.show("for clients", f"export {name}={shlex.quote(value)}")
    screen.show("admin key", f"in {run.key_file}; pushgrid admin-key prints it")
    screen.show("storage", _storage(data))
    screen.show("time scale", _scale_in_words(_time_scale(settings)))
    connection = shlex.quote(run.connection_string)
    screen.show("for storage", f"export AZURE_STORAGE_CONNECTION_STRING={connection}")
