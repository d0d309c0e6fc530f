"""Who may do what: roles by id, where they are granted, and which the app can't do without."""

from __future__ import annotations

import re
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Deployed, Given, Lined, Made, Ref, leaves
from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder

_STORAGE = "Microsoft.Storage/storageAccounts"
_BLOB, _QUEUE, _TABLE = (f"{_STORAGE}/{one}Services" for one in ("blob", "queue", "table"))
_INSIGHTS = "Microsoft.Insights/components"
_VAULT = "Microsoft.KeyVault/vaults"
_DEFINITION = "Microsoft.Authorization/roleDefinitions"
_ASSIGNMENT = "Microsoft.Authorization/roleAssignments"

ROLES = {
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": ("Storage Blob Data Owner", _BLOB),
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": ("Storage Blob Data Contributor", _BLOB),
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": ("Storage Blob Data Reader", _BLOB),
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": ("Storage Queue Data Contributor", _QUEUE),
    "19e7f393-937e-4f77-808e-94535e297925": ("Storage Queue Data Reader", _QUEUE),
    "8a0f0c08-91a1-4084-bc3d-661d67233fed": ("Storage Queue Data Message Processor", _QUEUE),
    "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a": ("Storage Queue Data Message Sender", _QUEUE),
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": ("Storage Table Data Contributor", _TABLE),
    "76199698-9eea-4c19-bc75-cec21354c6b6": ("Storage Table Data Reader", _TABLE),
    "3913510d-42f4-4e42-8a64-420c390055eb": ("Monitoring Metrics Publisher", _INSIGHTS),
    "4633458b-17de-408a-b874-0445c86b69e6": ("Key Vault Secrets User", _VAULT),
}
"""Name, and the narrowest thing it is granted on; from Azure's list of built-in roles."""

NEEDED = (
    "Storage Blob Data Owner",
    "Storage Queue Data Contributor",
    "Storage Table Data Contributor",
    "Monitoring Metrics Publisher",
)
"""Of the app: its host keeps locks in blobs; the app puts messages back and makes tables."""

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check(deployment: Deployment, report: Report) -> None:
    """Check the role assignments of a deployment."""
    granted: set[str] = set()
    seen: dict[Any, Deployed] = {}
    for one in deployment.of(_ASSIGNMENT):
        if role := _role(one, report):
            _place(one, role, report)
            if _holder(one, report):
                granted.add(ROLES[role][0])
        key = (id(one.scope), str(one.at("properties", "principalId")), str(_id(one)))
        if key in seen:
            report.add(one.file, one.line, "role", f"{one.symbol}: the same is granted twice")
        seen[key] = one
        _name(one, report)
    needed = [*NEEDED, *(["Key Vault Secrets User"] if deployment.of(f"{_VAULT}/secrets") else [])]
    sites = deployment.of("Microsoft.Web/sites")
    for name in needed:
        if sites and name not in granted:
            where = next(iter(deployment.of(_ASSIGNMENT)), sites[0])
            report.add(where.file, where.line, "role", f"the app is not given '{name}'")
    _waits(deployment, report)
    _table(deployment, report)


def _id(one: Deployed) -> Any:
    definition = one.at("properties", "roleDefinitionId")
    if isinstance(definition, Made) and definition.function.endswith("esourceId"):
        return definition.args[-1] if definition.args else None
    if isinstance(definition, Ref) and definition.of.type == _DEFINITION:
        return definition.of.name if definition.path == ("id",) else None
    return definition


def _role(one: Deployed, report: Report) -> str | None:
    """Return the id of the role, if it is a known one."""
    definition = one.at("properties", "roleDefinitionId")
    line = one.line_of("properties", "roleDefinitionId")
    called = isinstance(definition, Made) and definition.function in {
        "subscriptionResourceId",
        "tenantResourceId",
    }
    if not called and not (isinstance(definition, Ref) and definition.of.type == _DEFINITION):
        report.add(one.file, line, "role", "roleDefinitionId is made by subscriptionResourceId()")
        return None
    if called and definition.args[0] != _DEFINITION:
        report.add(one.file, line, "role", f"{definition.args[0]!r} is no role definition")
    role = _id(one)
    if role not in ROLES:
        report.add(
            one.file, line, "role", f"{one.symbol}: {role!r} is the id of no role known here"
        )
        return None
    return str(role)


