"""`python -m cli timeline` as an operator types it, on a real storage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from cli.program import main
from devhost.azurite import Azurite
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.attempts import StorageAttempts
from shared.adapters.storage.tables import StorageResources
from shared.clock import SystemClock
from shared.engine.ports import Table
from tests.builders import a_record
from tests.unit.arm.documents import subscription

Timeline = Callable[..., tuple[int, str, str]]


@pytest.fixture
def timeline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], azurite: Azurite
) -> Timeline:
    """Run the command on a storage; return its exit code, output and errors."""

    def run(*options: str, storage: str = azurite.connection_string) -> tuple[int, str, str]:
        monkeypatch.setenv("AzureWebJobsStorage", storage)
        try:
            code: object = main(["timeline", "--subscription", "crm", *options])
        except SystemExit as stopped:
            code = stopped.code
        printed = capsys.readouterr()
        return cast("int", code), printed.out, printed.err

    return run


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


def test_people_get_a_table_of_each_event(timeline: Timeline, topic: str) -> None:
    code, out, err = timeline("--topic", topic)

    assert (code, err) == (0, "")
    *tables, state = out.split("\n\n")
    assert [table.split()[0] for table in tables] == ["e-24", "e-2", "e-1", "e-0"]
    assert tables[0].count("minimum for 503: 30 s") == 1
    assert state.startswith("Counted since ")


@pytest.mark.parametrize(
    ("options", "events"),
    [
        ("", ["e-24", "e-2", "e-1", "e-0"]),
        ("--since 4h", ["e-2", "e-1", "e-0"]),
        ("--since 2d --most 2", ["e-1", "e-0"]),
        ("--event e-24", ["e-24"]),
    ],
)
def test_programs_get_json(timeline: Timeline, topic: str, options: str, events: list[str]) -> None:
    code, out, _ = timeline("--topic", topic.upper(), "--json", *options.split())

    document = json.loads(out)
    assert (code, document["topic"]) == (0, topic.upper())
    assert [event["eventId"] for event in document["events"]] == events
    assert document["events"][0]["attempts"][0]["outcome"] == "Busy"


def test_nothing_is_said_clearly(timeline: Timeline, topic: str) -> None:
    code, out, _ = timeline("--topic", topic, "--event", "other")
    code_of_json, document, _ = timeline("--topic", topic, "--event", "other", "--json")

    assert (code, code_of_json) == (1, 1)
    assert "events that the filters exclude have no record" in out
    assert "Counted since " in out
    assert "No failed attempt of event 'other' is recorded for subscription 'crm'" in out
    assert json.loads(document)["events"] == []


def test_a_mistyped_name_is_one_line(timeline: Timeline, topic: str) -> None:
    told = f"timeline: there is no topic '{topic}z'; the nearest is '{topic}'\n"

    assert timeline("--topic", f"{topic}z") == (2, "", told)


def test_attempts_of_a_deleted_subscription_are_shown(
    timeline: Timeline, azurite: Azurite, topic: str
) -> None:
    resources = StorageResources(StorageAccount({"": azurite.connection_string}))
    resources.delete(Table.EVENT_SUBSCRIPTIONS, topic, "crm")
    try:
        code, out, _ = timeline("--topic", topic, "--event", "e-1")
    finally:
        resources.put(Table.EVENT_SUBSCRIPTIONS, topic, "crm", subscription(), None)

    assert code == 0
    assert out.endswith("The event subscription no longer exists.\n")


@pytest.mark.parametrize(
    ("storage", "options", "message"),
    [
        ("", "", "AzureWebJobsStorage is not set"),
        ("nonsense", "", "AzureWebJobsStorage"),
        ("UseDevelopmentStorage=true", "--since yesterday", "--since"),
        ("UseDevelopmentStorage=true", "--most 0", "--most"),
        (
            "AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:1/a;BlobEndpoint=http://127.0.0.1:1/a",
            "",
            "does not answer (ServiceRequestError)",
        ),
    ],
    ids=["no storage", "no connection string", "no time", "no number", "nobody at home"],
)
def test_what_cannot_be_read_is_an_error(
    timeline: Timeline, storage: str, options: str, message: str
) -> None:
    code, out, err = timeline("--topic", "orders", *options.split(), storage=storage)

    assert (code, out) == (2, "")
    assert message in err
