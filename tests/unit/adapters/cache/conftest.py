from __future__ import annotations

import pytest

from shared.adapters.directory import CachedDirectory, Readers
from tests.fakes import FakeClock
from tests.unit.adapters.cache.directory import (
    CACHE_FOR,
    CountingResources,
    namespace_topic_of,
    subscription_of,
    topic_of,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> CountingResources:
    return CountingResources()


@pytest.fixture
def directory(store: CountingResources, clock: FakeClock) -> CachedDirectory:
    return CachedDirectory(
        store,
        Readers(topic_of, namespace_topic_of, subscription_of),
        cache_for=CACHE_FOR,
        clock=clock.monotonic,
    )
