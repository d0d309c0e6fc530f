"""Reads a connection to storage as the real host does; a copy of shared/storage_setting.py."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = ("ConnectionStrings:AzureWebJobs", "AzureWebJobs", "ConnectionStrings:", "")


def storage_setting(connection: str, environ: Mapping[str, str]) -> Mapping[str, str]:
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
