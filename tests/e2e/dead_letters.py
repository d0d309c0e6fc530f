"""A container for dead letters, and waiting for what is written to it, on Azurite or a server."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from azure.storage.blob import BlobServiceClient, ContainerClient

from devhost.azurite import ACCOUNT, Azurite
from shared.adapters.sql import store
from testbed.arm import dead_letter_destination
from testbed.places import ServedPlace
from testbed.subscriber import PATIENCE
from tests.integration.push.authority import Authority

Blobs = dict[str, list[dict[str, Any]]]  # letters by the names of their blobs


class AnyDeadLetters(Protocol):
    """What is written to one container."""

    @property
    def destination(self) -> dict[str, Any]:
        """The member ``deadLetterDestination`` of a subscription."""

    def wait_for(self, blobs: int) -> Blobs:
        """Return the letters, once there are so many blobs."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Implements `AnyDeadLetters`: a container of *account*."""

    container: ContainerClient
    account: str = ACCOUNT

    @classmethod
    def into_a_new_container(
        cls, azurite: Azurite, authority: Authority | None = None, account: str = ACCOUNT
    ) -> DeadLetters:
        service = BlobServiceClient.from_connection_string(
            azurite.connection_string,
            connection_verify=str(authority.bundle) if authority else True,
        )
        return cls(service.create_container(f"dead-{uuid.uuid4().hex[:8]}"), account)

    @property
    def destination(self) -> dict[str, Any]:
        """The member ``deadLetterDestination`` of a subscription."""
        return dead_letter_destination(self.account, self.container.container_name)

    def wait_for(self, blobs: int) -> Blobs:
        return _wait_for(blobs, self._find)

    def _find(self) -> Blobs:
        names = sorted(self.container.list_blob_names())
        return {name: json.loads(self.container.download_blob(name).readall()) for name in names}


@dataclass(frozen=True, slots=True)
class StoredDeadLetters:
    """Implements `AnyDeadLetters`: what a server has stored in its *place*."""

    place: ServedPlace
    container: str = "dead"

    @property
    def destination(self) -> dict[str, Any]:
        return dead_letter_destination(store.ACCOUNT, self.container)

    def wait_for(self, blobs: int) -> Blobs:
        return _wait_for(blobs, self._find)

    def _find(self) -> Blobs:
        wanted = "SELECT path, body FROM blobs WHERE container = ? ORDER BY path"
        found = self.place.rows(wanted, self.container)
        return {path: json.loads(body) for path, body in found}


def _wait_for(blobs: int, find: Callable[[], Blobs]) -> Blobs:
    deadline = time.monotonic() + PATIENCE
    while len(found := find()) < blobs:
        assert time.monotonic() < deadline, f"{len(found)} blobs"
        time.sleep(0.2)
    return found
