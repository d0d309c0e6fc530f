"""Requests that start replays, on a deployment in memory."""

from __future__ import annotations

from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import Refused
from pushgrid.testing.topic import Subscriber
from shared.deadletter.paths import MAX_PATH, dead_letter_folder
from shared.deadletter.selection import Selection
from shared.engine.manage import replays_api
from shared.engine.ports import Table
from shared.engine.replaying.job import (
    MAX_PUT_ONCE,
    Position,
    ReplayFault,
    ReplayJob,
    ReplaySource,
)
from tests.functional.deployment import Logged
from tests.functional.replaying.replays import CRM, ids, replayed


@pytest.mark.usefixtures("crm")
def test_a_given_container_is_named_in_the_log_and_by_its_fault(pushgrid: Pushgrid, logged: Logged):
    pushgrid._app.dead_letters.missing.add("azure")

    job = replayed(pushgrid, container="azure", to=CRM)

    (began,) = logged("replay.started")
    assert (began["containers"], began["subscriptions"], began["to"]) == (
        ["azure"],
        [],
        "orders/crm",
    )
    assert [each["where"] for each in job["faults"]] == ["container azure"]


@pytest.mark.usefixtures("crm")
@pytest.mark.parametrize(
    ("member", "moment"),
    [("until", "0001-01-01T00:00:00Z"), ("since", "9999-12-31T23:59:59Z"), ("prefix", "CRM/../")],
)
def test_a_replay_of_nothing_blocks_no_other(pushgrid: Pushgrid, member: str, moment: str):
    nothing = replayed(pushgrid, **{member: moment})

    assert (nothing["state"], nothing["events"]) == ("Done", 0)
    assert replayed(pushgrid)["replayed"] == 3


def test_one_replay_runs_at_a_time(pushgrid: Pushgrid, crm: Subscriber):
    pushgrid._app.dead_letters.away.add("testing")
    first = pushgrid.arm("POST", "replays", {})

    with pytest.raises(Refused, match=first["id"]):
        pushgrid.arm("POST", "replays", {})
    cancelled = pushgrid.arm("POST", f"replays/{first['id']}/cancel")

    assert cancelled["state"] == "Cancelled"
    pushgrid._app.dead_letters.away.clear()
    assert replayed(pushgrid)["replayed"] == 3
    assert len(ids(crm)) == 3


def test_a_subscription_whose_row_can_t_be_read_is_a_fault(pushgrid: Pushgrid, crm: Subscriber):
    crm.topic.subscribe("erp")
    pushgrid._app.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "erp", {})

    job = replayed(pushgrid, topic="orders")

    assert (job["state"], job["replayed"]) == ("Done", 3)
    assert job["faults"] == [{"where": "orders/erp", "why": "Its row can't be read."}]
    with pytest.raises(Refused, match="can't be read"):
        replayed(pushgrid, subscription="ERP")


@pytest.mark.parametrize(("topic", "member"), [("orders", "subscription"), ("", "topic")])
def test_there_is_a_limit_of_subscriptions(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch, topic: str, member: str
):
    crm.topic.subscribe("erp")
    monkeypatch.setattr(replays_api, "MAX_SOURCES", 1)

    with pytest.raises(Refused, match=f"more than 1 event subscriptions; give '{member}'"):
        pushgrid.arm("POST", "replays", {"topic": topic})


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"rate": 0}, "rate must be"),
        ({"rate": 1001}, "rate must be"),
        ({"since": "yesterday"}, "since must be"),
        ({"dryRun": 1}, "dryRun must be"),
        ({"tries": 5}, "tries is unknown; the members are topic, .*, again, unproven"),
        ({"drRun": True}, r"drRun is unknown; did you mean dryRun\?"),
        ({"to": {**CRM, "name": "crm"}}, "to.name is unknown"),
        (
            {"since": "2026-02-10T00:00:00Z", "until": "2026-02-09T23:59:59Z"},
            "until must not be before",
        ),
        ({"prefix": "A\0/"}, "prefix can't have"),
        ({"prefix": "A" * 1025}, "prefix can't have more than 1024"),
        ({"unproven": 1}, "unproven must be"),
        ({"container": "../dead", "to": CRM}, "container must be 3-63"),
        ({"container": "dead/x", "to": CRM}, "container must be 3-63"),
        ({"container": "a?b=c", "account": "testing", "to": CRM}, "container must be 3-63"),
        ({"container": "Dead", "to": CRM}, "container must be 3-63"),
        ({"container": "payloads", "to": CRM}, "reserved for the app"),
        ({"container": "poison", "account": "testing", "to": CRM}, "reserved for the app"),
        ({"account": "a"}, "'account' needs 'container'"),
        ({"container": "c"}, "'to' is required"),
        ({"container": "c", "topic": "orders", "subscription": "crm"}, "'to' is required"),
        ({"container": "c", "subscription": "crm", "to": CRM}, "'subscription' can't select"),
        ({"container": "c", "account": "archive"}, "'archive' is not in PUSHGRID_DEADLETTER"),
        ({"to": {"subscription": "crm"}}, "to.topic is missing"),
        ({"to": {"topic": "orders"}}, "to.subscription is missing"),
        ({"to": {"topic": "orders", "subscription": "erp"}}, "no event subscription 'erp'"),
        ({"topic": "none"}, "There is no topic 'none'"),
    ],
)
@pytest.mark.usefixtures("crm")
def test_what_can_t_be_started_is_refused(pushgrid: Pushgrid, members: dict[str, Any], why: str):
    with pytest.raises(Refused, match=why):
        pushgrid.arm("POST", "replays", members)
    assert pushgrid.arm("GET", "replays")["value"] == []


@pytest.mark.usefixtures("crm")
@pytest.mark.parametrize("member", ["prefix", "reason", "event"])
def test_what_selects_is_bounded(pushgrid: Pushgrid, member: str):
    with pytest.raises(Refused, match=f"{member} can't have more than 1024 characters") as refused:
        pushgrid.arm("POST", "replays", {member: "x" * 1025})
    assert refused.value.status == 400
    assert replayed(pushgrid, **{member: "x" * 1024})["state"] == "Done"


def test_the_largest_job_has_room_in_its_row(pushgrid: Pushgrid):
    moment = pushgrid._app.clock.now()
    name, text = "n" * 64, "😀" * MAX_PATH
    folder = dead_letter_folder(f"{name}.{name}", name)
    source = ReplaySource(f"{name}.{name}", name, name, name[:24], folder)
    job = ReplayJob(
        id=name,
        by=text,
        started_at=moment,
        sources=(source,) * replays_api.MAX_SOURCES,
        selection=Selection(prefix=text, reason=text, event=text),
        to=source.key,
        rate=1000,
        is_dry_run=False,
        again=False,
        position=Position(199, text, 10_000),
        put_once=(name[:20],) * MAX_PUT_ONCE,
    )
    job = job.with_batch(text, tuple(range(0, 128, 2)))
    job = job.with_faults(*[ReplayFault(text, text)] * 60)

    saved = pushgrid._app.replays.save(job, None)
    pushgrid._app.replays.cancel(saved.job.id, text)
