"""Replays whose blobs, containers, accounts, rows or targets are missing or damaged."""

from __future__ import annotations

import json
from collections import Counter
from errno import ECONNRESET
from typing import Any
from unittest.mock import Mock

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import Refused
from pushgrid.testing.topic import Subscriber
from shared.deadletter.reader import MAX_BLOB, TOO_LARGE, UnreadableBlob
from shared.delivery.messages.message import ReplayStep
from shared.engine.ports import Table
from shared.engine.replaying import step, walk
from shared.errors import InvalidDocument, StorageUnavailable
from shared.subscriptions.subscription import DeadLetterDestination
from tests.azure_dead_letters import ADDED, CLOUD_ADDED, CLOUD_EVENT, EVENT
from tests.functional.deployment import Logged
from tests.functional.replaying.replays import AZURE, CRM, PLACED, before, ids, replayed


def test_bad_blobs_are_named(pushgrid: Pushgrid, crm: Subscriber):
    first, second = sorted(pushgrid._app.dead_letters.blobs)
    (letter,) = json.loads(pushgrid._app.dead_letters.blobs[second])
    pushgrid._app.dead_letters.blobs[first] = b"oops"
    pushgrid._app.dead_letters.blobs[second] = json.dumps(
        [{}, letter | {"id": []}, letter]
    ).encode()

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"], ids(crm)) == ("Done", 1, ["e-3"])
    assert [each["where"] for each in job["faults"]] == [
        first[1],
        f"{second[1]} [0]",
        f"{second[1]} [1]",
    ]
    assert job["skipped"] == {"Unreadable": 1, "NotReplayable": 1}


@pytest.mark.usefixtures("crm")
@pytest.mark.parametrize("body", [b"oops", None])
def test_a_step_ends_after_its_share_of_blobs_without_dead_letters(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, body: bytes | None
):
    monkeypatch.setattr(step, "MAX_BLOBS", 3)
    for number in range(7):
        pushgrid._app.dead_letters.write(AZURE, f"{number}.json", b"oops")
    pushgrid.advance(minutes=1)
    steps, reads, run = [0], Counter[int](), pushgrid._app.replay.run

    def counted(message: ReplayStep) -> None:
        steps[0] = message.number
        run(message)

    def read(*_: object) -> bytes | None:
        reads[steps[0]] += 1
        return body

    monkeypatch.setattr(pushgrid._app, "replay", Mock(run=counted))
    monkeypatch.setattr(pushgrid._app.dead_letters, "read", read)

    job = replayed(pushgrid, container="azure", account="testing", to=CRM)

    assert (job["state"], reads) == ("Done", {1: 3, 2: 3, 3: 1})
    assert len(job["faults"]) == (7 if body else 0)


def test_a_target_that_is_deleted_meanwhile_fails_the_job(pushgrid: Pushgrid, crm: Subscriber):
    erp = pushgrid.topic("invoices").subscribe("erp")
    pushgrid._app.dead_letters.fail_next("list")
    job = pushgrid.arm(
        "POST", "replays", {"to": {"topic": "invoices", "subscription": "erp"}, "topic": "orders"}
    )
    erp.delete()
    pushgrid.advance(minutes=5)

    job = pushgrid.arm("GET", f"replays/{job['id']}")
    assert (job["state"], job["replayed"], ids(crm)) == ("Failed", 0, [])
    assert job["why"] == "There is no event subscription 'erp' of topic 'invoices'."


@pytest.mark.usefixtures("crm")
def test_damaged_rows_are_not_taken_for_missing(pushgrid: Pushgrid):
    first = replayed(pushgrid)
    mark, _ = pushgrid._app.resources.list(Table.REPLAYS, "blob")
    pushgrid._app.resources.damage(Table.REPLAYS, "blob", mark.name, {"records": [0], "last": 5})

    waiting = replayed(pushgrid)
    pushgrid._app.resources.delete(Table.REPLAYS, "blob", mark.name)
    pushgrid.advance(minutes=5)
    job = pushgrid.arm("GET", f"replays/{waiting['id']}")

    assert (waiting["state"], waiting["replayed"], job["state"]) == ("Running", 0, "Done")
    assert job["replayed"] + job["skipped"]["ReplayedBefore"] == first["replayed"]


