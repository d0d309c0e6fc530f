"""`python -m cli timeline` as an operator types it, on a real storage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devhost.azurite import Azurite
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.tables import StorageResources
from shared.clock import SystemClock
from shared.engine.ports import Table
from tests.builders import a_record
from tests.unit.arm.documents import subscription

ROOT = Path(__file__).parents[2]


def timeline(storage: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", "timeline", "--subscription", "crm", *options],
        cwd=ROOT,
        env=os.environ | {"AzureWebJobsStorage": storage},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def topic(azurite: Azurite) -> str:
    """Record events of three hours and one of yesterday on a topic of our own."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    now = datetime.now(UTC)
    records = [
        a_record(
            topic=name,
            system_id=str(uuid.uuid4()),
            event_id=f"e-{hours}",
            published_at=now - timedelta(hours=hours),
            at=now - timedelta(hours=hours),
            next_at=now - timedelta(hours=hours - 1),
        )
        for hours in (0, 1, 2, 24)
    ]
    account = StorageAccount({"": azurite.connection_string})
    resources = StorageResources(account)
    resources.put(Table.TOPICS, "topic", name, {"name": name}, None)
    resources.put(Table.EVENT_SUBSCRIPTIONS, name, "crm", subscription(), None)
    StorageAttempts(account, SystemClock()).write(records)
    return name


def test_people_get_a_table_of_each_event(azurite: Azurite, topic: str) -> None:
    run = timeline(azurite.connection_string, "--topic", topic)

    assert (run.returncode, run.stderr) == (0, "")
    *stories, situation = run.stdout.split("\n\n")
    assert [story.split()[0] for story in stories] == ["e-24", "e-2", "e-1", "e-0"]
    assert stories[0].count("minimum for 503: 30 s") == 1
    assert situation.startswith("Counted since ")


@pytest.mark.parametrize(
    ("options", "events"),
    [
        ([], ["e-24", "e-2", "e-1", "e-0"]),
        (["--since", "4h"], ["e-2", "e-1", "e-0"]),
        (["--since", "2d", "--most", "2"], ["e-1", "e-0"]),
        (["--event", "e-24"], ["e-24"]),
    ],
)
def test_programs_get_json(
    azurite: Azurite, topic: str, options: list[str], events: list[str]
) -> None:
    run = timeline(azurite.connection_string, "--topic", topic.upper(), "--json", *options)

    document = json.loads(run.stdout)
    assert (run.returncode, document["topic"]) == (0, topic.upper())
    assert [event["eventId"] for event in document["events"]] == events
    assert document["events"][0]["attempts"][0]["outcome"] == "Busy"


def test_nothing_is_said_clearly(azurite: Azurite, topic: str) -> None:
    told = timeline(azurite.connection_string, "--topic", topic, "--event", "other")
    document = timeline(azurite.connection_string, "--topic", topic, "--event", "other", "--json")

    assert (told.returncode, document.returncode) == (1, 1)
    assert "events that the filters exclude have no record" in told.stdout
    assert "Counted since " in told.stdout
    assert "No failed attempt of event 'other' is recorded for subscription 'crm'" in told.stdout
    assert json.loads(document.stdout)["events"] == []


def test_a_mistyped_name_is_one_line(azurite: Azurite, topic: str) -> None:
    run = timeline(azurite.connection_string, "--topic", f"{topic}z")

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"timeline: there is no topic '{topic}z'; the nearest is '{topic}'\n"


def test_attempts_of_what_is_gone_are_shown(azurite: Azurite, topic: str) -> None:
    resources = StorageResources(StorageAccount({"": azurite.connection_string}))
    resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, "crm")
    try:
        run = timeline(azurite.connection_string, "--topic", topic, "--event", "e-1")
    finally:
        resources.put(Table.EVENT_SUBSCRIPTIONS, topic, "crm", subscription(), None)

    assert run.returncode == 0
    assert run.stdout.endswith("The event subscription no longer exists.\n")


@pytest.mark.parametrize(
    ("storage", "options", "message"),
    [
        ("", [], "AzureWebJobsStorage is not set"),
        ("nonsense", [], "AzureWebJobsStorage"),
        ("UseDevelopmentStorage=true", ["--since", "yesterday"], "--since"),
        ("UseDevelopmentStorage=true", ["--most", "0"], "--most"),
        (
            "AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:1/a;BlobEndpoint=http://127.0.0.1:1/a",
            [],
            "does not answer (ServiceRequestError)",
        ),
    ],
    ids=["no storage", "no connection string", "no time", "no number", "nobody at home"],
)
def test_what_cannot_be_asked_is_an_error(storage: str, options: list[str], message: str) -> None:
    run = timeline(storage, "--topic", "orders", *options)

    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr
