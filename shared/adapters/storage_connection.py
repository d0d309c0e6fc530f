"""What the setting of the storage account means: where its services are, and who we are there."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlsplit

from shared.errors import InvalidSettings
from shared.settings import STORAGE

_DEVELOPMENT = "devstoreaccount1"

C = TypeVar("C")


class Service(StrEnum):
    """The services of a storage account, as they stand in host names."""

    BLOB = "blob"
    QUEUE = "queue"
    TABLE = "table"


class Connection:
    """
    One connection as the Functions host reads it.

    It is a connection string, or a section: ``accountName``, or ``blobServiceUri``,
    ``queueServiceUri`` and ``tableServiceUri``; with ``credential`` and ``clientId`` if the
    identity is a managed one. Members are found whatever their case.

    Raises:
        InvalidSettings: the setting names no account, or a credential we don't know.
    """

    def __init__(self, storage: Mapping[str, str]) -> None:
        self._text = storage.get("", "")
        self._section = {name.lower(): value.strip() for name, value in storage.items() if name}
        credential = self._section.get("credential", "").lower()
        if credential not in {"", "managedidentity"}:
            raise InvalidSettings(f"{STORAGE}__credential: '{credential}' is not managedidentity")
        if not self._text:
            for service in Service:
                self._url(service)
        self.account_name = self._account_name()
        self._credential: Any = None

    def client(self, kind: type[C], service: Service, **options: Any) -> C:
        """Make a client of class *kind* for *service*."""
        untyped: Any = kind
        client: C = (
            untyped.from_connection_string(self._text, **options)
            if self._text
            else untyped(self._url(service), credential=self._identity(), **options)
        )
        return client

    def _account_name(self) -> str:
        if not self._text:
            return _account_of(self._url(Service.BLOB))
        pairs = (part.partition("=") for part in self._text.split(";"))
        members = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if members.get("usedevelopmentstorage", "").lower() == "true":
            return _DEVELOPMENT
        if name := members.get("accountname"):
            return name
        if url := members.get("blobendpoint"):
            return _account_of(url)
        raise InvalidSettings(f"{STORAGE}: no AccountName in the connection string")

    def _url(self, service: Service) -> str:
        if url := self._section.get(f"{service}serviceuri"):
            return url.rstrip("/")
        if name := self._section.get("accountname"):
            return f"https://{name}.{service}.core.windows.net"
        raise InvalidSettings(f"{STORAGE}__{service}ServiceUri is not set")

    def _identity(self) -> Any:
        """Return the credential; the clients' own locks don't cover its making, and needn't."""
        if self._credential is None:
            from azure.identity import DefaultAzureCredential, ManagedIdentityCredential

            client_id = self._section.get("clientid") or None
            if self._section.get("credential"):
                self._credential = ManagedIdentityCredential(client_id=client_id)
            else:
                self._credential = DefaultAzureCredential(managed_identity_client_id=client_id)
        return self._credential


def _account_of(url: str) -> str:
    """Return the account in a service's URL: the path where the host is an address, or a label."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or host.replace(".", "").isdigit():
        return parts.path.strip("/")
    return host.partition(".")[0]
