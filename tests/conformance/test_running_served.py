"""Conformance cases on `pushgrid serve`, with everything in a folder or in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.places import ServedDatabase, ServedFolder, ServedPlace
from testbed.postgres import PostgresServer
from testbed.serving import running_server, server_settings
from testbed.subscriber import PATIENCE
from tests.conformance.checks import Played, RunningCases
from tests.conformance.editions import Case
from tests.conformance.scaled import PLAYED, ends_at
from tests.conformance.stage import Stage, settings_of
from tests.e2e.dead_letters import StoredDeadLetters
from tests.integration.push.authority import Authority
from tests.integration.push.entra import Entra

pytestmark = pytest.mark.e2e

#: Storage queues as destinations need an account on Azure.
CASES = [case for case in PLAYED if case.endpoint != "azure"]


def play(place: ServedPlace, folder: Path) -> Played:
    """Play all cases at the same time on one server."""
    authority = Authority(folder)

    def spoil(topic: str, name: str, old: str, new: str) -> None:
        place.rows(
            "UPDATE documents SET document = replace(document, ?, ?)"
            " WHERE kind = 'eventsubscriptions' AND partition = ? AND name = ?",
            *(old, new, topic, name),
        )

    with Entra(authority) as entra:
        entra.seconds = 1
        stage = Stage(cases=CASES, letters=StoredDeadLetters(place), spoil=spoil, entra=entra)
        settings = server_settings(**settings_of(entra, authority))
        with running_server(place, settings, stage.on_line) as server:
            stage.play(server.url, max(ends_at(case) for case in CASES) + PATIENCE)
            return {str(seen.case): seen for seen in stage.seen.values()}


@pytest.fixture(scope="module")
def both_played(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Mapping[str, Played]:
    """Play them on both at the same time: they mostly wait."""
    places = {
        "sqlite": ServedFolder(tmp_path_factory.mktemp("serve") / "data"),
        "postgresql": ServedDatabase(postgres.url(postgres.new_database())),
    }
    folders = [tmp_path_factory.mktemp("ca") for _ in places]
    with ThreadPoolExecutor(len(places)) as pool:
        return dict(zip(places, pool.map(play, places.values(), folders), strict=True))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def played(request: pytest.FixtureRequest, both_played: Mapping[str, Played]) -> Played:
    return both_played[request.param]


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


class TestServed(RunningCases):
    """`pushgrid serve`."""


def test_every_edition_is_played():
    assert {case.profile for case in CASES} == {case.profile for case in PLAYED}
