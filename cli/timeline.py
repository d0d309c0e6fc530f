"""`python -m cli timeline`: prints every recorded attempt of the events of a subscription."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser(
        "timeline", help="show the attempts of events that were not delivered at once, and why"
    )
    parser.add_argument("--topic", required=True, help="topic name, or NAMESPACE.TOPIC")
    parser.add_argument("--subscription", required=True, help="event subscription name")
    parser.add_argument(
        "--event", metavar="ID", help="only the event with this publisher-assigned id"
    )
    parser.add_argument(
        "--since",
        default=f"{KEPT_FOR.days}d",
        metavar="AGO",
        help="events published since 90m, 6h or 2d ago, or since a time such as 2026-02-09T12:00"
        " (UTC); whole hours (default: 7d)",
    )
    parser.add_argument(
        "--most", type=_positive, default=20, metavar="N", help="the latest N events (20)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """
    Print the timelines; returns 0, or 1 if there are none.

    Returns 2 if storage could not be read, or there is no such topic or subscription.
    """
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


def _nothing(options: argparse.Namespace) -> str:
    event = f" of event '{options.event}'" if options.event else ""
    return (
        f"No failed attempt{event} is recorded for subscription '{options.subscription}' of topic "
        f"'{options.topic}' since {options.since}.\nEvents delivered at the first attempt are "
        "recorded only if PUSHGRID_ATTEMPT_LOG is 'all'. Events held before their\nfirst attempt "
        "and events that the filters exclude have no record. Records are kept for a week."
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


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
