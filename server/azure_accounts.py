"""
Reaches the storage accounts on Azure that the settings name beside the server's own.

Azure's libraries are imported only where there are such accounts: the extra ``azure`` has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from shared.adapters.awake_clock import AwakeClock
from shared.adapters.azure_storage.connection_setting import Service, connections_beside
from shared.adapters.azure_storage.queue_pusher import QueuePusher
from shared.arm.subscription_codec import to_subscription_in_force
from shared.engine.operations.troubles import REMEDIES, UNKNOWN_ACCOUNT, Kind, unknown_account
from shared.engine.ports import DeadLetters, Pusher, Resource, Threads
from shared.errors import UNREADABLE
from shared.settings import Settings
from shared.settings.storage_settings import Connection, with_own_account

if TYPE_CHECKING:
    from shared.adapters.azure_storage.clients import StorageClients

_PUT_THREADS = 4


def connections(settings: Settings) -> dict[str, Connection]:
    """
    Return how each account is reached: by its connection string, or by an identity of Azure.

    Without a connection string the identity is the one of the environment or the machine.

    Raises:
        InvalidSettings: a connection is malformed or another account's.

    Source: azure.identity.DefaultAzureCredential.
    """
    own = {"accountName": settings.own_account}
    return connections_beside(own, settings.deadletter_accounts)


def unknown(rows: Iterable[Resource], settings: Settings) -> Mapping[str, str]:
    """Return the accounts of dead letters of event subscriptions that no setting names, and why."""
    known = with_own_account(settings.own_account, settings.deadletter_accounts)
    found: set[str] = set()
    for row in rows:
        with suppress(*UNREADABLE):
            destination = to_subscription_in_force(row.document).dead_letter
            if account := unknown_account(destination, known):
                found.add(account)
    remedy = REMEDIES[Kind.UNKNOWN_ACCOUNT]
    return {each: f"{UNKNOWN_ACCOUNT.format(each)}; {remedy}" for each in sorted(found)}


def dead_letters(settings: Settings) -> DeadLetters | None:
    """Return what writes and reads dead letters of those accounts; ``None``: there are none."""
    if not settings.deadletter_accounts:
        return None
    from shared.adapters.azure_storage.blobs import StorageDeadLetters

    return StorageDeadLetters(None, _clients(settings, settings.deadletter_accounts))


def also_to_queues(settings: Settings, threads: Threads, webhooks: Pusher) -> Pusher:
    """Return what sends to *webhooks*, and into queues of those accounts."""
    if not settings.queue_accounts:
        return QueuePusher(webhooks, webhooks, {})
    from shared.adapters.azure_storage.sender import MessagePut
    from shared.wiring.outbound import storage_pusher

    storage = storage_pusher(AwakeClock())
    off_loop = threads.pool("destinations", _PUT_THREADS)
    puts = {
        name: MessagePut(each, storage.send, off_loop)
        for name, each in _clients(settings, settings.queue_accounts).items()
    }
    return QueuePusher(webhooks, storage, puts)


def _clients(settings: Settings, wanted: Iterable[str]) -> Mapping[str, StorageClients]:
    from shared.adapters.azure_storage.clients import StorageClients

    found = connections(settings)
    return {
        name: StorageClients(found[name], services=[Service.BLOB], clock=AwakeClock())
        for name in wanted
        if name in found
    }
