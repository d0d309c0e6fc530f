"""`python -m cli timeline`: why an event was not delivered, attempt by attempt."""

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

from cli.stories import document, latest, table
from cli.subscription_state import UnknownName, read_state, words
from cli.subscription_state import document as situation_document
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
_NOTHING = 1  # exit code: asked, and nothing is there
_TROUBLE = 2  # exit code: could not be asked
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_GONE = "The event subscription is not there any more."
_AGO = re.compile(r"([0-9]{1,5})([mhd])")


def add_to(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser("timeline", help="why an event was not delivered")
    parser.add_argument(
        "--topic", required=True, help="its name; of a namespace's topic: NAMESPACE.TOPIC"
    )
    parser.add_argument("--subscription", required=True)
    parser.add_argument("--event", metavar="ID", help="only the event that its publisher calls so")
    parser.add_argument(
        "--since",
        default=f"{KEPT_FOR.days}d",
        metavar="AGO",
        help="published since the hour of then: 90m, 6h, 2d or 2026-02-09T12:00 (UTC); default: 7d",
    )
    parser.add_argument(
        "--most", type=_some, default=20, metavar="N", help="the latest N events (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """
    Print the timelines; returns 0, or 1 if there are none.

    Returns 2 if storage could not be asked, or knows nothing of such a subscription.
    """
    now = datetime.now(UTC)
    logging.getLogger("pushgrid").addHandler(logging.NullHandler())  # what is said here is enough
    try:
        account, clock = StorageAccount(_settings().storage), SystemClock()
        since = _since(options.since, now)
        names = (options.topic, options.subscription)
        stories = latest(
            StorageAttempts(account, clock).read(*names, since, options.event), options.most
        )
        try:
            found = read_state(
                StorageResources(account), StorageMetrics(account, clock), names, since, now
            )
        except UnknownName:
            if not stories:
                raise
            found = None  # Its attempts are kept, though it is gone.
    except (ValueError, InvalidSettings, HostError) as error:
        print(f"timeline: {error}", file=sys.stderr)
        return _TROUBLE
    except StorageUnavailable as error:
        print(f"timeline: {_unasked(error)}", file=sys.stderr)
        return _TROUBLE
    if options.json:
        events = [document(story) for story in stories]
        named = {"topic": options.topic, "subscription": options.subscription}
        known = found and situation_document(found)
        print(json.dumps(named | {"situation": known, "events": events}))
    else:
        told = [table(story, now) for story in stories] or [_nothing(options)]
        print("\n\n".join([*told, words(found, since, now) if found else _GONE]))
    return 0 if stories else _NOTHING


def _unasked(error: StorageUnavailable) -> str:
    """Say why storage was of no help, and where to read_state."""
    what = type(error.__cause__ or error).__name__
    if status := getattr(error.__cause__, "status_code", None):
        return f"the storage that {STORAGE} names answers {status} ({what})"
    return (
        f"the storage that {STORAGE} names does not answer ({what}). For a host with --azurite it "
        f"is what the host printed:\n  {STORAGE}='DefaultEndpointsProtocol=…' python -m cli "
        "timeline …\nThe one of local.settings.json is started by `make azurite`."
    )


def _nothing(options: argparse.Namespace) -> str:
    event = f" of event '{options.event}'" if options.event else ""
    return (
        f"No failed attempt{event} is recorded for subscription '{options.subscription}' of topic "
        f"'{options.topic}' since {options.since}.\nWhat was delivered at once is not recorded "
        "unless PUSHGRID_ATTEMPT_LOG is 'all'; what is held before its first attempt has none yet; "
        "what filters\nleave out has no message in storage, and so no record. Days are kept for a "
        "week."
    )


def _some(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return int(text)


def _since(text: str, now: datetime) -> datetime:
    """Read a time, absolute or ago. Raises ValueError for anything else."""
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
        since = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"--since: '{text}' is neither like 6h nor a time") from None
    return since


def _settings() -> Settings:
    """
    Return the app's settings as its host finds them: the environment wins over the file.

    An environment that names a storage, in whatever way, is asked for no other.
    """
    local = read_local_settings(_ROOT).values
    if storage_setting(STORAGE, os.environ):
        local = {name: text for name, text in local.items() if not name.startswith(STORAGE)}
    return from_environ({**local, **os.environ}, frozenset(PROFILES))
