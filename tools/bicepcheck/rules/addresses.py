"""Addresses of a storage account's services, as Azure tells them or put together by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tools.bicepcheck.evaluation.values import Deployed, Ref, Text, text_of

ACCOUNT = "Microsoft.Storage/storageAccounts"


def rest_of(value: Any, service: str, accounts: list[Deployed]) -> str | None:
    """Return what follows the address of a service (blob, queue, table); ``None``: it is none."""
    parts = value.parts if isinstance(value, Text) else (value,)
    first = parts[0]
    if isinstance(first, Ref):
        told = first.of.type == ACCOUNT
        if not told or first.path != ("properties", "primaryEndpoints", service):
            return None
        return _shown(parts[1:])
    text = _shown(parts)
    for account in accounts:
        start = _shown(_parts(text_of(["https://", account.name, f".{service}."])))
        if text.startswith(start):
            return text.removeprefix(start).partition("/")[2]
    return None


def doubled(value: Any) -> bool:
    """Whether a slash follows an address that ends in one."""
    parts = _parts(value)
    return any(
        isinstance(before, Ref)
        and (before.path[-1] == "vaultUri" or "primaryEndpoints" in before.path)
        and isinstance(after, str)
        and after.startswith("/")
        for before, after in pairwise(parts)
    )


def _parts(value: Any) -> tuple[Any, ...]:
    return value.parts if isinstance(value, Text) else (value,)


def _shown(parts: tuple[Any, ...]) -> str:
    return "".join(part if isinstance(part, str) else repr(part) for part in parts)
