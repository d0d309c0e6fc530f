"""A dead-letter run is killed at each request to storage: every blob is told of all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count

import pytest
from azure.mgmt.eventgrid import models as m

from bench.soak.storage import Storage, running_storage
from devhost.azurite import ACCOUNT
from devhost.process import running_host
from testbed.arm import Arm, dead_letter_destination
from testbed.host_settings import host_settings
from testbed.storage_proxy import Attack, Failure, StorageRequest
from testbed.subscriber import Subscriber, answers
from tests.e2e.managing import management_client, webhook
from tests.e2e.publishing import an_event, send
from tests.e2e.test_blob_notices import SOURCE
from tests.host.running import until

CONTAINER, REFUSING = "undelivered", ("crm", "erp")
DELETE = "queue delete deadletters"
SETTINGS = {
    "PUSHGRID_TIME_SCALE": "1000",
    "PUSHGRID_DEADLETTER_SCHEDULE": "0 0 0 1 1 *",  # the runs are this test's
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.100",
}
# Each line on standard input is a run, in a process of its own: its id is printed, then its status.
RUNNER = """
import os, sys
from shared.wiring.function_app import APP
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        APP.write_dead_letters()
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """Runs of the dead-letter timer, on the storage behind a proxy."""

    def __init__(self, storage: Storage, process: subprocess.Popen[str]) -> None:
        self._storage, self._process = storage, process

    def run(self, killed_at: int = 0) -> list[str]:
        """Play a run, which is killed at a request, from 1; return what it asked storage."""
        asked: list[str] = []
        child: Future[int] = Future()

        def at(request: StorageRequest) -> Attack | None:
            asked.append(request.kind)
            if len(asked) < killed_at or not killed_at:
                return None
            os.kill(child.result(), signal.SIGKILL)
            return Attack(Failure.RESET)

        self._storage.proxy.attack = at
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        child.set_result(int(self._process.stdout.readline()))
        status = int(self._process.stdout.readline())
        self._storage.proxy.attack = None
        assert status == (-signal.SIGKILL if killed_at else 0), asked
        return asked


@contextmanager
def running_runs(storage: Storage) -> Iterator[Runs]:
    """What a killed run had comes back after a second instead of five minutes."""
    storage.proxy.rewrite = lambda request: request.target.replace(
        "visibilitytimeout=300", "visibilitytimeout=1"
    )
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER],
        env={**os.environ, **host_settings(storage.proxy.azurite, **SETTINGS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield Runs(storage, process)
        finally:
            process.kill()


@pytest.mark.timeout(600)
def test_a_run_that_is_killed_at_any_request_tells_of_every_blob(
    subscriber: Callable[..., Subscriber],
) -> None:
    handler, refusing = subscriber(), subscriber(answers(400))
    with (
        running_storage(is_on_disk=False) as storage,
        running_host(host_settings(storage.azurite, **SETTINGS)) as host,
        running_runs(storage) as runs,
        management_client(host.url) as client,
        storage.blobs() as blobs,
        storage.queues() as queues,
    ):
        storage.create([CONTAINER], ["deadletters"])
        arm, waiting = Arm(host.url), queues.get_queue_client("deadletters")
        arm.create_topic("orders")
        for name in REFUSING:
            where = dead_letter_destination(ACCOUNT, CONTAINER)
            arm.create_subscription("orders", name, refusing.url, deadLetterDestination=where)
        ops = m.EventSubscription(destination=webhook(handler))
        client.event_subscriptions.begin_create_or_update(SOURCE, "ops", ops).result()
        key, sent = arm.key("orders"), []

        for place in count(1):
            sent.append(an_event(place))
            send(host.url, "orders", key, sent[-1:])
            until(lambda: len(waiting.peek_messages(max_messages=9)) == len(REFUSING))
            asked = runs.run(killed_at=place)
            while waiting.get_queue_properties().approximate_message_count:
                runs.run()
            if asked[:-1].count(DELETE) == len(REFUSING):
                break

        found = {
            f"/blobServices/default/containers/{CONTAINER}/blobs/{each}"
            for each in blobs.get_container_client(CONTAINER).list_blob_names()
        }
        letters = storage.dead_letters(CONTAINER)
        until(lambda: found <= {each["subject"] for push in handler.pushes for each in push.events})
    assert sorted({each["id"] for each in letters}) == sorted(each.id for each in sent)
    assert len(letters) == len(REFUSING) * len(sent)
    assert {"blob write undelivered", "queue put deliveries", DELETE} <= set(asked)
