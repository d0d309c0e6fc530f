"""CachedDirectory where storage fails, or holds what can't be read."""

from __future__ import annotations

import json
import logging
from datetime import timedelta

import pytest

from shared.adapters.directory import CachedDirectory
from shared.errors import StorageUnavailable
from tests.fakes import FakeClock
from tests.unit.adapters.cache.directory import (
    CACHE_FOR,
    SECOND,
    CountingResources,
    generations,
    put_subscription,
    put_topic,
)


def test_stale_entries_serve_while_storage_fails(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    put_topic(store)
    put_subscription(store, "a")
    topic, known = directory.topic("orders"), generations(directory)
    store.fail_next("get", 9)
    store.fail_next("list", 9)
    clock.advance(timedelta(days=3))

    assert (directory.topic("orders"), generations(directory)) == (topic, known)


def test_while_storage_fails_it_is_asked_only_now_and_then(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    put_topic(store)
    directory.topic("orders")
    store.fail_next("get", 9)
    clock.advance(CACHE_FOR)
    store.reads = 0

    for _ in range(3):
        directory.topic("orders")

    assert store.reads == 1


def test_with_nothing_to_serve_the_failure_goes_up_and_is_not_kept(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_topic(store)
    store.fail_next("get")
    store.fail_next("list")

    with pytest.raises(StorageUnavailable):
        directory.topic("orders")
    with pytest.raises(StorageUnavailable):
        directory.of_topic("orders")

    assert directory.topic("orders") is not None
    assert directory.of_topic("orders") == ()


def test_that_there_was_none_does_not_serve_while_storage_fails(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    directory.topic("orders")
    store.fail_next("get")
    clock.advance(SECOND)

    with pytest.raises(StorageUnavailable):
        directory.topic("orders")


def test_fresh_fails_when_storage_does(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_subscription(store, "a")
    directory.of_topic("orders")
    store.fail_next("get")

    with pytest.raises(StorageUnavailable):
        directory.fresh("orders", "a")


def test_what_cannot_be_read_is_logged_and_left_out(
    directory: CachedDirectory, store: CountingResources, caplog: pytest.LogCaptureFixture
) -> None:
    put_subscription(store, "a")
    put_subscription(store, "broken", generation=None)

    with caplog.at_level(logging.ERROR):
        known = generations(directory)

    assert known == [("a", "g1")]
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert line["event"] == "document.unreadable"


def test_what_cannot_be_read_is_not_taken_for_deleted(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_subscription(store, "broken", generation=None)

    with pytest.raises(StorageUnavailable):
        directory.fresh("orders", "broken")
