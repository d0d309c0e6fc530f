"""The pusher that holds requests: what it holds answers when it is let go, or late, or never."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from pushgrid.testing.memory import DrivenLoop, FakeClock, HeldPusher, ScriptedPusher, answered
from shared.http import Answered, Failure, LateAnswerHandler, NotAnswered, OutboundRequest

TIMEOUT = timedelta(seconds=30)
CRM = OutboundRequest("POST", "https://crm.example/", {}, b"first")
ERP = OutboundRequest("POST", "https://erp.example/", {}, b"second")


@pytest.fixture
def scripted() -> ScriptedPusher:
    return ScriptedPusher(FakeClock())


@pytest.fixture
def loop(scripted: ScriptedPusher) -> Iterator[DrivenLoop]:
    loop = DrivenLoop(scripted._clock)
    yield loop
    loop.end()


def test_what_is_held_answers_when_it_is_let_go_and_all_else_at_once(
    loop: DrivenLoop, scripted: ScriptedPusher
):
    pusher = HeldPusher(scripted)
    pusher.hold("crm", "third")
    requests = (CRM, ERP, ERP._replace(body=b"third"))
    crm, erp, third = (loop.create_task(pusher.send(each, TIMEOUT)) for each in requests)

    loop.advance(timedelta(seconds=29))
    assert (erp.result(), pusher.held, len(scripted.sent)) == (answered(200), ["crm", "third"], 1)
    pusher.let_go("crm")
    loop.settle()

    assert (crm.result(), third.done(), pusher.held) == (answered(200), False, ["third"])
    pusher.let_go()
    loop.settle()
    assert third.result() == answered(200)


@pytest.mark.parametrize(("let_go_at", "reported"), [(60, [answered(200)]), (181, [])])
def test_what_is_held_beyond_its_timeout_answers_late_or_never(
    loop: DrivenLoop, scripted: ScriptedPusher, let_go_at: int, reported: list[Answered]
):
    pusher = HeldPusher(scripted)
    pusher.hold("crm")
    late: list[Answered] = []

    exchange = loop.run(
        pusher.send(CRM, TIMEOUT, LateAnswerHandler(timedelta(minutes=3), late.append))
    )
    loop.advance(timedelta(seconds=let_go_at - 30))
    pusher.let_go()
    loop.settle()

    assert exchange == NotAnswered(Failure.TIMED_OUT, "it is held", 30)
    assert (late, pusher.held) == (reported, [])