@pytest.mark.usefixtures("crm")
def test_a_damaged_job_is_refused_and_does_not_block_the_next(pushgrid: Pushgrid):
    pushgrid._app.dead_letters.fail_next("list")  # so that it waits a minute
    damaged = pushgrid.arm("POST", "replays", {})
    pushgrid._app.resources.damage(Table.REPLAYS, "job", damaged["id"])

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"]) == ("Done", 3)
    for method, path in [("GET", damaged["id"]), ("POST", f"{damaged['id']}/cancel")]:
        with pytest.raises(Refused, match="can't be read") as refused:
            pushgrid.arm(method, f"replays/{path}")
        assert refused.value.status == 503
    assert [each["id"] for each in pushgrid.arm("GET", "replays")["value"]] == [job["id"]]


def test_countless_folders_without_dead_letters_fail_their_source_and_no_other(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(walk, "MAX_LISTINGS", 50)
    erp = crm.topic.subscribe("erp", answers=[400, 200])
    crm.topic.publish(PLACED)
    pushgrid.advance(hours=1)
    assert crm.container
    for number in range(100):
        pushgrid._app.dead_letters.write(
            DeadLetterDestination(container=crm.container), f"CRM/1999/{number}/x.txt", b""
        )

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"], ids(erp)) == ("Failed", 1, ["e-17"])
    assert job["why"].startswith("It has too many folders without dead letters")


@pytest.mark.parametrize(("back_after", "state"), [(20, "Done"), (90, "Failed")])
def test_an_account_that_is_away_is_waited_for(
    pushgrid: Pushgrid, crm: Subscriber, back_after: int, state: str
):
    pushgrid._app.dead_letters.away.add("testing")
    job = pushgrid.arm("POST", "replays", {})
    pushgrid.advance(minutes=back_after)
    pushgrid._app.dead_letters.away.clear()
    pushgrid.advance(minutes=5)

    job = pushgrid.arm("GET", f"replays/{job['id']}")
    assert (job["state"], len(ids(crm))) == (state, 3 if state == "Done" else 0)


@pytest.mark.usefixtures("crm")
def test_50_faults_are_named(pushgrid: Pushgrid):
    pushgrid._app.dead_letters.write(AZURE, "1.json", json.dumps([{}] * 53).encode())
    pushgrid.advance(minutes=1)

    job = replayed(pushgrid, container="azure", to=CRM)

    assert (len(job["faults"]), job["moreFaults"]) == (50, 3)


def test_each_source_is_waited_for(pushgrid: Pushgrid, crm: Subscriber):
    erp = crm.topic.subscribe("erp", answers=[400, 200])
    crm.topic.publish(PLACED)
    pushgrid.advance(hours=1)
    pushgrid._app.dead_letters.away.add("testing")
    job = pushgrid.arm("POST", "replays", {})
    pushgrid.advance(minutes=90)
    pushgrid._app.dead_letters.away.clear()
    pushgrid.advance(minutes=10)

    job = pushgrid.arm("GET", f"replays/{job['id']}")
    assert (job["state"], job["replayed"], ids(erp)) == ("Failed", 1, ["e-17"])
    assert [each["where"] for each in job["faults"]] == ["orders/crm"]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (UnreadableBlob("Storage refuses to read it."), "Storage refuses to read it."),
        (b"[" + b" " * MAX_BLOB, TOO_LARGE),
        (None, None),
    ],
    ids=["archived", "grown since it was listed", "deleted since"],
)
def test_a_blob_that_can_not_be_read_is_a_fault_unless_it_is_gone(
    pushgrid: Pushgrid,
    crm: Subscriber,
    monkeypatch: pytest.MonkeyPatch,
    found: Exception | bytes | None,
    why: str | None,
):
    first, _ = sorted(pushgrid._app.dead_letters.blobs)
    read = pushgrid._app.dead_letters.read

    def changed(destination: Any, path: str, most: int) -> bytes | None:
        if path != first[1]:
            return read(destination, path, most)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(pushgrid._app.dead_letters, "read", changed)
    job = replayed(pushgrid)

    assert (job["state"], ids(crm)) == ("Done", ["e-3"])
    assert job["blobs"] == (2 if why else 1)
    assert job["faults"] == ([{"where": first[1], "why": why}] if why else [])


def test_a_hostile_record_is_named_and_clipped(pushgrid: Pushgrid, crm: Subscriber):
    letters = [CLOUD_EVENT | CLOUD_ADDED | {name * 600_000: 1} for name in "xyz"]
    pushgrid._app.dead_letters.write(AZURE, "1.json", json.dumps(letters).encode())
    pushgrid._app.dead_letters.write(AZURE, "2.json", json.dumps([EVENT | ADDED]).encode())
    pushgrid.advance(minutes=1)

    job = replayed(pushgrid, container="azure", to=CRM)

    assert (job["state"], job["skipped"], ids(crm)) == ("Done", {"NotReplayable": 3}, ["a-1"])
    assert all(len(each["why"]) <= 512 for each in job["faults"])


