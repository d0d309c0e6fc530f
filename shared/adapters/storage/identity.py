"""Chooses the identity of Entra ID for a storage account whose setting holds no secret."""

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
# Publishers wait for the token as well: seconds, where the library would take minutes. Who asks for
# it tries again; the library would wait as long as a Retry-After says.
_LIMITS: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 5, "retry_total": 0}


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
    for name, value in given.items():
        argument = _NAMES[name][1]
        if argument == "client_id":
            return _identity("ManagedIdentityCredential", client_id=value)
        return _identity("ManagedIdentityCredential", identity_config={argument: value})
    return _identity("ManagedIdentityCredential")


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
