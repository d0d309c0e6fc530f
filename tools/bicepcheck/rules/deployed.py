"""All rules of a deployment that is thought through."""

from __future__ import annotations

from tools.bicepcheck.evaluation import scenarios
from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules import agreement as hooks
from tools.bicepcheck.rules import app as apps
from tools.bicepcheck.rules import naming, policy, queries, references, roles, secrets
from tools.bicepcheck.rules import network as network_rules
from tools.bicepcheck.types.declared import Types


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
