"""Finds the environment variables of a storage connection, as the real host does."""

from __future__ import annotations

from collections.abc import Mapping

_PLACES = ("ConnectionStrings:AzureWebJobs", "AzureWebJobs", "ConnectionStrings:", "")


def storage_setting(connection: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """
    Return a connection string under ``''``, or the members of a section; nothing if neither is set.

    The first place that holds anything counts, and there a string more than a section. Names have
    no case (members come in lower case), ``:`` is as good as ``__``, and what is empty is not set.

    Source: azure-webjobs-sdk, IConfigurationExtensions.GetWebJobsConnectionSection.
    """
    given = {
        name.replace("__", ":").lower(): value.strip()
        for name, value in environ.items()
        if value.strip()
    }
    for place in _PLACES:
        root = f"{place}{connection}".lower()
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
