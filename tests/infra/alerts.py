"""Rules: alerts read what the app writes; values.json has what Azure Monitor takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.functional.test_alert_lines import HAPPENINGS
from tests.infra.agreement import FUNCTIONS
from tests.infra.deployed import Resource, Snapshot, differences, rule, table, unequal
from tests.unit.test_operating_page import logged

MONITOR = table("monitor")
ALERTS = MONITOR["alerts"]
LINES = logged()
CRITERION = "properties.criteria.allOf.0"


def queries(snapshot: Snapshot) -> Iterator[tuple[Resource, str]]:
    """Yield the log alerts that are known, each with its query."""
    for alert in snapshot.of("/scheduledQueryRules"):
        if alert.name in ALERTS:
            yield alert, alert.at(f"{CRITERION}.query")


@rule
def queries_read_what_is_written(snapshot: Snapshot) -> Iterable[str]:
    """An alert about what is not there never fires. The host names requests after the folder."""
    site = snapshot.one("Web/sites").name
    for alert, query in queries(snapshot):
        wanted = [each.replace("{site}", site) for each in ALERTS[alert.name]["where"]]
        found = re.findall(r"\| where (.*)", query)
        yield from unequal({alert.name: found}, {alert.name: wanted})
        events = set(re.findall(r'has "(.+?)"', query))
        yield from differences("line", events & LINES, events)
        read = {name for _, event, each in HAPPENINGS if event in events for name in each}
        yield from differences("member", re.findall(r"Line\.(?!event\b)(\w+)", query), read)
        starts = tuple(re.findall(r'OperationName (?:==|startswith) "(\w+)"', query))
        functions = [each for each in FUNCTIONS if each.startswith(starts)]
        yield from differences("function", functions, ALERTS[alert.name].get("functions", ()))


@rule
def queries_have_columns_and_words_that_there_are(snapshot: Snapshot) -> Iterable[str]:
    for alert, query in queries(snapshot):
        source, *words = re.findall(r"(?<![\w.])[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", query))
        known = {*MONITOR["tables"].get(source, ()), *MONITOR["words"]}
        if unknown := {*words} - known - {*re.findall(r"(\w+) = ", query)}:
            yield f"{alert.name}: {source} has no {unknown}"


@rule
def queries_measure_what_they_are_about(snapshot: Snapshot) -> Iterable[str]:
    """Rows stand for ItemCount lines; a dimension's values are alerts."""
    for alert, query in queries(snapshot):
        wanted = {"operator": "GreaterThan"} | ALERTS[alert.name]["criterion"]
        value = wanted.pop("value")
        if f" Value = {value}" not in query:
            yield f"{alert.name} does not measure {value}"
        columns = re.findall(r"(\w+) = (?!parse_json|sum|max)", query)
        every = [{"name": each, "operator": "Include", "values": ["*"]} for each in columns]
        found = {"windowSize": alert.at("properties.windowSize"), **alert.at(CRITERION)}
        yield from unequal(found, wanted | {"dimensions": every})
