"""The soak: what its subscriptions want, its breakages, its table, and going on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

import pytest

from bench.__main__ import main
from bench.soak import azurite_kills, command, database_attacks, server_attacks
from bench.soak.attacked_server import kind_of
from bench.soak.ledger import Ledger, LedgerSums, Occurrence
from bench.soak.soak_deployment import Attacked, Step
from bench.soak.state import SoakState, read, table
from bench.soak.traffic import REPLAYED, SUBSCRIPTIONS, new_event
from tests.breakages import BREAKAGES
from tests.package_list import ROOT


def test_subscriptions_want_what_their_filters_say():
    """What `wants` says is what Event Grid's filter says: the soak compares the two."""
    kept = {
        name: sum(each.wants(new_event()) for _ in range(90))
        for name, each in SUBSCRIPTIONS.items()
    }

    assert kept.pop("filtered") == 25
    assert kept.pop("failing") == 10
    assert kept.pop(REPLAYED) == 0
    assert set(kept.values()) == {90}


def test_the_table_ends_with_the_sum():
    rows = [LedgerSums("a", 1, 10, 9, 1, repeated=2, bound=64), LedgerSums("b", 2, 5, 4, lost=1)]

    lines = [line.replace("|", " ").split() for line in table(rows).splitlines()[2:]]
    assert [" ".join(cells) for cells in lines] == [
        "a 1 10 9 1 0 2 64 0 0 0 0 0 0 0",
        "b 2 5 4 0 0 0 0 0 1 0 0 0 0 0",
        "all 3 15 13 1 0 2 64 0 1 0 0 0 0 0",
    ]


@pytest.mark.parametrize("name", BREAKAGES)
def test_each_breakage_has_its_place_in_the_app(name: str):
    breakage = BREAKAGES[name]

    assert (ROOT / breakage.file).read_text().count(breakage.old) == 1
    assert breakage.column in LedgerSums._fields


def test_a_state_is_read_as_it_was_saved(tmp_path: Path):
    state = SoakState(seed=7, store="sqlite", seconds=61.0)
    for part in ("round 1 kill", "round 2 kill"):
        state.add(part, LedgerSums("kill", 1, 10), {Occurrence.BIG: 2})
    file = tmp_path / ".soak" / "state.json"

    state.save(file)
    found = read(file)

    assert (found.seed, found.store, found.seconds) == (7, "sqlite", 61.0)
    assert found.done == {"round 1 kill": 1, "round 2 kill": 1}
    assert found.rows == {"kill": LedgerSums("kill", 2, 20)}
    assert found.seen == {Occurrence.BIG: 4}
    assert found.unseen == [each for each in Occurrence if each is not Occurrence.BIG]


def test_a_seed_has_one_order_of_kills():
    def rows(seed: str) -> list[str]:
        return [step.row for step in azurite_kills.steps(Random(seed))]

    assert rows("1") == rows("1")
    assert rows("1") != rows("2")
    assert len(set(rows("1"))) > 18


class _Deployment:
    """Plays steps without a deployment."""

    def __init__(self, lost: int, seen: Sequence[Occurrence]) -> None:
        self._lost = lost
        self.ledger = Ledger(seen=Counter(seen))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def play(self, step: Step[Any]) -> LedgerSums:
        return LedgerSums(step.row, runs=1, accepted=10, delivered=10 - self._lost, lost=self._lost)


class _Stage(NamedTuple):
    lost: int
    seen: Sequence[Occurrence]

    def deployed(self, _: Random) -> Any:
        return _Deployment(self.lost, self.seen)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    return tmp_path


def _run(
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
    lost: int,
    *options: str,
    seen: Sequence[Occurrence] = tuple(Occurrence),
) -> int:
    """Soak with one scenario whose second round does not come."""

    def has_ended(soak: command.Soak) -> bool:
        return sum(soak.state.done.values()) >= steps

    def unused(_: Random) -> list[Step[Any]]:
        return [Step(f"step {n}", lambda _: Attacked(1)) for n in range(4)]

    monkeypatch.setattr(command.Soak, "_has_ended", has_ended)
    stage = _Stage(lost, seen)
    kill = {"kill": command.SoakScenario(stage, unused)}
    monkeypatch.setattr(command, "SCENARIOS", {"azurite": kill, "sqlite": kill})
    return main(["soak", "--jobs", "1", *options])


@pytest.mark.usefixtures("folder")
def test_what_did_not_occur_is_told_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    but_two = [each for each in Occurrence if each not in {Occurrence.PAUSES, Occurrence.BIG}]

    assert _run(monkeypatch, 1, 0, seen=but_two) == 1
    assert _run(monkeypatch, 1, 0, "--only", "kill", seen=but_two) == 0

    said = capsys.readouterr().err.splitlines()
    assert "soak: did not occur: pauses that kept events back, big events" in said


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
    _run(monkeypatch, 1, 0, "--seed", "5", "--store", "sqlite")
    _run(monkeypatch, 3, 0, "--resume")

    rows = capsys.readouterr().out.split("\n\n")[-2]
    assert [f"step {n}" in rows for n in range(4)] == [True, True, True, False]
    state = read(folder / "state.json")
    assert (state.seed, state.store) == (5, "sqlite")


@pytest.mark.usefixtures("folder")
def test_a_scenario_is_one_of_its_store(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["soak", "--store", "sqlite", "--only", "twins"])
    assert "sqlite has no scenario twins: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("BEGIN IMMEDIATE", "begin"),
        ("INSERT INTO messages (id, queue) VALUES (?, ?)", "insert messages"),
        ("UPDATE messages SET run = ?, parked = NULL WHERE id = ?", "update messages run"),
        ("DELETE FROM parts WHERE message = ?", "delete parts"),
        ("PRAGMA wal_checkpoint(TRUNCATE)", "wal_checkpoint"),
        ("UPDATE processes SET renewals = renewals + 1", "update processes renewals"),
    ],
)
def test_a_statement_is_known_by_what_it_does(statement: str, kind: str):
    assert kind_of(statement) == kind
    assert kind in {*server_attacks.KINDS, *database_attacks.KINDS}


@pytest.mark.usefixtures("folder")
def test_there_may_be_nothing_to_go_on_with(capsys: pytest.CaptureFixture[str]):
    assert main(["soak", "--resume"]) == 2
    assert "nothing to go on with" in capsys.readouterr().err
