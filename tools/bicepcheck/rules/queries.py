"""Alerts: what they ask, how often, and whether the app writes what they look for."""

from __future__ import annotations

import re
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Deployed, Lined, Ref, Text, plain
from tools.bicepcheck.problems import Report
from tools.bicepcheck.rules.app import App
from tools.bicepcheck.rules.monitor import ALWAYS, COLUMNS, METRICS, WORDS
from tools.bicepcheck.types import kinds as t

_DURATION = re.compile(r"P(?:(\d+)D|T(\d+)H|T(\d+)M)")
_FREQUENCIES = frozenset({1, 5, 10, 15, 30, 60, 120, 180, 240, 300, 360, 1440})
_WINDOWS = _FREQUENCIES | {45, 2880}
_METRIC_WINDOWS = frozenset({1, 5, 15, 30, 60, 360, 720, 1440})
_METRIC_FREQUENCIES = frozenset({1, 5, 15, 30, 60})
_OF_LOG_ALERTS = ("query", "timeAggregation", "operator", "threshold")

_LOOKS_FOR = re.compile(r'(\S+)\s+(==|=~|has|startswith|contains|has_cs)\s+"([^"…]*)"')
_RUNS = re.compile(r"OperationName\s*(==|=~|in).*(count\(|sum\(ItemCount\))", re.DOTALL)
_FAILS = re.compile(r"ResultCode|Success\s*==\s*[Ff]alse|not\(?\s*Success|DurationMs")
_WELL = re.compile(r"ResultCode\)?\s*<=?|Success\s*==\s*[Tt]rue")
_BADLY = re.compile(r"ResultCode\)?\s*>")
_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*')
_STEPS = (
    r"where|extend|project|summarize|order|sort|top|take|limit|distinct|join|union|render|count"
)
_ONE_ROW = re.compile(r"\|\s*summarize\b(?!.*\bby\b)[^|]*$")
_QUOTED = re.compile(r'"([^"]*)"')


def check(deployment: Deployment, app: App, report: Report) -> None:
    """Check the alert rules of a deployment."""
    for one in deployment.of("Microsoft.Insights/scheduledQueryRules"):
        _times(one, report, _WINDOWS, _FREQUENCIES)
        for criterion in _criteria(one):
            _asked(one, criterion, report)
            _Query(one, criterion, app, deployment, report).check()
        _periods(one, report)
    for one in deployment.of("Microsoft.Insights/metricAlerts"):
        _times(one, report, _METRIC_WINDOWS, _METRIC_FREQUENCIES)
        for criterion in _criteria(one):
            _metric(one, criterion, report)
    for one in deployment.of("Microsoft.Consumption/budgets"):
        _month(one, report)
    for one in deployment.of("Microsoft.Insights/diagnosticSettings"):
        _diagnostics(one, report)
    for kind in ("scheduledQueryRules", "metricAlerts"):
        for one in deployment.of(f"Microsoft.Insights/{kind}"):
            if not one.at("properties", "actions"):
                report.add(one.file, one.line, "alert", f"{one.symbol} tells nobody: no actions")


def _asked(one: Deployed, criterion: Lined, report: Report) -> None:
    if one.at("kind") not in {None, "LogAlert"}:
        return
    for key in _OF_LOG_ALERTS:
        if criterion.get(key) is None:
            report.add(one.file, criterion.line, "alert", f"{one.symbol} lacks {key}")


def _month(one: Deployed, report: Report) -> None:
    """A budget begins with a month."""
    path = ("properties", "timePeriod", "startDate")
    start = one.at(*path)
    if isinstance(start, str) and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-01(T.*)?", start):
        report.add(one.file, one.line_of(*path), "date", f"'{start}' is no first day of a month")


def _criteria(one: Deployed) -> list[Lined]:
    found = one.at("properties", "criteria", "allOf") or []
    return [entry for entry in found if isinstance(entry, Lined)]


