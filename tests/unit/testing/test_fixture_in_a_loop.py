"""The fixture `pushgrid` in a test that is a coroutine: its calls keep that test's loop waiting."""

from __future__ import annotations

import asyncio
import threading

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.subscriber import Request


def test_it_works_and_handlers_have_the_test_s_thread(pushgrid: Pushgrid):
    threads: list[int] = []

    def handle(_: Request) -> int:
        threads.append(threading.get_ident())
        return 503 if len(threads) == 1 else 200

    async def test() -> None:
        orders = pushgrid.topic("orders")
        crm = orders.subscribe("crm", handler=handle)
        orders.publish({"eventType": "Shop.OrderPlaced"})
        pushgrid.advance(minutes=1)
        assert [each.after for each in crm.attempts] == [0, 30]

    asyncio.run(test())

    assert threads == [threading.get_ident()] * 2
