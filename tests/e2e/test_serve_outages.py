"""While the store of `pushgrid serve` fails, publishers hear 503, and no endpoint is blamed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import NamedTuple

import pytest

from bench.soak.server_attacks import SMALL_DISK, STAGE, full_disk, locked, low_disk
from bench.soak.sqlite_deployment import SqliteDeployment, SqliteStage, can_have_disk
from testbed.arm import Arm
from testbed.subscriber import PATIENCE, Push, running_subscriber
from tests.e2e.publishing import an_event, ids, post
from tests.host.running import until

TOPIC = "invoices"
OK, UNAVAILABLE = 200, 503


class Outage(NamedTuple):
    """What is taken away, and whether what was answered meanwhile can't be stored, too."""

    stage: SqliteStage
    begin: Callable[[SqliteDeployment], AbstractContextManager[None]]
    stops_deliveries: bool = True


@contextmanager
def failing_syncs(deployment: SqliteDeployment) -> Iterator[None]:
    """Let the sync of each commit fail, and that of what makes it good succeed."""
    deployment.server.say("fail", "sync of commit", str(10**6))
    try:
        yield
    finally:
        deployment.calm()


class Publisher(NamedTuple):
    """Publishes one event after the other."""

    deployment: SqliteDeployment
    key: str

    def until(self, status: int) -> str:
        """Publish until the answer is *status*; return the id of that event."""

        def published() -> str | None:
            event = an_event()
            body = json.dumps([event.serialize()]).encode()
            answer = post(self.deployment.url, TOPIC, self.key, body)
            assert answer.status_code in {OK, UNAVAILABLE}
            return str(event.id) if answer.status_code == status else None

        return str(until(published))


OUTAGES = {
    "another program has it locked": Outage(STAGE, locked),
    "each commit's sync fails": Outage(STAGE, failing_syncs),
    "its disk has little left": Outage(SMALL_DISK, low_disk, stops_deliveries=False),
    "its disk is full": Outage(SMALL_DISK, full_disk, stops_deliveries=False),
}


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_an_outage_is_over_when_it_is_over(outage: Outage) -> None:
    """An event is being pushed as it begins; one is published in it, and one after it."""
    if outage.stage.disk and not can_have_disk():
        pytest.skip("this system lets nobody mount a small disk")
    may_answer = threading.Event()

    def answer(_: Push) -> int:
        may_answer.wait(PATIENCE)
        return OK

    with outage.stage.deployed(Random(1)) as deployment, running_subscriber(answer) as crm:
        arm = Arm(deployment.url)
        arm.create_topic(TOPIC)
        arm.create_subscription(TOPIC, "crm", crm.url)
        publish = Publisher(deployment, arm.key(TOPIC))
        accepted = {publish.until(OK)}
        assert crm.wait_for(bool)

        with outage.begin(deployment):
            publish.until(UNAVAILABLE)
            failed = deployment.logged["storage.failed"]
            may_answer.set()
            if outage.stops_deliveries:
                until(lambda: deployment.logged["storage.failed"] > failed)
        accepted.add(publish.until(OK))

        assert crm.wait_for(lambda pushes: ids(pushes) >= accepted)
        until(lambda: deployment.messages() == 0)
        assert len(crm.pushes) == len(ids(crm.pushes))
        assert {push.headers["aeg-delivery-count"] for push in crm.pushes} == {"0"}
        assert arm.holds() == []
        assert deployment.process.poll() is None
