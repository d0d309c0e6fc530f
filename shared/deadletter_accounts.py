"""Reads the setting that names the other storage accounts to which dead letters may go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

Connection = Mapping[str, str]  # as `storage_setting` returns it
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
UNRESOLVED = "@Microsoft.KeyVault("  # the value of a setting whose reference can't be resolved
_HOST = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def deadletter_accounts(text: str, environ: Mapping[str, str]) -> dict[str, Connection]:
    """
    Return the connection of each account in *text*, ``name=how`` separated by commas.

    *how* is the account's blob endpoint, reached by the app's identity, or the name of a setting in
    *environ* with a connection string. A connection that Key Vault left unresolved is empty.

    Raises:
        ValueError: an entry is malformed, repeated, or names a setting that is not set.
    """
    found: dict[str, Connection] = {}
    for name, how in _entries(text):
        if not _ACCOUNT.fullmatch(name):
            raise ValueError(f"'{name}' is not the name of a storage account")
        if name in found:
            raise ValueError(f"'{name}' is named twice")
        if "://" in how:
            found[name] = {"blobServiceUri": _endpoint(name, how)}
        elif not _SETTING.fullmatch(how):
            message = f"'{name}' needs its blob endpoint, or the name of a setting, after '='"
            raise ValueError(message)
        elif not (connection := environ.get(how, "").strip()):
            raise ValueError(f"'{name}' names the setting {how}, which is not set")
        else:
            found[name] = {} if connection.startswith(UNRESOLVED) else {"": connection}
    return found


def settings_named(text: str) -> Iterator[str]:
    """Yield the names of the settings with connection strings; *text* may be malformed."""
    return (how for _, how in _entries(text) if _SETTING.fullmatch(how))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, how = entry.partition("=")
        yield name.strip(), how.strip()


def _endpoint(name: str, text: str) -> str:
    """Return the blob endpoint of the account *name*; its host or its path begins with the name."""
    url = urlsplit(text)
    # Not the text itself: it may be a connection string, or a URL with its signature.
    if url.scheme != "https":
        raise ValueError(f"the endpoint of '{name}' is no https URL: tokens need https")
    host, path = url.netloc, url.path.rstrip("/")
    is_of_account = (host.startswith(f"{name}.") and not path) or path == f"/{name}"
    if not (_HOST.fullmatch(host) and is_of_account) or url.query or url.fragment:
        raise ValueError(f"'{name}' needs its blob endpoint, like https://{name}.blob.…, alone")
    return text.rstrip("/")
