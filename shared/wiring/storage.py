"""Makes the store of a process, whose SDKs are imported at the first request."""

from __future__ import annotations

from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.connection_setting import Service, connections_beside
from shared.adapters.storage.message_put import Send
from shared.adapters.storage.store import AzureStore
from shared.adapters.watched_clock import WatchedClock
from shared.engine.ports import Threads
from shared.settings import Settings
from shared.wiring import local_host


def azure_store(
    settings: Settings, clock: WatchedClock, threads: Threads, send: Send
) -> AzureStore:
    """Return the account of *settings*, and those that operators have named; it settles *clock*."""
    named = connections_beside(settings.storage, settings.deadletter_accounts)
    others = {name: StorageClients(each, services=[Service.BLOB]) for name, each in named.items()}
    return AzureStore(
        StorageClients(settings.storage, answered=clock.storage_answered),
        threads,
        send,
        others=others,
        visible=local_host.message_put,
    )
