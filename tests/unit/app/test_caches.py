"""What is composed over storage, and how long what was read of it is known."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import cast
from unittest.mock import Mock

import pytest

from shared.engine.caching.resource_cache import ResourceCache
from shared.engine.manage import route_table
from shared.wiring.function_app import FunctionApp


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")


def test_a_topic_does_not_wait_for_the_reads_of_15_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four threads a fifth topic waited for four whose reads hung."""
    cache = cast("ResourceCache", FunctionApp().app.directory)
    all_read = threading.Barrier(16)
    monkeypatch.setattr(cache, "_read", lambda *_: all_read.wait(20))

    async def ready() -> None:
        await asyncio.gather(*(cache.ready(f"topic-{number}") for number in range(16)))

    asyncio.run(ready())


def test_operators_are_told_how_long_caches_serve_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHGRID_CACHE_SECONDS", "7")
    composed = Mock()
    monkeypatch.setattr(route_table, "RouteTable", composed)

    app = FunctionApp().app
    app.manage  # noqa: B018 - it is composed

    topics, longest = cast("ResourceCache", app.directory)._topics, timedelta(seconds=14)
    assert composed.call_args.kwargs["known_for"] == longest
    assert topics._serve_seconds(Mock()) == longest.total_seconds()
