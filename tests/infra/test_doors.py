"""Which doors of a deployment are closed: passwords, the vault, the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.scenarios import deployments
from tools.bicepcheck.evaluation.values import Deployed, Ref
from tools.bicepcheck.problems import ProblemReport
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules import azure

ROOT = Path(__file__).resolve().parents[2]

WRITERS = {
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
}
BLOBS = f"{azure.CONTAINER}/blobs"
PACKAGE = "app-package"


@pytest.fixture(scope="module")
def deployed() -> list[EvaluatedFolder]:
    folder = Folder(ROOT / "infra", ProblemReport())
    return list(deployments(folder))


def test_nothing_is_published_with_a_password(deployed: list[EvaluatedFolder]) -> None:
    for deployment in deployed:
        policies = deployment.of(f"{azure.SITE}/basicPublishingCredentialsPolicies")
        assert {one.name: one.at("properties", "allow") for one in policies} == {
            "scm": False,
            "ftp": False,
        }


def test_the_vault_is_private_where_the_network_is(deployed: list[EvaluatedFolder]) -> None:
    seen = set()
    for deployment in deployed:
        has_network = bool(deployment.of(azure.NETWORK))
        (vault,) = deployment.of(azure.VAULT)
        closed = (
            vault.at("properties", "publicNetworkAccess") == "Disabled",
            vault.at("properties", "networkAcls", "defaultAction") == "Deny",
            vault in endpoints(deployment),
            any("vaultcore" in repr(zone.name) for zone in deployment.of(azure.ZONE)),
        )
        assert closed == (has_network,) * 4
        seen.add(has_network)

    assert seen == {False, True}


def endpoints(deployment: EvaluatedFolder) -> list[Deployed]:
    """Return what private endpoints lead to."""
    return [
        connection["properties"]["privateLinkServiceId"].of
        for endpoint in deployment.of(azure.ENDPOINT)
        for connection in endpoint.items("properties", "privateLinkServiceConnections")
    ]


def test_the_app_can_not_write_its_package(deployed: list[EvaluatedFolder]) -> None:
    """A condition excludes the container; the platform writes it under an identity of its own."""
    for deployment in deployed:
        (site,) = deployment.of(azure.SITE)
        storage = ("properties", "functionAppConfig", "deployment", "storage", "authentication")
        platform = site.at(*storage, "userAssignedIdentityResourceId").of
        writers = {holder: one for one, holder in of_identities(deployment)}

        assert len(writers) == 2
        (app,) = writers.keys() - {platform}
        assert writers[platform].scope.name == PACKAGE
        assert site.at("properties", "keyVaultReferenceIdentity").of is app
        assert writers[app].at("properties", "conditionVersion") == "2.0"
        assert writers[app].at("properties", "condition") == (
            f"((ActionMatches{{'{BLOBS}/read'}}) OR "
            f"(@Resource[{azure.CONTAINER}:name] StringNotEquals '{PACKAGE}'))"
        )


def of_identities(deployment: EvaluatedFolder) -> Iterator[tuple[Deployed, Any]]:
    """Yield the assignments of roles that can write blobs of the app's account, with holders."""
    for one in deployment.of(azure.ASSIGNMENT):
        holder = one.at("properties", "principalId")
        role = one.at("properties", "roleDefinitionId").args[-1]
        is_elsewhere = one.scope.existing  # another account, for dead letters
        if isinstance(holder, Ref) and role in WRITERS and not is_elsewhere:
            yield one, holder.of