def _place(one: Deployed, role: str, report: Report) -> None:
    """A role is granted where it is of use, and not above."""
    name, asked = ROLES[role]
    if not isinstance(one.scope, Deployed):
        report.add(
            one.file, one.line, "role", f"'{name}' is granted on more than {asked}: no scope"
        )
    elif not one.scope.type.startswith(asked):
        message = f"'{name}' is of no use on {one.scope.type}, or too much: {asked}"
        report.add(one.file, one.line, "role", message)


def _holder(one: Deployed, report: Report) -> bool:
    """Return whether the app holds it."""
    holder = one.at("properties", "principalId")
    kind = one.at("properties", "principalType")
    line = one.line_of("properties", "principalId")
    if isinstance(holder, Ref):
        right = holder.path == ("properties", "principalId")
        if not right:
            report.add(one.file, line, "role", f"a role is granted to a principalId, not {holder}")
        if kind != "ServicePrincipal":
            report.add(one.file, line, "role", "an identity is a ServicePrincipal")
        return right
    if not isinstance(holder, Given):
        report.add(one.file, line, "role", f"a role is granted to nobody: {holder!r}")
    return False


def _name(one: Deployed, report: Report) -> None:
    """The name is a GUID that is the same at the next deployment, and another for another grant."""
    line = one.line_of("name")
    name = one.name
    if isinstance(name, str) and _GUID.fullmatch(name):
        return
    if not isinstance(name, Made) or name.function != "guid":
        report.add(
            one.file, line, "role", f"{one.symbol}: the name of a role assignment is a guid()"
        )
        return
    held = list(leaves(name))
    if one.at("properties", "principalId") not in held:
        report.add(one.file, line, "role", "the name is not told apart by the principal")
    fixed = any(isinstance(part, str) for part in held)  # the role, by its id or a name
    if not fixed and one.at("properties", "roleDefinitionId") not in held:
        report.add(one.file, line, "role", "the name is not told apart by the role")
    scopes = [part for part in held if isinstance(part, Ref) and part.path == ("id",)]
    if not any(part.of is one.scope for part in scopes):
        report.add(one.file, line, "role", "the name is not told apart by the scope")


def _table(deployment: Deployment, report: Report) -> None:
    """Check rows that name a role and give its id: the name is for the reader, and must be true."""
    by_name = {name: role for role, (name, _) in ROLES.items()}
    for environment in deployment.modules.values():
        for symbol in environment.file.symbols:
            value = environment.symbol(symbol)
            for row in value if isinstance(value, list) else [value]:
                if isinstance(row, Lined):
                    _row(row, by_name, environment.file.name, report)


def _row(row: Lined, by_name: dict[str, str], file: str, report: Report) -> None:
    names = [value for value in row.values() if isinstance(value, str) and value in by_name]
    ids = [value for value in row.values() if isinstance(value, str) and _GUID.fullmatch(value)]
    for name in names:
        if ids and by_name[name] not in ids:
            report.add(file, row.line, "role", f"{ids[0]} is not '{name}'")
    if ids and not names and ids[0] in ROLES:
        texts = [key for key, value in row.items() if isinstance(value, str) and " " in value]
        if texts:
            report.add(file, row.line, "role", f"'{row[texts[0]]}' is not the name of {ids[0]}")


def _waits(deployment: Deployment, report: Report) -> None:
    """The app starts after its roles are there: nothing but `dependsOn` says so."""
    for site in deployment.of("Microsoft.Web/sites"):
        there = {one.file for one in deployment.of(_ASSIGNMENT)} - {site.file}
        if not there <= _before(site.file, deployment.folder):
            report.add(
                site.file, site.line, "role", "the app does not wait for its roles (dependsOn)"
            )


def _before(file: str, folder: Folder) -> set[str]:
    """Return the files whose modules main.bicep deploys before that of *file*."""
    main = folder.main
    if main is None:
        return set()
    modules = {one.name: one for one in main.declarations if isinstance(one, s.Module)}
    needs = {
        name: {node.name for node in s.walk(one) if isinstance(node, s.Name)} & set(modules)
        for name, one in modules.items()
    }
    files = {name: folder.files.get(main.sibling(one.path)) for name, one in modules.items()}
    todo = [name for name, there in files.items() if there and there.name == file]
    found: set[str] = set()
    while todo:
        new = needs[todo.pop()] - found
        found |= new
        todo += new
    return {there.name for name in found if (there := files[name])}
