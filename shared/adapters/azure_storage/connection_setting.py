"""Reads the setting of the storage account: where its services are, and the identity to use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlsplit

from shared.errors import InvalidSettings
from shared.settings import NAMES, STORAGE

# The members that name a managed identity, and what azure.identity calls them.
_NAMES = {
    "clientid": ("clientId", "client_id"),
    "managedidentityclientid": ("managedIdentityClientId", "client_id"),
    "managedidentityresourceid": ("managedIdentityResourceId", "resource_id"),
    "managedidentityobjectid": ("managedIdentityObjectId", "object_id"),
}
# Publishers wait for the token as well: seconds, where the library would take minutes. Who asks for
# it tries again; the library would wait as long as a Retry-After says.
_LIMITS: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 5, "retry_total": 0}

_DEVELOPMENT = "devstoreaccount1"
_NAME = re.compile(r"[a-z0-9]{3,24}", re.IGNORECASE)  # else, errors of name servers would quote it
_LOCATIONS = ("accountname", *(f"{service}serviceuri" for service in ("blob", "queue", "table")))
_ACCOUNTS = NAMES["deadletter_accounts"]
C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A class of ``azure.identity`` by its name, and the arguments that it is made with."""

    kind: str
    arguments: Mapping[str, Any]

    def credential(self) -> Any:
        """Make the credential; only this imports the library, which is half a second's work."""
        import azure.identity

        return getattr(azure.identity, self.kind)(**self.arguments, **_LIMITS)


def identity_of(section: Mapping[str, str]) -> Identity:
    """
    Return the identity that a section names; its members are in lower case, and none is empty.

    The host ignores a value that it does not know, and takes any identity that it finds. Here that
    is refused: the setting means a certain identity.

    Raises:
        ValueError: the section names no known identity, or more than one.

    Source: Microsoft.Extensions.Azure, ClientFactory.CreateCredential (2026).
    """
    given = {name: section[name] for name in _NAMES if name in section}
    match section.get("credential", "").lower():
        case "managedidentity":
            return _managed_identity(given)
        case "workloadidentity":
            return _identity(
                "WorkloadIdentityCredential",
                tenant_id=section.get("tenantid"),
                client_id=section.get("clientid"),
                token_file_path=section.get("tokenfilepath"),
            )
        case "":
            return _default_identity(section, given)
        case _:
            raise ValueError("not one of managedidentity, workloadidentity")


def _managed_identity(given: Mapping[str, str]) -> Identity:
    if len(given) > 1:
        both = " and ".join(_NAMES[name][0] for name in given)
        raise ValueError(f"{both} are set: keep only one of them, each names an identity")
    named = {_NAMES[name][1]: value for name, value in given.items()}
    if not named or "client_id" in named:
        return _identity("ManagedIdentityCredential", **named)
    return _identity("ManagedIdentityCredential", identity_config=named)


def _default_identity(section: Mapping[str, str], given: Mapping[str, str]) -> Identity:
    """Return the identity where ``credential`` is not set, which is for local work mostly."""
    tenant, client, secret = (
        section.get(name) for name in ("tenantid", "clientid", "clientsecret")
    )
    if tenant and client and secret:
        return _identity(
            "ClientSecretCredential", tenant_id=tenant, client_id=client, client_secret=secret
        )
    for name in ("managedidentityresourceid", "managedidentityobjectid"):
        if name in given:
            raise ValueError(f"{_NAMES[name][0]} needs credential managedidentity: set it")
    client = given.get("managedidentityclientid") or given.get("clientid")
    return _identity("DefaultAzureCredential", managed_identity_client_id=client)


def _identity(kind: str, **arguments: Any) -> Identity:
    return Identity(
        kind=kind,
        arguments={name: value for name, value in arguments.items() if value is not None},
    )


class Service(StrEnum):
    """The services of a storage account, as in host names."""

    BLOB = "blob"
    QUEUE = "queue"
    TABLE = "table"


