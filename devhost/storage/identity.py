"""Reads the identity of a storage connection without a secret, as the real host does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The members that name a managed identity, and what azure.identity calls them.
_NAMES = {
    "clientid": ("clientId", "client_id"),
    "managedidentityclientid": ("managedIdentityClientId", "client_id"),
    "managedidentityresourceid": ("managedIdentityResourceId", "resource_id"),
    "managedidentityobjectid": ("managedIdentityObjectId", "object_id"),
}
# Whoever publishes waits for the token as well: seconds, where the library would take minutes.
_LIMITS: dict[str, Any] = {
    "connection_timeout": 5,
    "read_timeout": 10,
    "retry_total": 2,
    "retry_read": 0,  # an endpoint that hung once has used up the time of all tries
}


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

    What the host has never heard of it passes over, to take any identity that it finds. That is
    refused here: whoever wrote it meant a certain one.

    Raises:
        ValueError: the section names no identity that we know, or more than one.

    Source: Microsoft.Extensions.Azure, ClientFactory.CreateCredential (2026).
    """
    given = {name: section[name] for name in _NAMES if name in section}
    match section.get("credential", "").lower():
        case "managedidentity":
            return _managed(given)
        case "workloadidentity":
            return _made(
                "WorkloadIdentityCredential",
                tenant_id=section.get("tenantid"),
                client_id=section.get("clientid"),
                token_file_path=section.get("tokenfilepath"),
            )
        case "":
            return _found(section, given)
        case other:
            raise ValueError(f"'{other}' is none of managedidentity, workloadidentity")


def _managed(given: Mapping[str, str]) -> Identity:
    if len(given) > 1:
        both = " and ".join(_NAMES[name][0] for name in given)
        raise ValueError(f"{both} are set, which are names of one identity each: one of them")
    for name, value in given.items():
        argument = _NAMES[name][1]
        if argument == "client_id":
            return _made("ManagedIdentityCredential", client_id=value)
        return _made("ManagedIdentityCredential", identity_config={argument: value})
    return _made("ManagedIdentityCredential")


def _found(section: Mapping[str, str], given: Mapping[str, str]) -> Identity:
    """Return the identity where ``credential`` is not set, which is for local work mostly."""
    tenant, client, secret = (
        section.get(name) for name in ("tenantid", "clientid", "clientsecret")
    )
    if tenant and client and secret:
        return _made(
            "ClientSecretCredential", tenant_id=tenant, client_id=client, client_secret=secret
        )
    for name in ("managedidentityresourceid", "managedidentityobjectid"):
        if name in given:
            raise ValueError(f"{_NAMES[name][0]} is set, which only managedidentity has")
    client = given.get("managedidentityclientid") or given.get("clientid")
    return _made("DefaultAzureCredential", managed_identity_client_id=client)


def _made(kind: str, **arguments: Any) -> Identity:
    return Identity(
        kind=kind,
        arguments={name: value for name, value in arguments.items() if value is not None},
    )
