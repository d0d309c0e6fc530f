"""The log is a line of JSON for each record, or text for a terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from server.log import begin_log
from shared import telemetry
from shared.settings import LogFormat


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger(telemetry.LOGGER)
    kept = root.handlers, root.level, ours.level, list(ours.filters)
    yield
    root.handlers, root.level, ours.level, ours.filters = kept


def test_json(capsys):
    begin_log(LogFormat.JSON)
    telemetry.info("topic.changed", "in words", topic="örders")
    logging.getLogger("other").info("not told")
    try:
        int("why")
    except ValueError:
        logging.getLogger("other").exception("it failed")

    ours, others = map(json.loads, capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["topic"], ours["level"]) == ("topic.changed", "örders", "info")
    assert ours["time"].endswith("+00:00")
    assert (others["logger"], others["level"]) == ("other", "error")
    assert "ValueError: invalid literal" in others["message"]


def test_each_name_of_a_line_is_unique(capsys):
    begin_log(LogFormat.JSON)
    telemetry.info("delivery.attempted", time="2026-02-09T12:00:00Z", why='{"x":1,"time":2}')
    telemetry.info("topic.changed", why='{"x":1,"time":2}')

    own, none = (
        json.loads(each, object_pairs_hook=list) for each in capsys.readouterr().err.splitlines()
    )
    assert [name for name, _ in own] == ["level", "event", "time", "why"]
    assert [name for name, _ in none] == ["time", "level", "event", "why"]


def test_text(capsys):
    begin_log(LogFormat.TEXT)
    telemetry.info("delivery.attempted", "200  crm", topic="orders")

    assert capsys.readouterr().err.endswith(" INFO 200  crm\n")
