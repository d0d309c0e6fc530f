"""The soak's ledger: what is lost, what waits and what is repeated; its table, and going on."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Self

import pytest

from bench.__main__ import main
from bench.soak import command, kills
from bench.soak.deployment import Attacked, Stage, Step
from bench.soak.ledger import Ledger, Row
from bench.soak.state import State, read, table

A, B, C = ("crm", "a"), ("crm", "b"), ("log", "a")


@pytest.mark.parametrize(
    ("messages", "waiting", "lost"),
    [pytest.param(0, 0, 1, id="none"), pytest.param(1, 1, 0, id="one")],
)
def test_what_has_no_end_is_lost_if_no_message_is_left(messages: int, waiting: int, lost: int):
    ledger = Ledger()
    ledger.accept([A, B, C])
    ledger.deliver([A])
    ledger.bury([B])

    row = ledger.row("x", runs=1, bound=64, is_queue_empty=not messages)

    assert row == Row("x", 1, 3, 1, 1, waiting, lost, 0, 64)
    assert ledger.open == {C}


def test_every_end_beyond_the_first_is_a_repetition():
    ledger = Ledger()
    ledger.deliver([A, A])  # before the publisher's answer has arrived
    ledger.accept([A, B])
    ledger.bury([A, B])

    row = ledger.row("x", runs=1, bound=0, is_queue_empty=True)

    assert (row.delivered, row.dead, row.lost, row.repeated) == (1, 1, 0, 2)


def test_what_was_not_answered_is_no_promise():
    ledger = Ledger()
    ledger.deliver([A, A])

    row = ledger.row("x", runs=1, bound=0, is_queue_empty=True)

    assert row == Row("x", runs=1)


def test_the_table_ends_with_the_sum():
    lines = table([Row("a", 1, 10, 9, 1, 0, 0, 2, 64), Row("b", 2, 5, 4, 0, 0, 1, 0, 0)])

    assert lines.splitlines()[2:] == [
        "| a | 1 | 10 | 9 | 1 | 0 | 0 | 2 | 64 |",
        "| b | 2 | 5 | 4 | 0 | 0 | 1 | 0 | 0 |",
        "| all | 3 | 15 | 13 | 1 | 0 | 1 | 2 | 64 |",
    ]


def test_a_state_is_read_as_it_was_saved(tmp_path: Path):
    state = State(seed=7, seconds=61.0)
    for part in ("round 1 kill", "round 2 kill"):
        state.add(part, Row("kill", 1, 10))
    file = tmp_path / ".soak" / "state.json"

    state.save(file)
    found = read(file)

    assert (found.seed, found.seconds) == (7, 61.0)
    assert found.done == {"round 1 kill": 1, "round 2 kill": 1}
    assert found.rows == {"kill": Row("kill", 2, 20)}


def test_a_seed_has_one_order_of_kills():
    def rows(seed: str) -> list[str]:
        return [step.row for step in kills.steps(Random(seed))]

    assert rows("1") == rows("1")
    assert rows("1") != rows("2")
    assert len(set(rows("1"))) > 18


class _Deployment:
    """Plays steps without a deployment."""

    def __init__(self, lost: int) -> None:
        self._lost = lost
        self.ledger = Ledger()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def play(self, step: Step) -> Row:
        return Row(step.row, runs=1, accepted=10, delivered=10 - self._lost, lost=self._lost)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    return tmp_path


def _run(monkeypatch: pytest.MonkeyPatch, steps: int, lost: int, *options: str) -> int:
    """Soak with one scenario whose second round does not come."""

    def has_ended(soak: command.Soak) -> bool:
        return sum(soak.state.done.values()) >= steps

    def unused(_: Random) -> list[Step]:
        return [Step(f"step {n}", lambda _: Attacked(1, 0)) for n in range(4)]

    monkeypatch.setattr(command.Soak, "_has_ended", has_ended)
    monkeypatch.setattr(command, "SCENARIOS", {"kill": command.Scenario(Stage(), unused)})
    monkeypatch.setattr(command, "running_deployment", lambda *_: _Deployment(lost))
    return main(["soak", "--jobs", "1", *options])


@pytest.mark.usefixtures("folder")
def test_a_loss_is_told_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert _run(monkeypatch, 1, 0) == 0
    assert _run(monkeypatch, 1, 2, "--json") == 1

    printed = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(printed)["rows"][0]["lost"] == 2


def test_a_run_that_was_ended_goes_on_with_its_next_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    _run(monkeypatch, 1, 0, "--seed", "5")
    _run(monkeypatch, 3, 0, "--resume")

    rows = capsys.readouterr().out.split("\n\n")[-2]
    assert [f"step {n}" in rows for n in range(4)] == [True, True, True, False]
    assert read(folder / "state.json").seed == 5


@pytest.mark.usefixtures("folder")
def test_there_may_be_nothing_to_go_on_with(capsys: pytest.CaptureFixture[str]):
    assert main(["soak", "--resume"]) == 2
    assert "nothing to go on with" in capsys.readouterr().err
