"""What is composed for publishing."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from shared.app import POOLS
from shared.wiring.function_app import FunctionApp

PATIENCE = 60  # seconds after which a test that hangs fails


def test_a_check_is_withdrawn_with_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all threads check what was refused, and each request is refused before its turn."""
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    all_held = threading.Barrier(POOLS["publish"] + 1)
    may_end = threading.Event()
    made: list[str] = []

    def hold() -> None:
        all_held.wait(PATIENCE)
        may_end.wait(PATIENCE)

    async def refuse_one() -> None:
        off_loop = FunctionApp().app.publish.off_loop
        held = [asyncio.create_task(off_loop(hold)) for _ in range(POOLS["publish"])]
        await asyncio.to_thread(all_held.wait, PATIENCE)
        refused = asyncio.create_task(off_loop(partial(made.append, "refused")))
        await asyncio.sleep(0)
        refused.cancel()
        await asyncio.wait([refused])
        may_end.set()
        await asyncio.gather(*held, off_loop(partial(made.append, "next")))

    asyncio.run(refuse_one())
    assert made == ["next"]
