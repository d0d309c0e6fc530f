"""What the app tells the local host, and asks of it; other hosts are not asked."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from shared.engine.ports import Queue
from shared.wiring import delivering, local_host, process, storage


@pytest.fixture(autouse=True)
def _composed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_built", {})
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")


def test_it_hears_of_puts_and_says_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    puts: list[str] = []
    at_stop: list[object] = []
    host = SimpleNamespace(message_put=puts.append, at_stop=at_stop.append)
    monkeypatch.setitem(sys.modules, "__host__", host)

    storage.sender()._visible(Queue.DELIVERIES)
    deliver = delivering.deliver()

    assert puts == ["deliveries"]
    assert at_stop == [deliver.endpoints.stop]


def test_where_there_is_none_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "__host__", raising=False)

    local_host.message_put("deliveries")
    local_host.at_stop(lambda: None)
