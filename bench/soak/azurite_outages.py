"""Takes Azurite, tables, queues, a host or names away from the Functions app for seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from azure.data.tables import TableServiceClient

from bench.soak.azurite_deployment import AzuriteDeployment
from bench.soak.outages import SECONDS, Outage, during, few_descriptors, frozen
from bench.soak.soak_deployment import (
    Attacked,
    Step,
    one_after_the_other,
)
from testbed.storage_proxy import Attack, Failure, StorageRequest

_TABLES = ("eventsubscriptions", "topics", "endpointhealth")


@contextmanager
def stopped_storage(deployment: AzuriteDeployment) -> Iterator[None]:
    """Stop Azurite, and start it with the data that it has on disk."""
    deployment.storage.stop()
    try:
        yield
    finally:
        deployment.storage.start()


def missing_table(name: str) -> Outage[AzuriteDeployment]:
    """Delete a table and restore it; no host reaches it while it is copied or half restored."""

    @contextmanager
    def closed(deployment: AzuriteDeployment) -> Iterator[None]:
        def busy(request: StorageRequest) -> Attack | None:
            is_refused = request.service == "table" and request.kind.endswith((name, "batch"))
            return Attack(Failure.BUSY) if is_refused else None

        deployment.storage.proxy.attack = busy
        time.sleep(1)  # requests under way end
        try:
            yield
        finally:
            deployment.storage.proxy.attack = None

    @contextmanager
    def outage(deployment: AzuriteDeployment) -> Iterator[None]:
        connection = deployment.storage.azurite.connection_string
        with TableServiceClient.from_connection_string(connection) as tables, closed(deployment):
            rows = list(tables.get_table_client(name).list_entities())
            tables.delete_table(name)
        try:
            yield
        finally:
            # Another client: Azurite closes connections that were idle for as long as the outage.
            with TableServiceClient.from_connection_string(connection) as tables:
                client = tables.get_table_client(name)
                with closed(deployment):
                    tables.create_table_if_not_exists(name)
                    for row in rows:
                        client.upsert_entity(row)

    return outage


def delete_queues(deployment: AzuriteDeployment) -> Attacked:
    """Delete all queues, which are empty, and publish."""
    deployment.storage.delete_queues()
    with deployment.traffic.flowing():
        time.sleep(2 * SECONDS)
    return Attacked(1)


@contextmanager
def killed_twin(deployment: AzuriteDeployment) -> Iterator[None]:
    """Kill one of two hosts, and start another in its place."""
    deployment.hosts[0].kill()
    try:
        yield
    finally:
        deployment.restart()


@contextmanager
def silent_names(deployment: AzuriteDeployment) -> Iterator[None]:
    """Leave all questions for the endpoints' names unanswered."""
    deployment.ledger.cut_off()
    deployment.is_silent.set()
    try:
        yield
    finally:
        deployment.is_silent.clear()


def storage_steps(_: Random) -> list[Step[AzuriteDeployment]]:
    return [Step("Azurite stopped and started", during(stopped_storage))]


def missing_steps(_: Random) -> list[Step[AzuriteDeployment]]:
    steps = [Step(f"table deleted: {name}", during(missing_table(name))) for name in _TABLES]
    return [*steps, Step("queues deleted", delete_queues)]


def twin_steps(_: Random) -> list[Step[AzuriteDeployment]]:
    return [Step("one of two hosts killed", during(killed_twin, may_repeat=True))]


def shortage_steps(_: Random) -> list[Step[AzuriteDeployment]]:
    return [
        Step("few descriptors", during(few_descriptors)),
        Step("silent name servers", during(silent_names)),
        Step("host frozen", during(frozen)),
    ]


def brief_shortage_steps(chance: Random) -> list[Step[AzuriteDeployment]]:
    """Return one step with all shortages, one after the other."""
    attacks = [each.attack for each in shortage_steps(chance)]
    return [Step("shortages", one_after_the_other(attacks))]