class StorageConnection:
    """
    The connection to storage, as the Functions host reads its setting.

    The setting is a connection string, or a section: ``accountName``, or ``blobServiceUri``,
    ``queueServiceUri`` and ``tableServiceUri``; and the identity. The account's name has precedence
    over the addresses, of which only those of *services* are needed. Members are case-insensitive.

    Raises:
        InvalidSettings: the setting names no account, or an unknown identity.
    """

    def __init__(
        self, storage: Mapping[str, str], services: Collection[Service] = tuple(Service)
    ) -> None:
        self._text = storage.get("", "")
        members = {name.lower(): value.strip() for name, value in storage.items() if name}
        self._section = {name: value for name, value in members.items() if value}
        self._identity: Identity | None = None
        if not self._text:
            for service in services:
                self._url(service)
            try:
                self._identity = identity_of(self._section)
            except ValueError as error:
                raise _invalid(f"{STORAGE}__credential", str(error)) from error
        self.account_name = self._account_name()

    def client(self, kind: type[C], service: Service, **options: Any) -> C:
        untyped: Any = kind
        client: C = (
            untyped.from_connection_string(self._text, **options)
            if self._text
            else untyped(self._url(service), credential=self._credential, **options)
        )
        return client

    def _account_name(self) -> str:
        if not self._text:
            return _account_of(self._url(Service.BLOB))
        members = _members(self._text)
        if members.get("usedevelopmentstorage", "").lower() == "true":
            return _DEVELOPMENT
        if name := members.get("accountname"):
            return name
        if url := members.get("blobendpoint"):
            return _account_of(url)
        raise _invalid(STORAGE, "the connection string has no AccountName")

    def _url(self, service: Service) -> str:
        if name := self._section.get("accountname"):
            if not _NAME.fullmatch(name):
                raise _invalid(f"{STORAGE}__accountName", "not the name of a storage account")
            return f"https://{name}.{service}.core.windows.net"
        member = f"{service}ServiceUri"
        setting = f"{STORAGE}__{member}"
        url = self._section.get(member.lower(), "").rstrip("/")
        if not url:
            raise _invalid(setting, "is not set; set it or accountName")
        if not url.lower().startswith("https://") or not _account_of(url):
            raise _invalid(setting, "not an https URL: tokens are sent over https only")
        return url

    @cached_property
    def _credential(self) -> Any:
        """All clients share it: it keeps their tokens."""
        return self._identity and self._identity.credential()


def connections_beside(
    own: Mapping[str, str], others: Mapping[str, Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    """
    Return the connections of *others*, by account; blob endpoints get the identity of *own*.

    An account whose connection is empty is left out: its secret is unknown.

    Raises:
        InvalidSettings: an account is the app's own, needs an identity that *own* does not have,
            or has a connection string that is malformed or another account's.
    """
    account = StorageConnection(own).account_name
    if account in others:
        raise _invalid(_ACCOUNTS, f"'{account}' is the app's own account: leave it out")
    identity = {name: value for name, value in own.items() if name.lower() not in _LOCATIONS}
    found = {}
    for name, given in others.items():
        if text := given.get(""):
            _check_connection_string(name, text)
            found[name] = given
        elif given and "" in own:
            raise _invalid(
                _ACCOUNTS,
                f"the blob endpoint of '{name}' needs an identity, which {STORAGE} does not have: "
                "name a setting with the account's connection string instead",
            )
        elif given:
            found[name] = {**identity, **given}
    return found


def _check_connection_string(name: str, text: str) -> None:
    members = _members(text)
    account = members.get("accountname") or _account_of(members.get("blobendpoint", ""))
    if account != name:
        raise _invalid(_ACCOUNTS, f"the connection string of '{name}' is another account's")
    if not members.get("accountkey") and not members.get("sharedaccesssignature"):
        message = f"the connection string of '{name}' has no AccountKey or SharedAccessSignature"
        raise _invalid(_ACCOUNTS, message)


def _members(text: str) -> dict[str, str]:
    """Return the members of a connection string, with names in lower case."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _invalid(setting: str, why: str) -> InvalidSettings:
    return InvalidSettings(f"{setting}: {why}", detail_code="InvalidSetting", target=setting)


def _account_of(url: str) -> str:
    """
    Return the account in a service's URL: the path where the host is an address, or a label.

    Empty if it is no URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    host = parts.hostname or ""
    if host == "localhost" or host.replace(".", "").isdigit():
        return parts.path.strip("/")
    return host.partition(".")[0]
