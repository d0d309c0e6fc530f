"""A server's file, applied again while an endpoint refuses it."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cli.failure import CommandFailed
from cli.serving import kept_file
from cli.serving.beside import BesideTheApp
from cli.serving.in_process import deployment_of
from cli.serving.kept_file import KeptFile
from server.served_app import ServedApp
from shared import telemetry
from testbed.subscriber import PATIENCE, Push, Reply, consents, running_subscriber
from tests.integration.server.test_served_app import URL, on_app

_NETWORKS = "PUSHGRID_ALLOWED_NETWORKS"
_SHORTCUTS = "PUSHGRID_LOCAL_SHORTCUTS"


def webhook(url: str) -> dict[str, Any]:
    return {
        "consent": "assumed",
        "properties": {
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
        },
    }


@contextmanager
def noted(
    caplog: pytest.LogCaptureFixture,
) -> Iterator[tuple[list[str], queue.Queue[str]]]:
    """Give the names of all lines, and those that end a reading or an application as they come."""
    told: list[str] = []
    ends: queue.Queue[str] = queue.Queue()

    def note(line: logging.LogRecord) -> bool:
        event = json.loads(line.getMessage())["event"]
        told.append(event)
        if event in {"file.refused", "file.applied", "file.faulty", "file.left_to_another"}:
            ends.put(event)
        return True

    log = logging.getLogger(telemetry.LOGGER)
    log.addFilter(note)
    try:
        with caplog.at_level("INFO", telemetry.LOGGER):
            yield told, ends
    finally:
        log.removeFilter(note)


@pytest.mark.parametrize("shortcuts", ["false", "true"])
def test_a_retry_changes_only_what_is_not_as_the_file_says_and_tells_why(
    tmp_path, monkeypatch, caplog, shortcuts
):
    monkeypatch.setattr(kept_file, "_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(kept_file, "_LONGEST_SECONDS", 0.001)
    consented = threading.Event()

    def consent(asked: Push) -> Reply:
        return consents(asked) if consented.is_set() else Reply(403)

    def test(app: ServedApp) -> None:
        path = tmp_path / "pushgrid.json"
        with (
            running_subscriber() as crm,
            running_subscriber(consent=consent) as erp,
        ):
            topic: dict[str, Any] = {
                "keys": {"key1": "bG9jYWwta2V5LW9mLW9yZGVycw=="},
                "eventSubscriptions": {"crm": webhook(crm.url), "erp": webhook(erp.url)},
            }
            del topic["eventSubscriptions"]["erp"]["consent"]
            path.write_text(json.dumps({"topics": {"orders": topic}}))
            file = KeptFile(path, prune=False)
            file.read(app.settings)
            BesideTheApp(URL, file, first_seconds=0).begin(app)
            assert [ends.get(timeout=PATIENCE) for _ in range(3)] == ["file.refused"] * 3
            consented.set()
            while ends.get(timeout=PATIENCE) != "file.applied":
                pass

    with noted(caplog) as (told, ends):
        on_app(test, settings={_NETWORKS: "127.0.0.0/8", _SHORTCUTS: shortcuts})
    again = told[told.index("file.refused") :]
    assert [told.count(each) for each in ("topic.changed", "file.changed")] == [1, 3]
    assert [again.count(each) for each in ("topic.changed", "file.changed")] == [0, 1]
    lines = [json.loads(each.getMessage()) for each in caplog.records]
    assert {each["by"] for each in lines if "by" in each} == {"--file pushgrid.json"}
    doubts = [each for each in lines if each["event"] == "file.doubtful"]
    ignored = [
        word for each in doubts for word in ("keys", "consent") if f"'{word}'" in each["detail"]
    ]
    assert ignored == ([] if shortcuts == "true" else ["keys", "consent"])
    assert shortcuts == "true" or "keys.listed" not in told


def test_after_a_faulty_reading_the_last_good_file_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(kept_file, "_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(kept_file, "_LONGEST_SECONDS", 0.001)
    consented = threading.Event()

    def consent(asked: Push) -> Reply:
        return consents(asked) if consented.is_set() else Reply(403)

    def test(app: ServedApp) -> None:
        path = tmp_path / "pushgrid.json"

        def see(event: str) -> None:
            while ends.get(timeout=PATIENCE) != event:
                pass

        with running_subscriber(consent=consent) as erp:
            orders: dict[str, Any] = {"eventSubscriptions": {"erp": webhook(erp.url)}}
            del orders["eventSubscriptions"]["erp"]["consent"]
            path.write_text(json.dumps({"topics": {"orders": orders}}))
            file = KeptFile(path, prune=False)
            file.read(app.settings)
            app.threads.begin(
                lambda: file.follow(deployment_of(app, URL), lambda _: False, lambda: True)
            )
            see("file.refused")
            path.write_text("{")
            file.reload()
            see("file.faulty")
            consented.set()
            see("file.applied")
            file.reload()
            see("file.faulty")
            path.write_text(json.dumps({"topics": {"orders": orders, "bills": {}}}))
            file.reload()
            see("file.applied")

    with noted(caplog) as (told, ends):
        on_app(test, settings={_NETWORKS: "127.0.0.0/8"})
    files = [each for each in told if each.startswith("file.")]
    assert files[-3:] == ["file.faulty", "file.changed", "file.applied"], "not applied in between"


def test_a_file_is_applied_by_the_process_that_is_elected(tmp_path, monkeypatch, caplog):
    """Another one keeps what it has read, also on SIGHUP, says so, and applies it once elected."""
    monkeypatch.setattr(kept_file, "_ELECTED_SECONDS", 0.001)
    looks, elected = threading.Semaphore(0), threading.Event()

    def is_elected() -> bool:
        looks.release()
        return elected.is_set()

    def test(app: ServedApp) -> None:
        path, api = tmp_path / "pushgrid.json", deployment_of(app, URL)
        path.write_text(json.dumps({"topics": {"orders": {}}}))
        file = KeptFile(path, prune=False)
        file.read(app.settings)
        app.threads.begin(lambda: file.follow(api, lambda _: False, is_elected))
        assert file.has_been_applied.wait(PATIENCE)
        assert ends.get(timeout=PATIENCE) == "file.left_to_another"
        path.write_text(json.dumps({"topics": {"bills": {}}}))
        file.reload()
        for _ in range(5):
            assert looks.acquire(timeout=PATIENCE)
        assert api.status("topics")["value"] == []
        assert ends.get(timeout=PATIENCE) == "file.left_to_another"
        assert ends.empty(), "told once for each reading"
        elected.set()
        assert ends.get(timeout=PATIENCE) == "file.applied"
        assert [each["name"] for each in api.status("topics")["value"]] == ["bills"]

    with noted(caplog) as (_, ends):
        on_app(test)


def test_a_file_that_names_nothing_is_refused_where_it_would_delete_everything(tmp_path):
    path = tmp_path / "pushgrid.json"
    path.write_text("{}")

    KeptFile(path, prune=False).read(None)
    with pytest.raises(CommandFailed, match="names no resource"):
        KeptFile(path, prune=True).read(None)
