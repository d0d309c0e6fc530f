"""`pushgrid dead-letters replay`, `jobs` and `cancel`, on a deployment in memory."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.topic import Subscriber
from shared.engine.ports import Table
from tests.commands import Run
from tests.functional.replaying.replays import lose_an_event


@pytest.fixture
def crm(pushgrid: Pushgrid) -> Subscriber:
    return lose_an_event(pushgrid, 200)


def test_a_replay_is_waited_for(run: Run, crm: Subscriber):
    code, out, err = run("dead-letters", "replay", "-t", "orders", "-s", "crm", "--since", "7000d")

    head, _, line = out.splitlines()
    job, *row = line.split()
    assert (code, len(crm.received)) == (0, 1)
    assert err.startswith(f"replay {job} has started, and goes on without this command")
    assert f"'pushgrid dead-letters cancel {job}'" in err
    assert head.split()[:5] == ["JOB", "STATE", "BLOBS", "EVENTS", "REPLAYED"]
    assert head.split()[-6:] == ["OF", "TO", "STARTED", "UPDATED", "BY", "WHY"]
    assert row[:4] == ["Done", "1", "1", "1"]
    assert row[6:12] == ["orders/crm", "-", "2026-02-09", "13:00:00", "2026-02-09", "13:00:00"]


def test_a_replay_whose_events_fail_again_is_not_just_done(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    crm = orders.subscribe("crm", answers=[400, 400, 400, 200, 400])
    for number in range(3):
        orders.publish({"id": f"e-{number}", "eventType": "Shop.OrderPlaced"})
    pushgrid.advance(hours=1)

    _, out, err = run("dead-letters", "replay", "-t", "orders", "-s", "crm", "--since", "7000d")
    pushgrid.advance(minutes=1)
    listed = run("dead-letters", "jobs")
    job = run("dead-letters", "jobs", "--json").document[0]

    assert "Done" in out
    assert "3 events replayed: 'pushgrid dead-letters jobs' tells how many have failed again" in err
    assert (job["state"], job["replayed"], job["failedAgain"]) == ("Done", 3, 2)
    assert len(crm.received) == 1
    assert "Done, 2 failed again" in listed.out
    pushgrid.advance(days=8)
    assert run("dead-letters", "jobs", "--json").document[0]["failedAgain"] is None


def test_a_replay_of_all_asks_first(run: Run, crm: Subscriber):
    """What is chosen, counted only, or agreed to is not asked about."""
    replay = ("dead-letters", "replay", "--no-wait")

    script = run(*replay)
    declined = run(*replay, given="n\n", is_terminal=True)
    counted = run(*replay, "--dry-run")
    assert [each.code for each in (script, declined, counted)] == [2, 1, 0]
    assert crm.received == []
    what = "this sends all dead letters again"
    assert script.err == f"pushgrid: {what}: add --yes to do so without a terminal\n"
    how_much = "1 event of 1 event subscription"
    assert declined.err == f"{what}: {how_much}. Continue? [y/N]: pushgrid: nothing was done\n"
    agreed = run(*replay, given="y\n", is_terminal=True)

    assert agreed.code == 0
    assert run("dead-letters", "jobs", "--json").document[0]["replayed"] == 1


def test_one_event_is_resent_as_often_as_wanted(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    crm = orders.subscribe("crm", answers=[400, 400, 200])
    orders.publish([{"id": each, "eventType": "Shop.OrderPlaced"} for each in ("e-1", "e-2")])
    pushgrid.advance(hours=1)

    done = [run("events", "resend", "e-2", "-t", "orders") for _ in range(2)]
    nothing = run("events", "resend", "e-3")

    assert [each.out for each in done] == ["resent e-2: 1 of 2 dead letters read\n"] * 2
    assert [each["id"] for each in crm.received] == ["e-2", "e-2"]
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err.startswith("pushgrid: no dead letter has the event id 'e-3': only dead ")
    jobs = run("dead-letters", "jobs", "--json").document
    assert [each["skipped"] for each in jobs].count({"AnotherEvent": 1}) == 2
    assert run("dead-letters", "jobs").out.count(" AnotherEvent (1) ") == 2


def test_the_timeline_tells_a_replay_from_the_publishing(pushgrid: Pushgrid, run: Run):
    orders = pushgrid.topic("orders")
    orders.subscribe("crm", answers=[400, 503, 200])
    orders.publish({"id": "e-17", "eventType": "Shop.OrderPlaced"})
    pushgrid.advance(hours=1)
    job = run("dead-letters", "replay", "--yes", "--no-wait", "--json").document["id"]
    pushgrid.advance(minutes=5)

    out = run("timeline", "-t", "orders", "-s", "crm", "--since", "2026-02-09T12:00").out

    first, second = [line for line in out.splitlines() if line.startswith("e-17")]
    assert first.startswith("e-17  Shop.OrderPlaced  published 2026-02-09 12:00:00, 1:05:00 ago")
    assert second.startswith("e-17  Shop.OrderPlaced  replayed 2026-02-09 13:00:00, 0:05:00 ago")
    assert "replay" not in first
    assert second.endswith(f", replay {job})")


def test_a_dry_run_is_labelled(run: Run, crm: Subscriber):
    replay = run("dead-letters", "replay", "--dry-run", "--unproven", "--json")
    job = replay.document

    started, nothing = replay.err.splitlines()
    assert started.startswith(f"dry run, which sends nothing, {job['id']} has started")
    assert nothing == "this is a dry run: nothing is sent"
    assert (job["dryRun"], job["unproven"], job["rate"], crm.received) == (True, True, 50, [])
    line = run("dead-letters", "jobs").out.splitlines()[-1]
    assert "Done, dry run" in line
    assert " would send 1 " in line


def test_a_replay_to_another_subscription_can_be_cancelled(
    pushgrid: Pushgrid, run: Run, crm: Subscriber
):
    crm.topic.subscribe("erp")
    assert crm.container
    pushgrid._app.dead_letters.away.add("testing")

    job = run(
        "dead-letters", "replay", "--yes", "--to", "orders/erp", "--no-wait", "--json"
    ).document
    cancelled = run("dead-letters", "cancel", job["id"])
    found = run("dead-letters", "jobs", "--json").document

    assert job["to"] == {"topic": "orders", "subscription": "erp"}
    assert " orders/erp " in cancelled.out
    assert (cancelled.code, "Cancelled" in cancelled.out) == (0, True)
    assert [each["state"] for each in found] == ["Cancelled"]


def test_a_replay_that_has_ended_is_not_cancelled(run: Run, crm: Subscriber):
    job = run("dead-letters", "replay", "--yes", "--json").document["id"]

    found = run("dead-letters", "cancel", job)

    ended = f"replay {job} can't be cancelled: it ended at 2026-02-09 13:00:00: Done\n"
    assert (found.code, found.err, len(crm.received)) == (0, ended, 1)


@pytest.mark.parametrize(("is_dry_run", "sent"), [(False, "sent"), (True, "would send")])
@pytest.mark.usefixtures("crm")
def test_the_progress_tells_what_was_sent_and_read(
    pushgrid: Pushgrid, run: Run, monkeypatch: pytest.MonkeyPatch, *, is_dry_run: bool, sent: str
):
    monkeypatch.setattr("cli.replays.sleep", lambda _: pushgrid.advance(minutes=1))
    told: list[str] = []
    monkeypatch.setattr("rich.status.Status.update", lambda _, text: told.append(str(text)))

    run("dead-letters", "replay", "--yes", *(["--dry-run"] if is_dry_run else []))

    assert told[-1].endswith(f": {sent} 1, read 1 events in 1 blobs")


@pytest.mark.usefixtures("crm")
def test_an_outage_does_not_end_the_wait(
    pushgrid: Pushgrid, run: Run, monkeypatch: pytest.MonkeyPatch
):
    told: list[str] = []
    monkeypatch.setattr("rich.status.Status.update", lambda _, text: told.append(str(text)))
    waits = iter(["busy", "busy", "gone on"])

    def sleep(_: float) -> None:
        if next(waits) == "busy":
            pushgrid._app.resources.fail_next("get")
        else:
            pushgrid.advance(minutes=1)

    monkeypatch.setattr("cli.replays.sleep", sleep)

    code, out, _ = run("dead-letters", "replay", "--yes")

    assert (code, "Done" in out, next(waits, None)) == (0, True, None)
    assert ["503" in each for each in told] == [True, True, False]


@pytest.mark.usefixtures("crm")
@pytest.mark.parametrize(
    ("stands_still", "why"), [(True, "has not changed since"), (False, "no replay")]
)
def test_a_wait_without_prospect_ends(
    pushgrid: Pushgrid, run: Run, monkeypatch: pytest.MonkeyPatch, *, stands_still: bool, why: str
):
    monkeypatch.setattr(pushgrid._app, "replay", Mock())

    def sleep(_: float) -> None:
        if not stands_still:
            (job,) = pushgrid.arm("GET", "replays")["value"]
            pushgrid._app.resources.delete(Table.REPLAYS, "job", job["id"])

    monkeypatch.setattr("cli.replays.sleep", sleep)

    code, _, err = run("dead-letters", "replay", "--yes")

    assert (code, why in err) == (1, True)


def test_a_source_that_fails_leaves_a_replay_done_in_part(
    pushgrid: Pushgrid, run: Run, crm: Subscriber
):
    erp = crm.topic.subscribe("erp")
    assert erp.container
    pushgrid._app.dead_letters.missing.add(erp.container)

    code, out, _ = run("dead-letters", "replay", "--topic", "orders")

    assert (code, len(crm.received)) == (1, 1)
    assert "Done in part" in out
    assert f"orders/erp: There is no container '{erp.container}'" in out
    resent = run("events", "resend", "e-17").err.splitlines()
    assert resent[0].endswith(": Done in part: 1 dead letter sent")
    assert resent[1].startswith(f"  orders/erp: There is no container '{erp.container}'")
    assert crm.container
    pushgrid._app.dead_letters.missing.add(crm.container)
    failed = run("dead-letters", "replay", "--topic", "orders")
    assert (failed.code, "Failed" in failed.out) == (1, True)
    assert f" There is no container '{crm.container}'" in run("dead-letters", "jobs").out
