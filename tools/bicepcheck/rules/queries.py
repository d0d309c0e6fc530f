"""Rules about alerts: their schedules, queries, and the log lines that they look for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.shapes import suggestion
from tools.bicepcheck.evaluation.values import (
    Deployed,
    Located,
    PartialText,
    parts_of,
    shown,
)
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.monitor import COLUMNS, COMMON_COLUMNS, KEYWORDS
from tools.bicepcheck.rules.names_in_code import App

_DURATION = re.compile(r"P(?:(\d+)D|T(\d+)H|T(\d+)M)")
_FREQUENCIES = frozenset({1, 5, 10, 15, 30, 60, 120, 180, 240, 300, 360, 1440})
_WINDOWS = _FREQUENCIES | {45, 2880}
_METRIC_WINDOWS = frozenset({1, 5, 15, 30, 60, 360, 720, 1440})
_METRIC_FREQUENCIES = frozenset({1, 5, 15, 30, 60})

_COMPARISON = re.compile(r'(\S+)\s+(==|=~|has|startswith|contains|has_cs)\s+"([^"…]*)"')
_COUNTS_RUNS = re.compile(r"OperationName\s*(==|=~|in).*(count\(|sum\(ItemCount\))", re.DOTALL)
_FAILURES = re.compile(r"ResultCode|Success\s*==\s*[Ff]alse|not\(?\s*Success|DurationMs")
_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*')
_ONE_ROW = re.compile(r"\|\s*summarize\b(?!.*\bby\b)[^|]*$")
_STRING = re.compile(r'"([^"]*)"')


def check(deployment: EvaluatedFolder, app: App) -> Iterator[Problem]:
    """Check the alert rules and budgets of a deployment."""
    sites = [site.name for site in deployment.of(azure.SITE)]
    for one in deployment.of(azure.LOG_ALERT):
        yield from _schedule(one, _WINDOWS, _FREQUENCIES)
        for criterion in one.items("properties", "criteria", "allOf"):
            query = _Query(criterion, app, sites)
            line = criterion.lines.get("query", criterion.line)
            for message in query.faults():
                yield one.problem("query", f"{shown(one.name)}: {message}", line=line)
    for one in deployment.of(azure.METRIC_ALERT):
        yield from _schedule(one, _METRIC_WINDOWS, _METRIC_FREQUENCIES)
    for one in deployment.of(azure.LOG_ALERT, azure.METRIC_ALERT):
        if not one.at("properties", "actions"):
            yield one.problem("alert", f"{one.symbol} notifies nobody; set actions")
        if one.at("properties", "enabled") is False:
            yield one.problem("alert", f"{one.symbol} is off; enable it", "properties", "enabled")


def _minutes(text: Any) -> int | None:
    """Return the minutes of an ISO duration; ``None``: not one, or of several units."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return None
    return next(int(n) * k for n, k in zip(found.groups(), (1440, 60, 1), strict=True) if n)


def _schedule(
    one: Deployed, windows: frozenset[int], frequencies: frozenset[int]
) -> Iterator[Problem]:
    for key, allowed in (("windowSize", windows), ("evaluationFrequency", frequencies)):
        value = one.at("properties", key)
        if value is None:
            yield one.problem("duration", f"{one.symbol} has no {key}; set it")
        elif isinstance(value, str) and _minutes(value) not in allowed:
            choices = ", ".join(map(str, sorted(allowed)))
            message = f"{key}: '{value}' is not allowed; use minutes out of {choices}"
            yield one.problem("duration", message, "properties", key)


class _Query:
    """The query of a log alert's criterion."""

    def __init__(self, criterion: Located, app: App, sites: list[Any]) -> None:
        self.criterion, self.app, self.sites = criterion, app, sites
        self.value = criterion.get("query")
        self.text = _COMMENT.sub(r"\1", shown(self.value))
        self.bare = _STRING.sub('""', self.text)  # without the contents of strings

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with the query."""
        lines = [line.strip() for line in self.text.strip().splitlines() if line.strip()]
        table = lines[0].partition("|")[0].strip() if lines else ""
        if table not in COLUMNS and re.fullmatch(r"\w*", table):
            yield f"there is no table '{table}'{suggestion(table, COLUMNS)}"
            return
        if table in COLUMNS:
            yield from self._columns(table)
        yield from self._measure()
        yield from self._role()
        for found in _COMPARISON.finditer(self.text):
            yield from self._names(found[1], found[2], found[3])
        yield from self._direction()

    def _columns(self, table: str) -> Iterator[str]:
        made = set(re.findall(r"(\w+)\s*=(?!=|~)", self.bare))
        known = COLUMNS[table] | COMMON_COLUMNS | made
        text = self.bare.replace(table, "", 1)
        for word in re.findall(r"(?<![\w.…])[A-Za-z_]\w*", text):
            if word.lower() in KEYWORDS or word in known:
                continue
            hint = suggestion(word, sorted(known | KEYWORDS))
            if hint or not re.search(rf"\b{word}\(", text):  # KQL has many functions
                yield f"{table} has no column '{word}'{hint}"

    def _measure(self) -> Iterator[str]:
        column = self.criterion.get("metricMeasureColumn")
        if column is None:
            if _ONE_ROW.search(self.bare.strip()):
                yield "the query returns one row, and rows are counted: set metricMeasureColumn"
        elif not re.search(rf"\b{re.escape(str(column))}\s*=(?![=~])", self.text):
            yield f"the query has no column '{column}', which metricMeasureColumn names"

    def _role(self) -> Iterator[str]:
        """Apps share the workspace, so a query selects rows by the name of the app."""
        parts = self.value.parts if isinstance(self.value, PartialText) else ()
        expected = [part for name in self.sites for part in parts_of(name)]
        unknown = [part for part in expected if not isinstance(part, str)]
        if any(part not in expected for part in parts if not isinstance(part, str)):
            yield "the query contains a value that is not the app's name"
        if any(part not in parts for part in unknown):
            yield "the query must select the app by its name"
        if "AppRoleName" not in self.text:
            yield "the query must select the app by AppRoleName"

    def _names(self, left: str, operator: str, text: str) -> Iterator[str]:
        """Log lines and functions that a query names are the app's."""
        events, functions = self.app.events, self.app.functions
        if "event" in left or left == "Message":
            if text not in events:
                yield f"the app writes no log line '{text}'{suggestion(text, events)}"
                return
            fields = events[text] | {"event"}
            for name in re.findall(r"\bLine\.(\w+)", self.text):
                if name not in fields:
                    yield f"the log line '{text}' has no '{name}'{suggestion(name, sorted(fields))}"
        elif left in {"OperationName", "Name"}:
            starts = operator == "startswith"
            if not any(name == text or (starts and name.startswith(text)) for name in functions):
                yield f"the app has no function '{text}'{suggestion(text, functions)}"

    def _direction(self) -> Iterator[str]:
        """Few runs of a function are a fault; of everything else, many are."""
        operator = self.criterion.get("operator")
        if not isinstance(operator, str):
            return
        runs = bool(_COUNTS_RUNS.search(self.text)) and not _FAILURES.search(self.text)
        less = operator.startswith("LessThan")
        if runs != less:
            amount, wanted = ("few", "LessThan") if runs else ("many", "GreaterThan")
            yield f"{operator} is the wrong direction: {amount} are a fault, so use {wanted}"
