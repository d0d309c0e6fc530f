"""Storage accounts as sources in users' tests, by the command, and with replays."""

from __future__ import annotations

import pytest

from pushgrid.testing.deployment import ACCOUNT, GROUP, Pushgrid
from pushgrid.testing.subscriber import Endpoint
from pushgrid.testing.topic import Subscriber
from tests.commands import Run, runner
from tests.functional.testing.replaying import PLACED, replayed

URL = "https://ops.example/"
SOURCE = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
TOPIC = f"system-{ACCOUNT}"


@pytest.fixture
def run(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.setenv("PUSHGRID_URL", pushgrid.url)
    monkeypatch.setenv("PUSHGRID_ADMIN_KEY", pushgrid.admin_key)
    return runner(monkeypatch, capsys)


def subscribe(pushgrid: Pushgrid, run: Run, answers: list[int]) -> Endpoint:
    """Subscribe ``ops`` to the storage account, as an operator does."""
    ops = Endpoint(answers, None, is_asked_to_consent=False)
    pushgrid.endpoints.connect(URL, ops)
    container = pushgrid.new_container()["properties"]["blobContainerName"]
    where = f"--topic {TOPIC} --endpoint {URL} --dead-letter-container {container}"
    created = run("subscription", "create", "ops", *where.split())
    assert created.code == 0, created
    return ops


def lose_an_event(pushgrid: Pushgrid) -> Subscriber:
    orders = pushgrid.topic("orders")
    subscriber = orders.subscribe("crm", answers=[400])
    orders.publish(PLACED)
    pushgrid.advance(hours=1)
    return subscriber


def test_the_command_and_the_lists_know_the_account(pushgrid: Pushgrid, run: Run) -> None:
    subscribe(pushgrid, run, [200])

    (listed,) = run("subscription", "list", "--json").document
    assert listed["properties"]["topic"].lower() == SOURCE.lower()
    assert TOPIC in run("subscription", "list").out
    assert run("subscription", "show", "ops", "--topic", TOPIC).document == listed


def test_a_lost_event_is_told_of_and_a_lost_notice_can_be_replayed(
    pushgrid: Pushgrid, run: Run
) -> None:
    ops = subscribe(pushgrid, run, [400, 200])
    lose_an_event(pushgrid)
    (told,) = [each.request.events[0] for each in ops.attempts]
    assert told["eventType"] == "Microsoft.Storage.BlobCreated"
    assert told["topic"] == SOURCE
    assert len(pushgrid.dead_letters.blobs) == 2

    job = replayed(pushgrid, topic=TOPIC, subscription="ops")

    assert (job["state"], job["replayed"]) == ("Done", 1)
    assert [each.request.events[0] for each in ops.attempts] == [told, told]
    pushgrid.advance(days=2)
    assert len(ops.attempts) == 2


def test_nobody_else_publishes_to_an_account(pushgrid: Pushgrid, run: Run) -> None:
    subscribe(pushgrid, run, [200])

    answer = pushgrid.http("POST", f"/topics/{TOPIC}/api/events", {"aeg-sas-key": "x"}, b"[]")

    assert answer.status == 404
