"""A minimal ARM client for the management calls of the demo, the benchmark and the tests."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

ADMIN_KEY = secrets.token_hex(24)  # of the hosts that this process starts
_GROUP = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/local"
    "/providers/Microsoft.EventGrid"
)
_ACCOUNTS = "/subscriptions/0/resourceGroups/local/providers/Microsoft.Storage/storageAccounts"
_API_VERSION = "2025-02-15"
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Arm:
    """Calls the management API at *url*; a refused call raises ``requests.HTTPError``."""

    url: str
    admin_key: str = field(default=ADMIN_KEY, repr=False)

    def create_topic(self, name: str, profile: str | None = None, **properties: Any) -> Any:
        """Create a topic with the tag of the delivery *profile*, if any."""
        tags = {"deliveryProfile": profile} if profile else {}
        body = {"location": "local", "tags": tags, "properties": properties}
        return self._call("PUT", f"/topics/{name}", body)

    def delete_topic(self, name: str) -> None:
        self._call("DELETE", f"/topics/{name}")

    def create_namespace(self, name: str) -> Any:
        return self._call("PUT", f"/namespaces/{name}", {"location": "local"})

    def create_namespace_topic(self, namespace: str, name: str, **properties: Any) -> Any:
        path = f"/namespaces/{namespace}/topics/{name}"
        return self._call("PUT", path, {"properties": properties})

    def key(self, topic: str, kind: str = "topics") -> str:
        """Return the first key of a topic; *kind* is its collection in the path."""
        return str(self._call("POST", f"/{kind}/{topic}/listKeys")["key1"])

    def create_subscription(
        self,
        topic: str,
        name: str,
        endpoint: str = "",
        webhook: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> dict[str, Any]:
        """Create a subscription; *webhook* adds members to the destination's properties."""
        body = {"properties": _destination(endpoint, webhook) | properties}
        return self._call("PUT", f"/topics/{topic}/eventSubscriptions/{name}", body)

    def create_account_subscription(self, account: str, name: str, endpoint: str) -> dict[str, Any]:
        """Create a subscription whose scope is a storage account."""
        return self._of_source(f"Microsoft.Storage/storageAccounts/{account}", name, endpoint)

    def create_deployment_subscription(self, name: str, endpoint: str) -> dict[str, Any]:
        """Create a subscription whose scope is the deployment."""
        return self._of_source("Pushgrid/deployments/this-deployment", name, endpoint)

    def _of_source(self, source: str, name: str, endpoint: str) -> dict[str, Any]:
        scope = f"{_GROUP.rpartition('/')[0]}/{source}"
        body = {"properties": _destination(endpoint, None)}
        path = f"/eventSubscriptions/{name}"
        return self._call("PUT", path, body, f"{scope}/providers/Microsoft.EventGrid")

    def create_namespace_subscription(
        self, topic: tuple[str, str], name: str, endpoint: str
    ) -> dict[str, Any]:
        """Create a subscription of *topic* (namespace, name)."""
        delivery = {"deliveryMode": "Push", "push": _destination(endpoint, None)}
        namespace, topic_name = topic
        path = f"/namespaces/{namespace}/topics/{topic_name}/eventSubscriptions/{name}"
        return self._call("PUT", path, {"properties": {"deliveryConfiguration": delivery}})

    def subscription(self, topic: str, name: str) -> dict[str, Any]:
        return self._call("GET", f"/topics/{topic}/eventSubscriptions/{name}")

    def delete_subscription(self, topic: str, name: str) -> None:
        self._call("DELETE", f"/topics/{topic}/eventSubscriptions/{name}")

    def act(self, topic: str, name: str, action: str) -> None:
        """Pause, resume or release a subscription."""
        self._call("POST", f"/topics/{topic}/eventSubscriptions/{name}/{action}")

    def holds(self) -> list[dict[str, Any]]:
        """Return the subscriptions that are paused or held."""
        return list(self._call("GET", "/holds")["value"])

    def replay(self, **chosen: Any) -> str:
        """Start a replay of dead letters; return its id."""
        return str(self._call("POST", "/replays", chosen)["id"])

    def replay_state(self, job: str) -> str:
        return str(self._call("GET", f"/replays/{job}")["state"])

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, scope: str = _GROUP
    ) -> dict[str, Any]:
        response = requests.request(
            method,
            f"{self.url}{scope}{path}",
            params={"api-version": _API_VERSION},
            headers={"Authorization": f"Bearer {self.admin_key}"},
            json=body,
            timeout=_SECONDS,
            proxies={"http": "", "https": ""},  # none of the environment's: it is on this machine
        )
        if not response.ok:
            raise requests.HTTPError(f"{response.status_code} {response.text}", response=response)
        return dict(response.json()) if response.content else {}


def _destination(endpoint: str, webhook: Mapping[str, Any] | None) -> dict[str, Any]:
    properties = {"endpointUrl": endpoint} | dict(webhook or {})
    return {"destination": {"endpointType": "WebHook", "properties": properties}}


def dead_letter_destination(account: str, container: str) -> dict[str, Any]:
    """Return the member ``deadLetterDestination`` of a subscription."""
    properties = {"resourceId": f"{_ACCOUNTS}/{account}", "blobContainerName": container}
    return {"endpointType": "StorageBlob", "properties": properties}


def queue_destination(account: str, queue: str, **properties: Any) -> dict[str, Any]:
    """Return the member ``destination`` of a subscription whose events go into a queue."""
    given = {"resourceId": f"{_ACCOUNTS}/{account}", "queueName": queue, **properties}
    return {"endpointType": "StorageQueue", "properties": given}
