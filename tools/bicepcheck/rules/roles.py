"""Rules about roles: which are assigned, on what, to whom, and which the app needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import Computed, Deployed, Input, Ref, leaves
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App
from tools.bicepcheck.rules.usage import reachable

_DEFINITION = "Microsoft.Authorization/roleDefinitions"

ROLES = {
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": ("Storage Blob Data Owner", azure.BLOBS),
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": ("Storage Blob Data Contributor", azure.BLOBS),
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": ("Storage Blob Data Reader", azure.BLOBS),
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": ("Storage Queue Data Contributor", azure.QUEUES),
    "19e7f393-937e-4f77-808e-94535e297925": ("Storage Queue Data Reader", azure.QUEUES),
    "8a0f0c08-91a1-4084-bc3d-661d67233fed": ("Storage Queue Data Message Processor", azure.QUEUES),
    "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a": ("Storage Queue Data Message Sender", azure.QUEUES),
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": ("Storage Table Data Contributor", azure.TABLES),
    "76199698-9eea-4c19-bc75-cec21354c6b6": ("Storage Table Data Reader", azure.TABLES),
    "3913510d-42f4-4e42-8a64-420c390055eb": ("Monitoring Metrics Publisher", azure.INSIGHTS),
    "4633458b-17de-408a-b874-0445c86b69e6": ("Key Vault Secrets User", azure.VAULT),
}
"""Name, and the narrowest scope; from Azure's list of built-in roles."""

NEEDED = (
    "Storage Blob Data Owner",
    "Storage Queue Data Contributor",
    "Storage Table Data Contributor",
    "Monitoring Metrics Publisher",
)
"""Roles of the app: its host keeps leases in blobs; the app requeues messages, creates tables."""

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check the role assignments of a deployment."""
    assignments, sites = deployment.of(azure.ASSIGNMENT), deployment.of(azure.SITE)
    granted: set[str] = set()
    seen: set[Any] = set()
    for one in assignments:
        role = _role_id(one)
        if role in ROLES and _by_function(one.at("properties", "roleDefinitionId")):
            yield from _scope(one, role)
            holder = one.at("properties", "principalId")
            yield from _principal(one, holder)
            if isinstance(holder, Ref) and holder.path == ("properties", "principalId"):
                granted.add(ROLES[role][0])
        key = (id(one.scope), str(one.at("properties", "principalId")), str(role))
        if key in seen:
            yield one.problem("role", f"{one.symbol} repeats another assignment; delete one")
        seen.add(key)
        yield from _name(one)
    needed = [*NEEDED, *(["Key Vault Secrets User"] if deployment.of(azure.SECRET) else [])]
    for name in needed:
        if sites and name not in granted:
            where = (assignments or sites)[0]
            yield where.problem("role", f"the app needs the role '{name}'; assign it")
    yield from _order(deployment, sites, assignments)


def _by_function(definition: Any) -> bool:
    """Return whether an id is made by a function or read of a role definition, as it must be."""
    if isinstance(definition, Computed):
        return definition.function in {"subscriptionResourceId", "tenantResourceId"}
    return isinstance(definition, Ref) and definition.of.type == _DEFINITION


def _role_id(one: Deployed) -> Any:
    definition = one.at("properties", "roleDefinitionId")
    if isinstance(definition, Computed) and definition.function.endswith("esourceId"):
        return definition.args[-1] if definition.args else None
    if isinstance(definition, Ref) and definition.of.type == _DEFINITION:
        return definition.of.name if definition.path == ("id",) else None
    return definition


def _scope(one: Deployed, role: str) -> Iterator[Problem]:
    """A role is assigned on the narrowest scope where it has an effect."""
    name, kind = ROLES[role]
    if not isinstance(one.scope, Deployed):
        yield one.problem("role", f"'{name}' needs a scope, the narrowest: a {kind}")
    elif not one.scope.type.startswith(kind):
        yield one.problem("role", f"the scope of '{name}' must be a {kind}, not {one.scope.type}")


def _principal(one: Deployed, holder: Any) -> Iterator[Problem]:
    path = ("properties", "principalId")
    if isinstance(holder, Ref):
        if holder.path != path:
            yield one.problem("role", f"principalId must be a principalId, not {holder}", *path)
        if one.at("properties", "principalType") != "ServicePrincipal":
            message = "the principalType of an identity must be ServicePrincipal"
            yield one.problem("role", message, *path)
    elif not isinstance(holder, Input):
        yield one.problem("role", f"principalId must be an identity's, not {holder!r}", *path)


def _name(one: Deployed) -> Iterator[Problem]:
    """The name is a GUID: the same at each deployment, and different for different assignments."""
    name = one.name
    if isinstance(name, str) and _GUID.fullmatch(name):
        return
    if not isinstance(name, Computed) or name.function != "guid":
        message = f"{one.symbol}: the name of a role assignment must be a guid()"
        yield one.problem("role", message, "name")
        return
    parts = list(leaves(name))
    scoped = any(
        isinstance(part, Ref) and part.path == ("id",) and part.of is one.scope for part in parts
    )
    names_role = any(isinstance(part, str) for part in parts)  # by its id or a name
    contains = {
        "principal": one.at("properties", "principalId") in parts,
        "role": names_role or one.at("properties", "roleDefinitionId") in parts,
        "scope": scoped,
    }
    for what, present in contains.items():
        if not present:
            message = f"the guid() of the name must contain the {what}, or names may collide"
            yield one.problem("role", message, "name")


def _order(
    deployment: EvaluatedFolder, sites: list[Deployed], assignments: list[Deployed]
) -> Iterator[Problem]:
    """The app starts after its roles are assigned, which only `dependsOn` ensures."""
    for site in sites:
        if not {one.file for one in assignments} - {site.file} <= _before(
            site.file, deployment.folder
        ):
            message = "the app must wait for its roles: name their module in dependsOn"
            yield site.problem("role", message)


def _before(file: str, folder: Folder) -> set[str]:
    """Return the files whose modules main.bicep deploys before that of *file*."""
    main = folder.main
    if main is None:
        return set()
    modules = {one.name: one for one in main.declarations if isinstance(one, s.Module)}
    files = {
        name: there.name for name, one in modules.items() if (there := folder.module(main, one))
    }
    needs = {
        name: {node.name for node in s.walk(one, s.Name)} & set(modules)
        for name, one in modules.items()
    }
    of_file = [name for name, there in files.items() if there == file]
    return {files[name] for one in of_file for name in reachable(one, needs) if name in files}
