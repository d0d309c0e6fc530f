"""The log table of docs/operating.md has each event that the app logs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALL = re.compile(
    r"(?:telemetry\.(?:info|warning|error)|(?<!def )log_job|_errors\.log|\.log_row)"
    r'\(\s*(?:"([^"]+)"|([^,)]+))'
)
ACTION = re.compile(r'(?:\.change|_write|log_change)\([^"()]*"(\w+)"')
#: What the only calls log whose names are not written where they are logged.
COMPOSED = {
    'f"{self.noun}.changed"': {"namespace.changed", "system_topic.changed", "topic.changed"},
    "event": set(),  # those of `log_job` and `log_row`
}


def logged() -> set[str]:
    """Return the names of all log lines."""
    names = ("shared", "devhost", "server", "cli", "*_function")
    folders = [each for name in names for each in ROOT.glob(name)]
    texts = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    calls = [call for text in texts for call in CALL.findall(text)]
    return {name for text, code in calls for name in (COMPOSED[code] if code else {text})}


def rows() -> list[list[str]]:
    """Return the rows of the log table, each with its two cells."""
    page = (ROOT / "docs/operating.md").read_text()
    table = page.split("| `event` | content |")[1].split("\n\n")[0]
    return [row.split("|")[1:3] for row in table.splitlines() if row.startswith("| `")]


def test_each_log_line_is_in_the_table() -> None:
    described = {name for names, _ in rows() for name in re.findall("`(.+?)`", names)}

    assert described == logged()


def test_each_action_on_a_subscription_is_in_the_table() -> None:
    (text,) = (text for names, text in rows() if "`subscription.changed`" in names)
    modules = ("subscriptions", "subscription_actions")
    texts = [(ROOT / f"shared/engine/manage/{each}.py").read_text() for each in modules]

    listed = re.findall(r"`(\w+)`", text.split("(")[1].split(")")[0])
    assert set(listed) == {action for each in texts for action in ACTION.findall(each)}
