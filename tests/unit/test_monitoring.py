"""The rules of Prometheus and the dashboard of Grafana name metrics that the app has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from shared.engine.operations.activity import Activity
from shared.engine.operations.prometheus import _LABELS, Gauge, exposition
from shared.engine.operations.status import _ended, _gauges, _held, _measured, _waiting
from shared.engine.ports.measures import StoreMeasure
from shared.events.notices import NoticeKind
from shared.metrics import DEFINITIONS, Series, Sum
from shared.subscriptions.subscription import SubscriptionKey

FOLDER = Path(__file__).parents[2] / "docs/monitoring"
RULES = FOLDER / "prometheus-rules.yaml"
DASHBOARD = FOLDER / "grafana-dashboard.json"
_KEY = SubscriptionKey("orders", "crm")
_OF_SQL = (
    *("commits_total", "commit_seconds_total", "wal_bytes", "disk_free_bytes"),
    *("dead_rows", "lease_age_seconds", "takeovers_total"),
)
_FIXED = {"queue", "timer", "reason", "state", "instance"}


def exposed() -> dict[str, set[str]]:
    """Return the labels of each metric that the app shows."""
    one = Sum(1, 1, 1, 1)
    counts = {
        Series(metric, tuple((each, "x") for each in sorted(definition.dimensions))): one
        for metric, definition in DEFINITIONS.items()
    }
    gauges: list[Gauge] = [
        *_gauges(None, ""),
        _held([]),
        _ended([]),
        *_waiting({_KEY: Activity(waiting=1)}),
        *_measured(StoreMeasure(name, "…", 1) for name in _OF_SQL),
    ]
    text = exposition({_KEY: counts}, gauges)
    found = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return {f"pushgrid_{each.name}": set(each.labels) for each in gauges} | found


def alerts() -> dict[str, dict[str, object]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def expressions() -> Iterator[str]:
    yield from (str(rule["expr"]) for rule in alerts().values())
    dashboard = json.loads(DASHBOARD.read_text())
    yield from (each["expr"] for panel in dashboard["panels"] for each in panel["targets"])
    yield from (each["query"] for each in dashboard["templating"]["list"] if "(" in each["query"])


def test_each_metric_and_label_that_is_asked_for_is_shown() -> None:
    known = exposed()
    asked = [name for each in expressions() for name in re.findall(r"pushgrid_\w+", each)]

    assert len(asked) > 20
    assert set(asked) <= set(known)
    labels = set(_LABELS.values()) | {"topic", "subscription", *_FIXED}
    for each in expressions():
        grouped = re.findall(r"by \(([^)]+)\)", each)
        matched = re.findall(r'(\w+)[!=]~?"', each)
        for label in [*matched, *(name.strip() for group in grouped for name in group.split(","))]:
            assert label in labels, each
        for name, selected in re.findall(r"(pushgrid_\w+)\{([^}]*)\}", each):
            assert set(re.findall(r'(\w+)[!=]~?"', selected)) <= known[name], each


def test_there_is_a_rule_for_each_kind() -> None:
    assert {f"Pushgrid{kind.rpartition('.')[2]}" for kind in NoticeKind} <= set(alerts())
    for name, rule in alerts().items():
        assert {"summary", "remedy"} == set(rule["annotations"]), name  # type: ignore[call-overload]


def test_the_dashboard_has_no_panel_twice_and_none_over_another() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places = [
        (x, y)
        for each in panels
        for place in [each["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(places) == len(set(places))
    assert len({each["title"] for each in panels}) == len(panels)
    assert max(x for x, _ in places) == 23


_PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(_PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    command = [str(_PROMTOOL), "check", "rules", str(RULES)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
