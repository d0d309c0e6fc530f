"""Reads the connections to storage: of the app's own account, and of others that hold events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

Connection = Mapping[str, str]  # as `storage_setting` returns it
_PREFIXES = ("ConnectionStrings:AzureWebJobs", "AzureWebJobs", "ConnectionStrings:", "")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
UNRESOLVED = "@Microsoft.KeyVault("  # the value of a setting whose reference can't be resolved
_HOST = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def storage_setting(connection: str, environ: Mapping[str, str]) -> Connection:
    """
    Return a connection string under ``''``, or the members of a section; nothing if neither is set.

    The first prefix that has a value wins, and there a string before a section. Names are
    case-insensitive (members are returned in lower case), ``:`` and ``__`` mean the same, and an
    empty value is not set.

    Source: azure-webjobs-sdk, IConfigurationExtensions.GetWebJobsConnectionSection.
    """
    given = {
        name.replace("__", ":").lower(): value.strip()
        for name, value in environ.items()
        if value.strip()
    }
    for prefix in _PREFIXES:
        root = f"{prefix}{connection}".lower()
        if text := given.get(root):
            return {"": text}
        start = f"{root}:"
        if members := {
            name.removeprefix(start): value
            for name, value in given.items()
            if name.startswith(start)
        }:
            return members
    return {}


def deadletter_accounts(text: str, environ: Mapping[str, str]) -> dict[str, Connection]:
    """
    Return the connection of each account in *text*, ``name=how`` separated by commas.

    *how* is the account's blob endpoint, reached by the app's identity, or the name of a setting in
    *environ* with a connection string. The queue endpoint is the blob endpoint with ``queue`` for
    ``blob``. A connection that Key Vault left unresolved is empty.

    Raises:
        ValueError: an entry is malformed, repeated, or names a setting that is not set. No part of
            it is quoted: it may be a connection string, or a URL with its signature.
    """
    found: dict[str, Connection] = {}
    for number, (name, how) in enumerate(_entries(text), 1):
        if not _ACCOUNT.fullmatch(name):
            raise ValueError(f"entry {number} does not begin with the name of a storage account")
        if name in found:
            raise ValueError(f"entry {number} names an account again")
        if "://" in how:
            if fault := _endpoint_fault(name, how):
                raise ValueError(f"entry {number} {fault}")
            found[name] = _services(how.rstrip("/"))
        elif not _SETTING.fullmatch(how):
            message = "needs the account's blob endpoint, or the name of a setting, after '='"
            raise ValueError(f"entry {number} {message}")
        elif not (connection := environ.get(how, "").strip()):
            raise ValueError(f"entry {number} names a setting that is not set")
        else:
            found[name] = {} if connection.startswith(UNRESOLVED) else {"": connection}
    return found


def account_name(text: str) -> str:
    """Return *text*. Raises ValueError if no storage account can have that name."""
    if not _ACCOUNT.fullmatch(text):
        raise ValueError("not a name of a storage account: 3 to 24 small letters and digits")
    return text


def has_queues(connection: Connection) -> bool:
    """Tell whether *connection* says where the account's queues are, or can't be known yet."""
    if text := connection.get(""):
        return bool(re.search(r"(?i)(^|;)\s*(AccountName|QueueEndpoint)\s*=", text))
    return not connection or "queueServiceUri" in connection


def settings_named(text: str) -> Iterator[str]:
    """Yield the names of the settings with connection strings; *text* may be malformed."""
    return (how for _, how in _entries(text) if _SETTING.fullmatch(how))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, how = entry.partition("=")
        yield name.strip(), how.strip()


def _services(blob: str) -> dict[str, str]:
    queue = re.sub(r"(?<=https://)([a-z0-9]+(\.[a-z0-9]+)?)\.blob\.", r"\1.queue.", blob)
    return {"blobServiceUri": blob} | ({"queueServiceUri": queue} if queue != blob else {})


def _endpoint_fault(name: str, text: str) -> str | None:
    """Tell what is wrong with a blob endpoint; its host or its path begins with *name*."""
    alone = "needs the account's blob endpoint, like https://NAME.blob.…, alone"
    try:
        url = urlsplit(text)
    except ValueError:
        return alone
    if url.scheme != "https":
        return "has an endpoint that is no https URL: tokens need https"
    host, path = url.netloc, url.path.rstrip("/")
    if url.query or url.fragment:
        return f"{alone}: leave out what follows '?' or '#'"
    if _HOST.fullmatch(host) and path == f"/{name}":
        return None
    if not _HOST.fullmatch(host) or not host.startswith(f"{name}."):
        return f"{alone}: its host is not one of the account before '='"
    return f"{alone}: leave out its path" if path else None


def with_own_account(own: str, others: Iterable[str]) -> tuple[str, ...]:
    """Return the storage accounts that can have dead letters: the app's own, then by name."""
    return own, *sorted({*others} - {own})
