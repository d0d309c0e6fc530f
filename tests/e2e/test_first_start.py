"""A host on an account that has nothing yet, and without the schedule of a timer."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from azure.storage.queue import QueueServiceClient

from devhost.azurite import running_azurite
from devhost.process import running_host
from shared.engine.ports import Queue
from testbed.host_settings import host_settings
from testbed.storage_proxy import running_storage_proxy
from tests.e2e.waiting import eventually

NEVER = "0 0 0 1 1 *"


@pytest.mark.parametrize("begins", ["a request", "a timer"])
def test_all_queues_are_made_once_before_there_is_a_message(begins: str) -> None:
    schedule = {"PUSHGRID_WAKE_SCHEDULE": NEVER if begins == "a request" else "* * * * * *"}
    with running_azurite() as azurite, running_storage_proxy(azurite) as proxy:
        settings = host_settings(proxy.azurite, PUSHGRID_DEADLETTER_SCHEDULE=NEVER) | schedule
        with (
            QueueServiceClient.from_connection_string(azurite.connection_string) as queues,
            running_host(settings) as host,
        ):
            if begins == "a request":
                requests.get(f"{host.url}/console", timeout=60)

            eventually(lambda: {each.name for each in queues.list_queues()}, set(map(str, Queue)))
            requests.get(f"{host.url}/status/health", timeout=60).raise_for_status()
            made = {kind: n for kind, n in proxy.requests.items() if "queue create" in kind}

    assert made == {f"queue create {queue}": 1 for queue in Queue}


def test_health_names_a_timer_without_a_schedule_and_the_app_goes_on() -> None:
    with (
        running_azurite() as azurite,
        running_host(host_settings(azurite, PUSHGRID_WAKE_SCHEDULE="")) as host,
    ):

        def health() -> dict[str, Any]:
            answer = requests.get(f"{host.url}/status/health", timeout=60)
            answer.raise_for_status()
            return dict(answer.json())

        eventually(lambda: list(health()["timers"]), ["deadletter"])
        found = health()

    reason = "the timer wake does not run: PUSHGRID_WAKE_SCHEDULE is not set"
    assert (found["status"], found["reasons"]) == ("degraded", [reason])