def test_an_internal_error_ends_the_job_at_once_and_names_the_blob(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch, logged: Logged
):
    """What was put before stays put, and the next replay may begin."""
    _, second = sorted(pushgrid._app.dead_letters.blobs)

    def fail(_: object, path: str, *__: object) -> None:
        if path == second[1]:
            raise KeyError("a member of an event")

    with monkeypatch.context() as patch:
        before(patch, pushgrid._app.dead_letters, "read", fail)
        job = pushgrid.arm("POST", "replays", {})
        pushgrid.advance()

    job = pushgrid.arm("GET", f"replays/{job['id']}")
    assert (job["state"], job["replayed"], ids(crm)) == ("Failed", 2, ["e-1", "e-2"])
    assert job["why"].startswith(f"An internal error ended it at '{second[1]}'")
    assert job["faults"] == [{"where": second[1], "why": "KeyError: 'a member of an event'"}]
    (line,) = logged("replay.failed")
    assert line["blob"] == second[1]
    assert line["line"].startswith(__file__)
    assert (replayed(pushgrid)["replayed"], ids(crm)) == (1, ["e-1", "e-2", "e-3"])


@pytest.mark.parametrize("error", [MemoryError(), StorageUnavailable(), OSError(ECONNRESET, "")])
def test_what_passes_does_not_end_the_job(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    with monkeypatch.context() as patch:
        before(patch, pushgrid._app.dead_letters, "read", Mock(side_effect=error))
        waiting = replayed(pushgrid)
    pushgrid.advance(minutes=5)

    job = pushgrid.arm("GET", f"replays/{waiting['id']}")
    assert (waiting["state"], job["state"], job["faults"]) == ("Running", "Done", [])
    assert ids(crm) == ["e-1", "e-2", "e-3"]


@pytest.mark.usefixtures("crm")
@pytest.mark.parametrize("error", [MemoryError(), StorageUnavailable("It is away.")])
def test_what_never_passes_ends_the_job_after_an_hour(
    pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    before(monkeypatch, pushgrid._app.dead_letters, "read", Mock(side_effect=error))
    job = replayed(pushgrid)
    pushgrid.advance(hours=1)

    job = pushgrid.arm("GET", f"replays/{job['id']}")
    assert (job["state"], job["why"]) == ("Failed", str(error) or repr(error))


def test_faults_that_take_most_characters_fit_into_the_row(pushgrid: Pushgrid, crm: Subscriber):
    """In the row's JSON a letter may take 6 characters, and an emoji 12."""
    path = "ж" * 1000 + ".json"
    letters = [CLOUD_EVENT | CLOUD_ADDED | {"😀" * 600 + str(each): 1} for each in range(60)]
    pushgrid._app.dead_letters.write(AZURE, path, json.dumps(letters).encode())
    pushgrid._app.dead_letters.write(AZURE, "я.json", json.dumps([EVENT | ADDED]).encode())
    pushgrid.advance(minutes=1)

    job = replayed(pushgrid, container="azure", to=CRM)

    assert (job["state"], job["skipped"], ids(crm)) == ("Done", {"NotReplayable": 60}, ["a-1"])
    assert (len(job["faults"]), job["moreFaults"]) == (50, 10)
    assert all(path.startswith(each["where"].rstrip("…")) for each in job["faults"])


def test_a_job_that_can_not_be_saved_ends_without_what_it_has_noted_since(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    first, _ = sorted(pushgrid._app.dead_letters.blobs)
    pushgrid._app.dead_letters.blobs[first] = b"oops"

    def refuse(_: object, __: str, ___: str, document: dict[str, Any], ____: object) -> None:
        if any(where == first[1] for where, _ in document.get("faults", ())):
            raise InvalidDocument

    with monkeypatch.context() as patch:
        before(patch, pushgrid._app.resources, "put", refuse)
        job = replayed(pushgrid)

    assert (job["state"], job["moreFaults"], ids(crm)) == ("Failed", 1, [])
    assert [each["why"][:15] for each in job["faults"]] == ["InvalidDocument"]
    assert (replayed(pushgrid)["replayed"], ids(crm)) == (1, ["e-3"])
