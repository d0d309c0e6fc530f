"""A container for dead letters, and waiting for what is written to it."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

from azure.storage.blob import BlobServiceClient, ContainerClient

from devhost.azurite import ACCOUNT, Azurite
from testbed.arm import dead_letter_destination
from testbed.subscriber import PATIENCE
from tests.integration.push.authority import Authority


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What is written to one container of *account*."""

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

    def wait_for(self, blobs: int) -> dict[str, list[dict[str, Any]]]:
        """Return the letters by the names of their blobs, once there are so many of these."""
        deadline = time.monotonic() + PATIENCE
        while len(names := list(self.container.list_blob_names())) < blobs:
            assert time.monotonic() < deadline, f"{len(names)} blobs"
            time.sleep(0.2)
        return {
            name: json.loads(self.container.download_blob(name).readall()) for name in sorted(names)
        }
