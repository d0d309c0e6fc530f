"""Conformance cases on `pushgrid serve`, which keeps everything in SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import apsw
import pytest

from shared.adapters.sql.folder import DATABASE
from testbed.serving import running_server, server_settings
from testbed.subscriber import PATIENCE
from tests.conformance.checks import RunningCases
from tests.conformance.editions import Case
from tests.conformance.scaled import PLAYED, ends_at
from tests.conformance.stage import Observed, Stage, settings_of
from tests.e2e.dead_letters import StoredDeadLetters
from tests.integration.push.authority import Authority
from tests.integration.push.entra import Entra

pytestmark = pytest.mark.e2e

#: Storage queues as destinations need an account on Azure.
CASES = [case for case in PLAYED if case.endpoint != "azure"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Observed]]:
    """Play all cases at the same time on one server."""
    folder, authority = tmp_path_factory.mktemp("serve"), Authority(tmp_path_factory.mktemp("ca"))
    data = folder / "data"

    def spoil(topic: str, name: str, old: str, new: str) -> None:
        with closing(apsw.Connection(str(data / DATABASE))) as other:
            other.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            other.set_busy_timeout(60_000)
            other.execute(
                "UPDATE documents SET document = replace(document, ?, ?)"
                " WHERE kind = 'eventsubscriptions' AND partition = ? AND name = ?",
                (old, new, topic, name),
            )

    with Entra(authority) as entra:
        entra.seconds = 1
        stage = Stage(cases=CASES, letters=StoredDeadLetters(data), spoil=spoil, entra=entra)
        settings = server_settings(**settings_of(entra, authority))
        with running_server(data, settings, stage.on_line) as server:
            stage.play(server.url, max(ends_at(case) for case in CASES) + PATIENCE)
            yield {str(seen.case): seen for seen in stage.seen.values()}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


class TestOnSqlite(RunningCases):
    """`pushgrid serve`."""


def test_every_edition_is_played():
    assert {case.profile for case in CASES} == {case.profile for case in PLAYED}
