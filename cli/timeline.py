"""`pushgrid timeline`: prints every recorded attempt of the events of a subscription."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click

from cli import event_timeline, subscription_state
from devhost.errors import HostError
from devhost.settings import read_local_settings
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.metrics import StorageMetrics
from shared.adapters.storage.tables import StorageResources
from shared.clock import SystemClock
from shared.delivery.attempt_record import KEPT_FOR
from shared.delivery.profiles import PROFILES
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import STORAGE, Settings, from_environ
from shared.storage_setting import storage_setting

_ROOT = Path(__file__).parents[1]
_EMPTY, _FAILED = 1, 2  # exit codes: nothing is recorded; storage could not be read
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_AGO = re.compile(r"([0-9]{1,5})([mhd])")


class Options(NamedTuple):
    """What the command line says."""

    topic: str
    subscription: str
    event: str | None
    since: str
    most: int
    json: bool


@click.command("timeline")
@click.option("--topic", required=True, help="Topic name, or NAMESPACE.TOPIC.")
@click.option("--subscription", required=True, help="Event subscription name.")
@click.option("--event", metavar="ID", help="Only the event with this publisher-assigned id.")
@click.option(
    "--since",
    default=f"{KEPT_FOR.days}d",
    metavar="AGO",
    show_default=True,
    help="Events published since 90m, 6h or 2d ago, or since a time such as 2026-02-09T12:00 (UTC);"
    " whole hours.",
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    show_default=True,
    help="The latest N events.",
)
@click.option("--json", is_flag=True, help="Print JSON for programs.")
def timeline(**given: Any) -> int:
    """Show the attempts of events that were not delivered at once, and why."""
    options = Options(**given)
    now = datetime.now(UTC)
    logging.getLogger("pushgrid").addHandler(logging.NullHandler())  # errors are printed here
    try:
        account, clock = StorageAccount(_settings().storage), SystemClock()
        since = _since(options.since, now)
        names = (options.topic, options.subscription)
        days = StorageAttempts(account, clock).read(*names, since, options.event)
        timelines = event_timeline.latest(days, options.most)
        try:
            state = subscription_state.read_state(
                StorageResources(account), StorageMetrics(account, clock), names, since, now
            )
        except subscription_state.UnknownName:
            if not timelines:
                raise
            state = None  # Deleted; its attempts are kept.
    except (ValueError, InvalidSettings, HostError) as error:
        print(f"timeline: {error}", file=sys.stderr)
        return _FAILED
    except StorageUnavailable as error:
        print(f"timeline: {_explained(error)}", file=sys.stderr)
        return _FAILED
    if options.json:
        document = {
            "topic": options.topic,
            "subscription": options.subscription,
            "situation": state and subscription_state.document(state),
            "events": [event_timeline.document(each) for each in timelines],
        }
        print(json.dumps(document))
    else:
        parts = [event_timeline.table(each, now) for each in timelines] or [_nothing(options)]
        gone = "The event subscription no longer exists."
        parts.append(subscription_state.text(state, since, now) if state else gone)
        print("\n\n".join(parts))
    return 0 if timelines else _EMPTY


def _explained(error: StorageUnavailable) -> str:
    """Say why storage could not be read, and what to check."""
    what = type(error.__cause__ or error).__name__
    if status := getattr(error.__cause__, "status_code", None):
        return f"the storage in {STORAGE} answered {status} ({what})"
    return (
        f"the storage in {STORAGE} does not answer ({what}). A host with --azurite prints its "
        f"storage at the start:\n  {STORAGE}='DefaultEndpointsProtocol=…' python -m cli "
        "timeline …\nThe storage of local.settings.json is started by `make azurite`."
    )


def _nothing(options: Options) -> str:
    event = f" of event '{options.event}'" if options.event else ""
    return (
        f"No failed attempt{event} is recorded for subscription '{options.subscription}' of topic "
        f"'{options.topic}' since {options.since}.\nEvents delivered at the first attempt are "
        "recorded only if PUSHGRID_ATTEMPT_LOG is 'all'. Events held before their\nfirst attempt "
        "and events that the filters exclude have no record. Records are kept for a week."
    )


def _since(text: str, now: datetime) -> datetime:
    """Read a time, absolute or ago. Raises ValueError for anything else."""
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"--since: '{text}' is neither like 6h nor a time") from None


def _settings() -> Settings:
    """
    Return the app's settings as its host reads them: the environment wins over the file.

    An environment that names a storage in any form replaces the whole storage section of the file.
    """
    local = read_local_settings(_ROOT).values
    if storage_setting(STORAGE, os.environ):
        local = {name: text for name, text in local.items() if not name.startswith(STORAGE)}
    return from_environ({**local, **os.environ}, frozenset(PROFILES))
