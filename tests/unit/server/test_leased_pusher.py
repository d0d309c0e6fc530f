"""No push begins once another process may have the event."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from pushgrid.testing.memory import FakeClock, ScriptedPusher
from server.leased_pusher import LeasedPusher
from shared.errors import NoLease, is_shortage
from shared.http import OutboundRequest

REQUEST = OutboundRequest("POST", "https://crm.example/hook", {}, b"[]")


def test_without_its_lease_a_process_pushes_nothing_and_nobody_is_to_blame() -> None:
    pusher = ScriptedPusher(FakeClock())
    has_lease = [True, False]
    leased = LeasedPusher(pusher, lambda: has_lease.pop(0))

    asyncio.run(leased.send(REQUEST, timedelta(seconds=30)))
    with pytest.raises(NoLease) as refused:
        asyncio.run(leased.send(REQUEST, timedelta(seconds=30)))

    assert len(pusher.sent) == 1
    assert is_shortage(refused.value)  # no attempt, as where descriptors are missing
