"""Nothing that waits is forgotten: seen at every turn of the loop, by what anybody may ask for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.gate import Until
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.endpoint import Endpoint
from shared.engine.ports import Queue, Table
from shared.subscriptions.request_limits import RequestLimits
from tests.builders import URL, a_delivery, a_message
from tests.functional.delivering.failing import (
    answer_late,
    fail,
    fan_out,
    groups,
    subscribe,
    time_out,
    url,
)
from tests.functional.delivering.test_openings import Openings
from tests.functional.deployment import MINUTE, SECOND, Deployment

TURNS = 12  # of the loop, in which all is done that needs no time


def forgotten(deliver: Deliver) -> Iterator[str]:
    """Name what waits although nothing would look at it before the tick half a second later."""
    scheduler = deliver.endpoints.scheduler
    for endpoint in deliver.endpoints.all:
        if endpoint.line and not scheduler.is_scheduled(endpoint) and not is_looked_at(endpoint):
            yield f"{endpoint.key}: {len(endpoint.line)} for {endpoint.waits}"
    for each in scheduler.budget.waiting:
        if not scheduler.budget.under_way.total() and not scheduler.is_scheduled(each):
            yield f"{each.key} waits for a budget that nobody uses"
    for in_hand in deliver.in_hand.values():
        for message in in_hand.messages:
            if len(message.parts) != len([each for each in message.parts if each.open]):
                yield "a message waits for a part of which nothing is open"


def is_looked_at(endpoint: Endpoint) -> bool:
    if endpoint.waits is None:
        return False
    until, budget = endpoint.waits.until, endpoint.scheduler.budget
    return {
        Until.PUSH_ENDS: endpoint.under_way > 0,
        Until.PROBE_ENDS: endpoint.is_probing,
        Until.SHARE_IS_READ: True,  # Maybe none is read now: it is looked at each half second.
        Until.TIME: endpoint.waits.seconds >= asyncio.get_running_loop().time(),
        Until.BUDGET: endpoint in budget.waiting,
        Until.CONNECTION: True,  # by the pool, see below
    }[until]


def play(app: Deployment, seconds: int) -> Counter[Until]:
    """Let time pass; look at each turn of the loop, and count what was waited for."""
    seen: Counter[Until] = Counter()

    def look() -> None:
        assert list(forgotten(app.deliver)) == []
        for each in app.deliver.endpoints.all:
            if each.line and each.waits:
                seen[each.waits.until] += 1

    async def watch() -> None:
        end = app.loop.time() + seconds
        while app.loop.time() < end:
            for _ in range(TURNS):
                look()
                await asyncio.sleep(0)
            await asyncio.sleep(0.02)  # only then does time pass

    app.loop.run(watch())
    return seen


@pytest.mark.parametrize(
    ("until", "limits", "pushes"),
    [
        (Until.PUSH_ENDS, RequestLimits(), 4096),
        (Until.PUSH_ENDS, RequestLimits(at_once=1), 4096),
        (Until.TIME, RequestLimits(a_second=20), 4096),
        (Until.BUDGET, RequestLimits(), 2),
    ],
    ids=["limit", "limit of all processes", "a second", "budget"],
)
def test_what_waits_is_looked_at(
    app: Deployment, until: Until, limits: RequestLimits, pushes: int
) -> None:
    names = [f"crm-{number}" for number in range(4)]
    subscribe(app, *names, limits=limits)
    app.pusher.script(url("crm-0"), answered(503))
    app.pusher.takes = SECOND / 5
    app.deliver.endpoints.scheduler.budget.pushes = pushes
    tasks = [begin(app, fan_out(*names, events=16)) for _ in range(2)]

    seen = play(app, 20)
    app.loop.advance(2 * MINUTE)

    assert seen[until]
    assert all(each.done() for each in tasks)
    assert app.leftovers() == []


def test_what_waits_for_a_connection_is_looked_at(app: Deployment) -> None:
    app.subscribe()
    openings = Openings(app, permitted=1)
    task = begin(app, fan_out("crm", events=3))

    seen = play(app, 1)
    openings.permit(9)
    app.loop.settle()

    assert seen[Until.CONNECTION]
    assert task.done()


def test_a_late_success_lets_what_waits_begin_at_once(app: Deployment) -> None:
    """It gives back the limit that its timeout took."""
    app.limit_pushes(2)
    time_out(app)
    app.pusher.script(URL, answered(200))
    held = app.hold('"e-1"', '"e-2"')
    task = app.begin(a_message([a_delivery(1), a_delivery(2)]))
    one = len(held.held)

    answer_late(app)

    assert (one, len(held.held)) == (1, 2)
    held.let_go()
    app.loop.settle()
    assert task.done()


def test_what_waits_for_a_probe_is_looked_at_when_another_process_has_it(app: Deployment) -> None:
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    health = app.deliver.endpoints.of(subscription).health
    write, off_loop = health.store.write, health.off_loop
    row = Table.ENDPOINT_HEALTH, "orders", "crm"

    async def be_too_late(call: Any) -> Any:
        if call.func == write and (stored := app.resources.get(*row)):
            app.resources.damage(*row, stored.document)  # written by another, as it was
        return await off_loop(call)

    health.off_loop = be_too_late
    assert app.begin(a_message([a_delivery(1)])).done()
    assert groups(app) == [[1]]


def begin(app: Deployment, text: str) -> asyncio.Task[None]:
    return app.loop.create_task(app.deliver.run(text.encode(), Queue.DELIVERIES))
