"""Rules: who may do what, where, and from when on, by the tables of roles.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID, uuid5

from shared.adapters.azure_storage.connection_setting import Service
from tests.infra.deployed import Deployment, Snapshot, differences, rule, table, unequal

TABLE = table("roles")
ROLES = TABLE["roles"]
NAMES = {each["id"]: each["name"] for each in ROLES}
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers"
#: Azure's namespace of `guid()`.
GUIDS = UUID("11fb06fb-712d-4ddd-98c7-e71bbd588830")


def scopes(snapshot: Snapshot, at: str, on: str) -> list[str]:
    """Return the ids of the narrowest scopes."""
    service, ids = f"/{on}Services/default", snapshot.ids
    if at == "others":
        return [each + service for each in snapshot.dead_letter_accounts]
    container = f"/containers/{snapshot.package_container}"
    package = {"package": f"{ids['account']}{service}{container}"}
    return [(ids | package | {"account": ids["account"] + service})[at]]


def principal(snapshot: Snapshot, holder: str) -> str:
    if holder == "deployer":
        return str(snapshot.given["principalId"])
    return f"reference({holder}).outputs.principalId.value"


@rule
def role_rows_name_the_role_of_their_id(deployment: Deployment) -> Iterable[str]:
    for row in deployment.modules["rbac"]["parameters"]["roles"]["defaultValue"]:
        if NAMES.get(row["id"]) != row["role"]:
            yield f"{row['id']} is {NAMES.get(row['id'])}, not {row['role']}"


@rule
def each_may_do_what_it_does_and_no_more(snapshot: Snapshot) -> Iterable[str]:
    """The narrowest scope, and the least of the built-in roles; the code uses each service."""
    used = [row["on"] for row in TABLE["done"] if (row["by"], row["at"]) == ("identity", "account")]
    yield from differences("service", used, Service)
    wanted = [
        f"{enough[0]} of {holder} on {scope}"
        for row in TABLE["done"]
        if (enough := [each["name"] for each in ROLES if {*row["what"]} <= {*each["allows"]}])
        if (holder := principal(snapshot, row["by"]))
        for scope in scopes(snapshot, row["at"], row["on"])
    ]
    found = [
        f"{NAMES.get(each.role)} of {each.at('properties.principalId')} on {each.scope}"
        for each in snapshot.of("/roleAssignments")
    ]
    yield from differences("role", found, wanted)


@rule
def assignments_have_their_names_and_kinds(snapshot: Snapshot) -> Iterable[str]:
    """Under another name one exists already; without the kind, a new identity is not found."""
    for each in snapshot.of("/roleAssignments"):
        holder = each.at("properties.principalId")
        parts = (each.scope, holder, each.role)
        is_ours = holder.startswith("reference(")
        name = f"guid({', '.join(parts)})" if is_ours else str(uuid5(GUIDS, "-".join(parts)))
        kind = "ServicePrincipal" if is_ours else snapshot.given["principalType"]
        found = {"name": each.name, "kind": each.at("properties.principalType")}
        yield from unequal(found, {"name": name, "kind": kind})


@rule
def the_package_cant_be_written_by_the_app(snapshot: Snapshot) -> Iterable[str]:
    """A condition excludes the container; the platform writes it under an identity of its own."""
    name = f"@Resource[{BLOBS}:name] StringNotEquals '{snapshot.package_container}'"
    condition = f"((ActionMatches{{'{BLOBS}/blobs/read'}}) OR ({name}))"
    ours = (scopes(snapshot, "account", "blob")[0], principal(snapshot, "identity"))
    for each in snapshot.of("/roleAssignments"):
        is_ours = (each.scope, each.at("properties.principalId")) == ours
        found = (each.at("properties.condition"), each.at("properties.conditionVersion"))
        if found != ((condition, "2.0") if is_ours else (None, None)):
            yield f"{each.name} has the condition {found}"


def before(module: str, deployment: Deployment) -> Iterator[str]:
    for each in deployment.modules[module].get("dependsOn", ()):
        if each in deployment.modules:
            yield each
            yield from before(each, deployment)


@rule
def modules_wait_for_what_they_need(deployment: Deployment) -> Iterable[str]:
    """Without its roles the app can't read its own package."""
    for module, needed in TABLE["order"].items():
        for each in sorted({*needed} - {*before(module, deployment)}):
            yield f"{module} must wait for {each}: name it in dependsOn"
