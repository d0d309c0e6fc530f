"""No push begins once another process may have the event."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pushgrid.testing.memory import FakeClock, ScriptedPusher
from server.leased_pusher import LeasedPusher
from shared.http import Failure, NotAnswered, OutboundRequest

REQUEST = OutboundRequest("POST", "https://crm.example/hook", {}, b"[]")


def test_without_its_lease_a_process_pushes_nothing_and_nobody_is_to_blame() -> None:
    pusher = ScriptedPusher(FakeClock())
    has_lease = [True, False]
    leased = LeasedPusher(pusher, lambda: has_lease.pop(0))

    exchanges = [asyncio.run(leased.send(REQUEST, timedelta(seconds=30))) for _ in range(2)]

    assert len(pusher.sent) == 1
    assert isinstance(exchanges[1], NotAnswered)
    assert exchanges[1].failure is Failure.SHORTAGE  # no attempt, as where descriptors are missing
