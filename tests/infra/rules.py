"""All rules of a deployment that is thought through."""

from __future__ import annotations

from tests.infra import app as apps
from tests.infra import (
    hooks,
    naming,
    network_rules,
    policy,
    queries,
    references,
    roles,
    scenarios,
    secrets,
)
from tests.infra import syntax as s
from tests.infra.declared_types import Types
from tests.infra.model import Folder
from tests.infra.problems import Report


def check(folder: Folder, types: Types, report: Report) -> None:
    """Check a folder as it is deployed: once as it comes, once with everything switched on."""
    app = apps.of_folder(folder.root, texts(folder))
    secrets.declared(folder, report)
    for deployment in scenarios.deployments(folder, types):
        secrets.check(deployment, report)
        policy.check([one for one in deployment.resources if not one.existing], report)
        references.check(deployment, report)
        naming.check(deployment, app, report)
        roles.check(deployment, report)
        hooks.check(deployment, app, report)
        queries.check(deployment, app, report)
        network_rules.check(deployment, report)


def texts(folder: Folder) -> frozenset[str]:
    """Return all plain strings and names of members of a folder."""
    found: set[str] = set()
    for file in folder.readable:
        for declaration in file.declarations:
            for node in s.walk(declaration):
                if isinstance(node, s.Literal):
                    found.add(str(node.value))
                elif isinstance(node, s.Property):
                    found.add(str(node.key))
    return frozenset(found)
