"""Reads and changes queues and blobs of a storage account with the official SDKs."""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient
from azure.storage.queue import (
    AccountSasPermissions,
    QueueClient,
    QueueServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from devhost.azurite import ACCOUNT, KEY, Azurite
from tests.host.running import until

HOSTS = "azure-webjobs-hosts"


class Storage:
    """One storage account."""

    def __init__(self, azurite: Azurite) -> None:
        self.connection_string = azurite.connection_string
        self._queue_url = azurite.queue_url
        self._queues = QueueServiceClient.from_connection_string(self.connection_string)
        self._blobs = BlobServiceClient.from_connection_string(self.connection_string)

    def close(self) -> None:
        """Close the connections."""
        self._queues.close()
        self._blobs.close()

    @staticmethod
    def new_name(label: str) -> str:
        """Return an unused queue name."""
        return f"{label}-{uuid.uuid4().hex[:12]}"

    def queue(self, label: str) -> str:
        """Create a queue and return its name."""
        name = self.new_name(label)
        self.client(name).create_queue()
        return name

    def client(self, name: str) -> QueueClient:
        """Return the client of a queue; it neither encodes nor decodes."""
        return self._queues.get_queue_client(name)

    def send(self, name: str, body: str | bytes) -> None:
        """Send a message in base64, the host's default."""
        data = body.encode() if isinstance(body, str) else body
        self.client(name).send_message(encoded(data))

    def count(self, name: str) -> int:
        """Return how many messages there are, hidden ones included; -1: there is no queue."""
        try:
            return self.client(name).get_queue_properties().approximate_message_count or 0
        except ResourceNotFoundError:
            return -1

    def wait_empty(self, name: str) -> None:
        """Wait until all messages have been deleted."""
        until(lambda: self.count(name) == 0)

    def wait_poison(self, name: str) -> str:
        """Return the text of the one message in *name*'s poison queue, waiting for it."""
        until(lambda: self.count(f"{name}-poison") == 1)
        (message,) = self.client(f"{name}-poison").peek_messages(max_messages=32)
        return str(message.content)

    def signed_url(self, name: str) -> str:
        """Return a queue's URL with the right to delete and update its messages."""
        signature = generate_account_sas(
            ACCOUNT,
            KEY,
            resource_types=ResourceTypes(service=True, container=True, object=True),
            permission=AccountSasPermissions(
                read=True, write=True, delete=True, update=True, process=True
            ),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        return f"{self._queue_url}/{name}?{signature}"

    def timer_status(self, host_id: str, function: str) -> dict[str, str] | None:
        """Return a timer's stored status, or None."""
        try:
            text = self._status(host_id, function).download_blob().readall()
        except ResourceNotFoundError:
            return None
        document: dict[str, str] = json.loads(text)
        return document

    def age_timer(self, host_id: str, function: str, by: timedelta) -> None:
        """Set a timer's status back, as if the host had been off for that long."""
        status = self.timer_status(host_id, function)
        assert status is not None
        aged = {name: _earlier(text, by) for name, text in status.items()}
        self._status(host_id, function).upload_blob(json.dumps(aged), overwrite=True)

    def break_leases(self, host_id: str) -> None:
        """End the leases of a killed host's timers, as if they had expired."""
        container = self._blobs.get_container_client(HOSTS)
        for blob in container.list_blobs(name_starts_with=f"locks/{host_id}/"):
            lease = BlobLeaseClient(container.get_blob_client(blob.name))
            with contextlib.suppress(HttpResponseError):
                lease.break_lease(lease_break_period=0)

    def _status(self, host_id: str, function: str) -> Any:
        path = f"timers/{host_id}/Host.Functions.{function}/status"
        return self._blobs.get_blob_client(HOSTS, path)


def encoded(body: bytes) -> str:
    """Return *body* in base64."""
    return base64.b64encode(body).decode()


def _earlier(text: str, by: timedelta) -> str:
    moment = datetime.fromisoformat(text)
    # The year 1 means never.
    return text if moment.year == 1 else (moment - by).isoformat()
