"""Whose identity a connection without a secret is, as the Functions host reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import azure.identity
import pytest

from devhost.errors import BadFunctionError
from devhost.storage.account import find_account
from shared.adapters.azure_storage.connection_setting import identity_of

MANAGED = {"credential": "managedidentity"}
WORKLOAD = {"credential": "workloadidentity", "tenantid": "t", "clientid": "c"}
SECRET = {"tenantid": "t", "clientid": "c", "clientsecret": "s"}
MI, DEFAULT = "ManagedIdentityCredential", "DefaultAzureCredential"
IDENTITIES: list[tuple[dict[str, str], str, dict[str, Any]]] = [
    (MANAGED, MI, {}),
    ({"credential": "ManagedIdentity"}, MI, {}),
    (MANAGED | {"clientid": "c"}, MI, {"client_id": "c"}),
    (MANAGED | {"managedidentityclientid": "c"}, MI, {"client_id": "c"}),
    (MANAGED | {"managedidentityresourceid": "/r"}, MI, {"identity_config": {"resource_id": "/r"}}),
    (MANAGED | {"managedidentityobjectid": "o"}, MI, {"identity_config": {"object_id": "o"}}),
    # A managed identity has no secret: what says so is not for it.
    (MANAGED | SECRET, MI, {"client_id": "c"}),
    (WORKLOAD, "WorkloadIdentityCredential", {"tenant_id": "t", "client_id": "c"}),
    (
        SECRET,
        "ClientSecretCredential",
        {"tenant_id": "t", "client_id": "c", "client_secret": "s"},
    ),
    ({}, DEFAULT, {}),
    ({"clientid": "c"}, DEFAULT, {"managed_identity_client_id": "c"}),
    # An application is all three.
    ({"clientid": "c", "clientsecret": "s"}, DEFAULT, {"managed_identity_client_id": "c"}),
    ({"tenantid": "t", "clientid": "c"}, DEFAULT, {"managed_identity_client_id": "c"}),
    (
        {"clientid": "c", "managedidentityclientid": "m"},
        DEFAULT,
        {"managed_identity_client_id": "m"},
    ),
]


@pytest.mark.parametrize(("section", "kind", "arguments"), IDENTITIES)
def test_who_we_are(section: Mapping[str, str], kind: str, arguments: Mapping[str, Any]) -> None:
    identity = identity_of({"accountname": "acc", **section})

    assert (identity.kind, identity.arguments) == (kind, arguments)


@pytest.mark.parametrize(("section", "kind", "arguments"), IDENTITIES)
def test_the_local_host_is_the_same_one(
    section: Mapping[str, str],
    kind: str,
    arguments: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[dict[str, Any]] = []

    def make(**given: Any) -> str:
        made.append(given)
        return kind

    monkeypatch.setattr(azure.identity, kind, make)

    account = find_account("S", {"S__accountName": "acc", **_variables(section)})

    assert account.credential == kind
    limits = {"connection_timeout": 2, "read_timeout": 5, "retry_total": 0}
    given = {name: each for name, each in made[0].items() if each not in (None, {})}
    assert given == {**arguments, **limits}


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"credential": "managed-identity"}, "not one of managedidentity"),
        ({"credential": "managedidentityasfederatedidentity"}, "not one of managedidentity"),
        (
            MANAGED | {"clientid": "c", "managedidentityresourceid": "/r"},
            "clientId and managedIdentityResourceId are set",
        ),
        (
            {"managedidentityobjectid": "o"},
            "managedIdentityObjectId needs credential managedidentity",
        ),
    ],
)
def test_what_names_no_identity_is_refused(section: Mapping[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        identity_of(section)
    with pytest.raises(BadFunctionError, match="setting S__credential: "):
        find_account("S", {"S__accountName": "acc", **_variables(section)})


def _variables(section: Mapping[str, str]) -> dict[str, str]:
    return {f"S__{name}": text for name, text in section.items()}


@pytest.mark.parametrize(
    "section",
    [
        MANAGED | {"clientid": "c"},
        MANAGED | {"managedidentityresourceid": "/r"},
        SECRET,
        WORKLOAD | {"tokenfilepath": "/f"},
        {"clientid": "c"},
    ],
)
def test_the_library_takes_the_arguments(section: Mapping[str, str]) -> None:
    identity = identity_of(section)

    assert type(identity.credential()) is getattr(azure.identity, identity.kind)
