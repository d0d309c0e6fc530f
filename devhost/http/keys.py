"""
Access keys, where `--enable-auth` asks for them; without it every caller may do everything.

Source: azure-functions-host Security/Authentication/Keys/AuthenticationLevelHandler.cs (2024-10).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devhost.functions.metadata import AuthLevel
from devhost.http.request import Request

_MASTER = "DEVHOST_MASTER_KEY"
_HOST = "DEVHOST_HOST_KEY"
_FUNCTION = "DEVHOST_FUNCTION_KEY_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of this run."""

    master: str
    host: str
    functions: Mapping[str, str]

    def open(self, request: Request, level: AuthLevel, name: str) -> bool:
        """Say whether *request* may call function *name*; the header wins over `code`."""
        if level == "anonymous":
            return True
        given = request.headers.get("x-functions-key") or request.query.get("code", "")
        accepted = [self.master]
        if level == "function":
            accepted += [self.host, self.functions[name]]
        return any(hmac.compare_digest(given.encode(), key.encode()) for key in accepted)


def make_keys(names: Iterable[str], environ: Mapping[str, str]) -> Keys:
    """Take the keys from the settings `DEVHOST_…_KEY`; make up those that are not set."""
    return Keys(
        master=environ.get(_MASTER) or secrets.token_urlsafe(24),
        host=environ.get(_HOST) or secrets.token_urlsafe(24),
        functions={
            name: environ.get(f"{_FUNCTION}{name}") or secrets.token_urlsafe(24) for name in names
        },
    )
