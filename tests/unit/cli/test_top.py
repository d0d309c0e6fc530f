"""`pushgrid top` on scripted answers: rates, holds, failures, an outage, and the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from rich.console import Console, Group

from cli import top
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.program import main
from cli.readings import Readings
from tests.unit.cli.conftest import URL, Answer

HOLD = {
    "topic": "orders",
    "subscription": "crm",
    "paused": {"since": "2026-02-09T12:00:00Z", "by": "the admin key"},
    "held": {"until": "2026-02-09T12:05:00Z", "why": "probation for Busy: 10 s"},
}
TROUBLE = {
    "topic": "orders",
    "subscription": "crm",
    "id": "/crm",
    "kind": "held",
    "also": ["paused", "deadLettering"],
    "since": "2026-02-09T11:59:00Z",
    "why": "503 Busy at 11:59:00: locked\x1b[31m",
    "waiting": 12,
    "oldestSeenSeconds": 95.2,
    "remedy": "pushgrid subscription test crm --topic orders",
}
HEALTH = {
    "status": "healthy",
    "reasons": [],
    "checkedAt": "2026-02-09T12:00:00Z",
    "queues": {
        "retries": {"messages": 4, "oldestSeconds": 1.5},
        "waiting": {"messages": 0, "oldestSeconds": None},
    },
}


ANSWER = {"headers": {}, "body": "\nlocked\nby 7", "isTruncated": False, "systemId": "s-1"}


def failure(number: int, **members: Any) -> dict[str, Any]:
    return {
        "eventId": "e-\x1b[31m1",
        "systemId": "s-1",
        "number": number,
        "at": f"2026-02-09T12:00:{number:02}Z",
        "status": 503,
        "outcome": "Busy",
        "cause": "503 Busy",
        "detail": None,
        "seconds": 0.1,
        "nextAt": "2026-02-09T12:01:00Z",
        "why": "minimum for 503: 30 s",
        "state": None,
        "reason": None,
    } | members


@dataclass
class Scripted:
    """A deployment that answers what is set, or *status*; *asked* are the subscriptions asked."""

    published: int = 0
    failed: dict[str, int] = field(default_factory=dict)  # attempts by subscription
    failures: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200
    holds: list[dict[str, Any]] = field(default_factory=lambda: [HOLD])
    troubles: list[dict[str, Any]] = field(default_factory=lambda: [TROUBLE])
    is_away: bool = False

    def answer(self, path: str, query: dict[str, Any]) -> tuple[int, object]:
        if self.is_away:
            raise requests.ConnectionError("Connection refused")
        return self.status, self._body(path, query)

    def _body(self, path: str, query: dict[str, Any]) -> object:
        if path == "/status/health":
            return HEALTH
        if path == "/status/metrics":
            return self._metrics()
        if path == "/status/topics":
            waiting = {"events": 3012, "oldestSeenSeconds": 95.2}
            topics = [
                {"name": each["topic"], "subscriptions": [{**each, "name": each["subscription"]}]}
                for each in self.holds
            ]
            return {"waiting": waiting, "troubles": self.troubles, "value": topics}
        *_, subscription, last = path.split("/")
        assert last == "failures"
        self.asked.append((subscription, query["since"][11:19]))
        return {"value": self.failures}

    def _metrics(self) -> str:
        name = "pushgrid_delivery_attempt_fail_total"
        lines = [f"# HELP {name} Failed.", f"# TYPE {name} counter"]
        lines += [
            f'{name}{{topic="orders",subscription="{each}",error="Busy"}} {count}'
            for each, count in self.failed.items()
        ]
        topics = ("orders", "shop.orders")
        lines += [
            f'pushgrid_publish_success_total{{topic="{each}"}} {self.published}' for each in topics
        ]
        return "\n".join(lines)


def shown(width: int = 200) -> list[str]:
    """Return the lines of a terminal of that width, at the first reading."""
    console = Console(width=width, record=True)
    console.print(Group(*top.parts_of(readings(0).read(), URL)))
    return console.export_text().splitlines()


@pytest.fixture
def scripted(answer_with: Callable[[Answer], None]) -> Scripted:
    scripted = Scripted()
    answer_with(scripted.answer)
    return scripted


def readings(*times: float) -> Readings:
    clock = iter(times)
    return Readings(Deployment(url=URL, token=lambda: "key"), lambda: next(clock))


def test_rates_are_those_of_the_last_minute(scripted: Scripted) -> None:
    found = []
    read = readings(0, 10, 55, 70, 130).read
    for scripted.published in (100, 200, 200, 500, 500):
        reading = read()
        found.append((reading.totals["published"], reading.rates and reading.rates["published"]))

    # Both topics count. The last two readings begin at 10 and at 70 s.
    assert found == [(200, None), (400, 20.0), (400, 3.64), (1000, 10.0), (1000, 0.0)]


def test_only_subscriptions_that_fail_are_asked_for_their_failures(scripted: Scripted) -> None:
    read = readings(0, 5, 10, 69, 71).read
    before = {"a": 1, "b": 9, "c": 8, "d": 7, "e": 6, "f": 5}
    after = before | {"a": 2}
    asked = []
    for scripted.failed in (before, before, after, after, after):
        scripted.asked.clear()
        read()
        asked.append(list(scripted.asked))

    # Those with the most, of the last hour; then a's for a minute: its record may come late.
    first = [(each, "11:00:00") for each in "bcdef"]
    assert asked == [first, [], [("a", "11:58:00")], [("a", "11:58:00")], []]


def test_those_that_are_held_are_asked_first(scripted: Scripted) -> None:
    scripted.failed = {"Crm": 1} | dict.fromkeys("abcdef", 2)
    readings(0).read()

    assert [subscription for subscription, _ in scripted.asked] == ["Crm", *"abcd"]


def test_the_latest_failures_stay_each_once(scripted: Scripted) -> None:
    read = readings(0, 5).read
    scripted.failed, scripted.failures = {"crm": 8}, [failure(n) for n in range(8, 0, -1)]
    read()
    scripted.failed, scripted.failures = {"crm": 12}, [failure(n) for n in range(12, 6, -1)]

    assert [each["number"] for each in read().failures] == list(range(12, 2, -1))


def test_the_screen_says_what_is_wrong_and_why(scripted: Scripted) -> None:
    given_up = {"nextAt": None, "state": "dropped", "reason": "MaxDeliveryAttemptsExceeded"}
    scripted.failed = {"crm": 2}
    told = {"eventType": "Placed", "subject": "/o/7"}
    scripted.failures = [failure(2, **given_up), failure(1, detail="[b]x", answer=ANSWER, **told)]

    rows = [" ".join(line.split()) for line in shown()]
    assert rows[:2] == [
        f"2026-02-09 12:00:00 {URL} is degraded",
        "about 3012 events wait, the oldest seen is 0:01:35 old",
    ]
    assert "in total 0 0 2 0 0" in rows
    assert "retries 4 1.5" in rows
    assert not any(row.startswith(("waiting", "a second")) for row in rows)
    why = "503 Busy at 11:59:00: locked\N{REPLACEMENT CHARACTER}[31m"
    assert f"orders/crm held 12 0:01:35 {why}" in rows
    why = "minimum for 503: 30 s"
    event = "e-\N{REPLACEMENT CHARACTER}[31m1"
    assert rows[-2:] == [
        f"12:00:02 orders/crm {event} 2 503 Busy given up {why}: MaxDeliveryAttemptsExceeded",
        f"12:00:01 orders/crm {event} Placed /o/7 1 503 Busy 12:01:00 locked: {why}",
    ]


@pytest.mark.parametrize(("count", "more"), [(20, []), (1000, ["… and 980 more"])])
def test_many_troubles_are_not_all_shown(scripted: Scripted, count: int, more: list[str]) -> None:
    scripted.troubles = [TROUBLE | {"subscription": f"s-{number}"} for number in range(count)]

    text = "\n".join(shown())
    assert (text.count("503 Busy"), re.findall("… and .* more", text)) == (20, more)


def test_a_failure_takes_one_line_of_a_narrow_terminal(scripted: Scripted) -> None:
    event = "25d6ec0a-4272-4712-b5b0-3b2663a621cf"
    given_up = {"nextAt": None, "reason": "UndeliverableDueToHttpBadRequest", "eventId": event}
    scripted.failed = {"crm": 2}
    scripted.failures = [
        failure(2, status=400, cause="400 BadRequest", **given_up),
        failure(1, status=None, cause="Connection refused"),
    ]

    _, first, second = [line for line in shown(80)[-4:] if not line.startswith("─")]
    assert first.split()[:7] == [
        "12:00:02", "orders/crm", "25d6ec0a-…", "2", "400", "BadRequest", "given",
    ]  # fmt: skip
    assert first.rstrip().endswith("…")
    assert second.split()[3:6] == ["1", "Connection", "refused"]


def test_the_cause_of_a_trouble_is_seen_on_a_narrow_terminal(scripted: Scripted) -> None:
    scripted.troubles = [TROUBLE | {"why": f"Connection refused at 11:59:00: {'x' * 99}"}]

    [line] = [line for line in shown(80) if "orders/crm" in line]
    assert line.split()[:4] == ["orders/crm", "held", "12", "0:01:35"]
    assert "Connection refused at 11:59:00" in line


def test_an_attempt_that_did_not_fail_again_is_no_longer_due(scripted: Scripted) -> None:
    def due(at: str, number: int) -> dict[str, Any]:
        return failure(number, systemId=at, nextAt=f"2026-02-09T11:59:{at}Z")

    scripted.failed = {"crm": 4}
    scripted.failures = [due("59", 4), due("40", 3), due("40", 2)]

    rows = [line.split() for line in shown()[-3:]]
    # The first may not be recorded yet; the last has failed again.
    assert [row[6] for row in rows] == ["11:59:59", "passed", "11:59:40"]


RunSteps = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunSteps:
    """Run the command; before each reading but the first the next step, then Ctrl-C."""

    def run(*arguments: str, steps: list[Callable[[], None]]) -> tuple[int, list[str]]:
        left = iter(steps)

        def sleep(seconds: float) -> None:
            assert seconds == 7
            step = next(left, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr("cli.top.sleep", sleep)
        options = ("--url", URL, "--key", "k", "--interval", "7")
        code = main(["top", *options, *arguments])
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_an_outage_is_told_and_tried_again(scripted: Scripted, run: RunSteps, status: int) -> None:
    def fail() -> None:
        scripted.is_away, scripted.status = not status, status or 200

    def recover() -> None:
        scripted.is_away, scripted.status = False, 200

    code, lines = run("--json", steps=[fail, fail, recover])

    documents = [json.loads(line) for line in lines]
    states = ["degraded", "unavailable", "unavailable", "degraded"]
    assert (code, [each["status"] for each in documents]) == (0, states)
    assert set(documents[0]) == {
        "at", "status", "reasons", "queues", "waiting", "troubles", "limits", "rates", "totals",
        "holds", "failures",
    }  # fmt: skip
    assert (documents[0]["rates"], documents[0]["holds"]) == (None, [HOLD])
    assert documents[3]["rates"]["published"] == 0.0


def test_text_tells_an_outage_too(scripted: Scripted, run: RunSteps) -> None:
    code, lines = run(steps=[lambda: setattr(scripted, "is_away", True)])

    assert (code, lines[0]) == (0, f"2026-02-09 12:00:00  {URL} is degraded")
    (told,) = [line for line in lines if "no reading, trying again: " in line]
    assert f"{URL} does not answer" in told


def test_a_refusal_ends_it(scripted: Scripted, run: RunSteps) -> None:
    assert run("--json", steps=[lambda: setattr(scripted, "status", 401)])[0] == 1


def test_no_answer_at_the_first_reading_is_a_failure(scripted: Scripted) -> None:
    scripted.is_away = True
    with pytest.raises(CommandFailed, match="does not answer"):
        readings(0).read()
    assert main(["top", "--url", URL, "--key", "k"]) == 2


@pytest.mark.usefixtures("scripted")
def test_one_reading_is_printed_once(run: RunSteps) -> None:
    code, lines = run("--once", "--json", steps=[])

    assert (code, len(lines)) == (0, 1)
