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
def queries_name_lines_and_members_that_are_written(snapshot: Snapshot) -> Iterable[str]:
    """An alert about a line or a member that is not there never fires."""
    for alert, query in queries(snapshot):
        found = re.search(r'tostring\(Line\.event\) (?:== ("[^"]*")|in \((.*)\))', query)
        events = set(re.findall(r'"(.+?)"', found[0] if found else ""))
        wanted = set(ALERTS[alert.name].get("events", ()))
        if wanted - LINES or not wanted == events == set(re.findall(r'has "(.+?)"', query)):
            yield f"{alert.name} is about {events}"
        read = {name for _, event, each in HAPPENINGS if event in wanted for name in each}
        read |= {"event"} if wanted else set()
        yield from differences(f"{alert.name} member", re.findall(r"Line\.(\w+)", query), read)


@rule
def queries_about_functions_name_functions(snapshot: Snapshot) -> Iterable[str]:
    """The host names requests after the folder; the heartbeat is the timer that writes the rest."""
    for alert, query in queries(snapshot):
        found = re.findall(r'OperationName (?:== "(\w+)"|startswith "(\w+)")', query)
        named = {
            each
            for whole, start in found
            for each in FUNCTIONS
            if each == whole or (start and each.startswith(start))
        }
        yield from differences("function", named, ALERTS[alert.name].get("functions", ()))


@rule
def queries_have_columns_and_words_that_there_are(snapshot: Snapshot) -> Iterable[str]:
    for alert, query in queries(snapshot):
        source, *words = re.findall(r"(?<![\w.])[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", query))
        known = {*MONITOR["tables"].get(source, ()), *MONITOR["words"]}
        if unknown := {*words} - known - {*re.findall(r"(\w+) = ", query)}:
            yield f"{alert.name}: {source} has no {unknown}"


@rule
def queries_measure_what_they_are_about(snapshot: Snapshot) -> Iterable[str]:
    """Apps share a workspace; rows stand for ItemCount lines; a dimension's values are alerts."""
    for alert, query in queries(snapshot):
        wanted = {"operator": "GreaterThan"} | ALERTS[alert.name]["criterion"]
        value = wanted.pop("value")
        for part in (f'AppRoleName =~ "{snapshot.one("Web/sites").name}"', f" Value = {value}"):
            if part not in query:
                yield f"{alert.name} lacks {part}"
        columns = re.findall(r"(\w+) = (?!parse_json|sum|max)", query)
        every = [{"name": each, "operator": "Include", "values": ["*"]} for each in columns]
        yield from unequal(alert.at(CRITERION), wanted | {"dimensions": every})