def minutes(text: Any) -> int | None:
    """Return the minutes of an ISO duration; ``None``: it is none, or not of one unit."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return None
    return next(int(n) * k for n, k in zip(found.groups(), (1440, 60, 1), strict=True) if n)


def _times(one: Deployed, report: Report, windows: frozenset[int], often: frozenset[int]) -> None:
    for key, allowed in (("windowSize", windows), ("evaluationFrequency", often)):
        value = one.at("properties", key)
        if value is None:
            report.add(one.file, one.line, "duration", f"{one.symbol} lacks {key}")
        elif isinstance(value, str) and minutes(value) not in allowed:
            line = one.line_of("properties", key)
            report.add(
                one.file, line, "duration", f"{key}: '{value}' is no duration that alerts take"
            )
    window = minutes(one.at("properties", "windowSize"))
    frequency = minutes(one.at("properties", "evaluationFrequency"))
    if window and frequency and window < frequency:
        line = one.line_of("properties", "windowSize")
        report.add(one.file, line, "duration", "between two windows is time that nobody looks at")


def _periods(one: Deployed, report: Report) -> None:
    for criterion in _criteria(one):
        periods = criterion.get("failingPeriods") or {}
        least, of = (
            periods.get("minFailingPeriodsToAlert"),
            periods.get("numberOfEvaluationPeriods"),
        )
        if isinstance(least, int) and isinstance(of, int) and least > of:
            report.add(one.file, criterion.line, "alert", f"{least} of {of} periods never fail")


def _metric(one: Deployed, criterion: Lined, report: Report) -> None:
    space, name = criterion.get("metricNamespace"), criterion.get("metricName")
    if space is None or not isinstance(name, str):
        report.add(one.file, criterion.line, "alert", "a metric has a namespace and a name")
        return
    if space not in METRICS:
        message = f"'{space}' has no metrics{t.nearest(str(space), list(METRICS))}"
        report.add(one.file, criterion.lines["metricNamespace"], "alert", message)
        return
    if name not in METRICS[space]:
        message = f"{space} has no metric '{name}'{t.nearest(name, list(METRICS[space]))}"
        report.add(one.file, criterion.lines["metricName"], "alert", message)
        return
    window = minutes(one.at("properties", "windowSize"))
    if window and window < METRICS[space][name]:
        line = one.line_of("properties", "windowSize")
        report.add(
            one.file, line, "duration", f"{name} is measured every {METRICS[space][name]} min"
        )
    for scope in one.at("properties", "scopes") or []:
        _metric_scope(one, str(space), scope, report)
    if str(criterion.get("operator")).startswith("LessThan"):
        report.add(one.file, criterion.lines["operator"], "alert", f"less {name} is nothing bad")
    average = criterion.get("timeAggregation")
    if (
        name.endswith(("Count", "Capacity"))
        and isinstance(average, str)
        and average not in {"Average", "Maximum", "Minimum"}
    ):
        report.add(
            one.file, criterion.lines["timeAggregation"], "alert", f"{name} has no {average}"
        )


def _metric_scope(one: Deployed, space: str, scope: Any, report: Report) -> None:
    parts = scope.parts if isinstance(scope, Text) else (scope,)
    if not isinstance(parts[0], Ref):
        return
    rest = "/".join(plain(Text(parts[1:])).strip("/").split("/")[::2])
    found = f"{parts[0].of.type}/{rest}".rstrip("/")
    names = plain(Text(parts[1:])).strip("/").split("/")[1::2]
    if found != space or any(name != "default" for name in names):
        line = one.line_of("properties", "scopes")
        report.add(one.file, line, "alert", f"the scope is a {found}, the metric is of a {space}")


def _diagnostics(one: Deployed, report: Report) -> None:
    known = {"Transaction", "Capacity", "AllMetrics"}
    for entry in one.at("properties", "metrics") or []:
        category = entry.get("category") if isinstance(entry, Lined) else None
        if isinstance(category, str) and category not in known:
            message = f"there are no metrics '{category}'{t.nearest(category, sorted(known))}"
            report.add(one.file, entry.line, "alert", message)
    if not isinstance(one.scope, Deployed):
        report.add(one.file, one.line, "scope", f"{one.symbol} is the diagnostics of nothing")
    if not any(
        one.at("properties", key) for key in ("workspaceId", "storageAccountId", "eventHubName")
    ):
        report.add(one.file, one.line, "alert", f"{one.symbol} goes nowhere")


class _Query:
    """One query of a log rule."""

    def __init__(
        self, one: Deployed, criterion: Lined, app: App, deployment: Deployment, report: Report
    ) -> None:
        self.one, self.criterion, self.app = one, criterion, app
        self.deployment, self.report = deployment, report
        value = criterion.get("query")
        self.value = value
        self.text = _COMMENT.sub(r"\1", plain(value))
        self.line = criterion.lines.get("query", criterion.line)

    def problem(self, message: str) -> None:
        self.report.add(self.one.file, self.line, "query", f"{plain(self.one.name)}: {message}")

    def check(self) -> None:
        lines = [line.strip() for line in self.text.strip().splitlines() if line.strip()]
        table = lines[0].partition("|")[0].strip() if lines else ""
        if table not in COLUMNS and re.fullmatch(r"\w*", table):
            self.problem(f"there is no table '{table}'{t.nearest(table, list(COLUMNS))}")
            return
        for line in lines[1:]:
            if re.match(rf"({_STEPS})\b(?!\s*(==|\())", line):
                self.problem(f"a step begins with |: {line}")
        if table in COLUMNS:
            self._columns(table)
        self._measure()
        self._role()
        self._texts()
        self._sense()

    def _columns(self, table: str) -> None:
        known = COLUMNS[table] | ALWAYS
        made = set(re.findall(r"(\w+)\s*=(?!=|~)", _QUOTED.sub('""', self.text)))
        bare = _QUOTED.sub('""', self.text).replace(table, "", 1)
        for word in re.findall(r"(?<![\w.…])[A-Za-z_]\w*", bare):
            if word.lower() in WORDS or word in known or word in made:
                continue
            hint = t.nearest(word, sorted(known | made | WORDS))
            if re.search(rf"\b{word}\(", bare) and not hint:
                continue  # one of KQL's many functions
            self.problem(f"{table} has no '{word}'{hint}")
        if "{" in bare and not re.search(r"\{.*\}", bare):
            self.problem("a brace is open")
        if re.search(r"\{\d\}", self.text):
            self.problem("a place of format() is not filled")

    def _measure(self) -> None:
        column = self.criterion.get("metricMeasureColumn")
        if column is None:
            if _ONE_ROW.search(_QUOTED.sub('""', self.text).strip()):
                self.problem(
                    "it always gives one row; without metricMeasureColumn rows are counted"
                )
            return
        found = re.search(rf"\b{re.escape(str(column))}\s*=(?![=~])", self.text)
        if not found:
            self.problem(f"the query makes no column '{column}'")
            return

    def _role(self) -> None:
        """The table is shared: rows are told apart by the app's name."""
        names = [site.name for site in self.deployment.of("Microsoft.Web/sites")]
        parts = self.value.parts if isinstance(self.value, Text) else ()
        inner = [
            part for part in names for part in (part.parts if isinstance(part, Text) else (part,))
        ]
        for part in parts:
            if not isinstance(part, str) and part not in inner:
                self.problem("it asks for another thing than the app's name")
        if names and not all(part in parts or isinstance(part, str) for part in inner):
            self.problem("it does not ask for the app by its name")
        if self.text.count("AppRoleName") == 0:
            self.problem("it does not tell the app by AppRoleName")

    def _texts(self) -> None:
        """Log lines and functions that a query looks for are the app's."""
        for found in _LOOKS_FOR.finditer(self.text):
            left, _, text = found.groups()
            if "event" in left or left == "Message":
                if text not in self.app.events:
                    hint = t.nearest(text, list(self.app.events))
                    self.problem(f"the app writes no line '{text}'{hint}")
                self._fields(text)
            elif left in {"OperationName", "Name"}:
                starts = found[2] == "startswith"
                fits = [
                    n for n in self.app.functions if n == text or (starts and n.startswith(text))
                ]
                if not fits:
                    hint = t.nearest(text, list(self.app.functions))
                    self.problem(f"the app has no function '{text}'{hint}")

    def _sense(self) -> None:
        """Alert on what is bad: that a function runs is good, and more of anything else is not."""
        operator, threshold = self.criterion.get("operator"), self.criterion.get("threshold")
        if not isinstance(operator, str):
            return
        runs = bool(_RUNS.search(self.text)) and not _FAILS.search(self.text)
        less = operator.startswith("LessThan")
        if runs != less:
            good = "less" if runs else "more"
            self.problem(f"'{operator}' is the wrong way round: {good} of it is bad")
        if not less and _WELL.search(self.text) and not _BADLY.search(self.text):
            self.problem("it counts what goes well")
        if (operator, threshold) in {("LessThan", 0), ("GreaterThanOrEqual", 0)}:
            self.problem(f"{operator} {threshold} never changes")

    def _fields(self, event: str) -> None:
        fields = self.app.events.get(event, frozenset()) | {"event"}
        for name in re.findall(r"\bLine\.(\w+)", self.text):
            if event in self.app.events and name not in fields:
                self.problem(f"'{event}' has no '{name}'{t.nearest(name, sorted(fields))}")
