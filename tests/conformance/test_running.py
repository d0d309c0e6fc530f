"""Conformance cases on the running system: the local host, Azurite, subscribers on sockets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from devhost.azurite import Azurite
from devhost.process import running_host
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, running_subscriber
from tests.conformance.checks import RunningCases
from tests.conformance.editions import Case
from tests.conformance.scaled import PLAYED, ends_at
from tests.conformance.stage import STORAGE, Observed, Stage, settings_of
from tests.e2e.dead_letters import DeadLetters
from tests.integration.push.authority import Authority
from tests.integration.push.entra import Entra

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def played(
    own_azurite: Azurite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Observed]]:
    """Play all cases at the same time on one host."""
    connection, authority = own_azurite.connection_string, Authority(tmp_path_factory.mktemp("ca"))
    with (
        ExitStack() as running,
        BlobServiceClient.from_connection_string(connection) as blobs,
        TableServiceClient.from_connection_string(connection) as tables,
        Entra(authority) as entra,
    ):
        entra.seconds = 1
        rows = tables.get_table_client("eventsubscriptions")

        def spoil(topic: str, name: str, old: str, new: str) -> None:
            row = rows.get_entity(topic, name)
            row["document"] = row["document"].replace(old, new)
            rows.update_entity(row)

        letters = DeadLetters(blobs.create_container("dead"))
        stage = Stage(cases=PLAYED, letters=letters, spoil=spoil, entra=entra)
        storage = running.enter_context(running_subscriber(stage.answer_put)).url
        endpoint = f"Endpoint={storage.removesuffix('/hook')}/{STORAGE}"
        settings = host_settings(
            own_azurite,
            PUSHGRID_DEADLETTER_ACCOUNTS=f"{STORAGE}=STAGE",
            STAGE=f"AccountName={STORAGE};AccountKey=a2V5;Queue{endpoint};Blob{endpoint}",
            **settings_of(entra, authority),
        )
        with running_host(settings, on_line=stage.on_line) as host:
            stage.play(host.url, max(ends_at(case) for case in PLAYED) + PATIENCE)
            yield {str(seen.case): seen for seen in stage.seen.values()}


@pytest.fixture(params=PLAYED, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


class TestOnAzurite(RunningCases):
    """The Functions app."""


def test_every_edition_is_seen_to_fail_and_to_end():
    """Ended by the limits of the retry policy; 2017 has none that could be short enough."""
    by_limits = defaultdict(set)
    for case in PLAYED:
        if len(case.attempts) > 1:
            by_limits[case.profile].add((case.end.state, case.end.reason))

    assert by_limits.pop("2017") == {("delivered", None)}
    assert set(by_limits) == {"2019", "2020", "2023", "latest", "ns"}
    for ends in by_limits.values():
        assert ends >= {
            ("deadLettered", "MaxDeliveryAttemptsExceeded"),
            ("deadLettered", "TimeToLiveExceeded"),
            ("dropped", "MaxDeliveryAttemptsExceeded"),
            ("delivered", None),
        }


def test_queues_are_played_as_azure_resources():
    played = {(case.profile, case.answers) for case in PLAYED if case.endpoint == "azure"}

    assert {"2019", "2020", "2023", "latest", "ns"} == {profile for profile, _ in played}
    assert {("ns", ("404", "200")), ("2020", ("403",)), ("latest", ("503", "200"))} <= played
