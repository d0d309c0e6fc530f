"""Checks a folder of templates: loads it, then applies all rules."""

from __future__ import annotations

from pathlib import Path

from tools.bicepcheck.evaluation.scenarios import deployments
from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules import (
    agreement,
    app,
    conditions,
    linter,
    naming,
    network,
    parameters,
    policy,
    queries,
    references,
    roles,
    secrets,
    suppressions,
    usage,
)
from tools.bicepcheck.rules.declarations import Declarations
from tools.bicepcheck.types.declared import Types
from tools.bicepcheck.types.infer import Inference
from tools.bicepcheck.types.schema import prefetch

LIMITS = (
    "what only Azure knows: regions, quotas, names that are taken, the deployer's permissions",
    "the results of queries: they are read for names, not run",
    "values that Azure computes, in expressions that use them",
    "the linter's rules of style, and in azure.yaml everything except the service's name",
)
"""What this checker never checks."""

_OF_FILES = (usage.check, conditions.check, linter.check)
_OF_DEPLOYMENTS = (
    secrets.check,
    policy.check,
    references.check,
    naming.check,
    roles.check,
    agreement.check,
    queries.check,
    network.check,
)


def check(root: Path) -> Report:
    """
    Return the problems of the templates in *root*, which contains `main.bicep`.

    The rules about a deployment need templates without other problems: they come last.

    Raises:
        NoSchemas: the resource types can't be read.
    """
    report = Report(unchecked=set(LIMITS))
    folder = Folder(root, report)
    types = Types(folder)
    resources = [one for file in folder.readable for one in file.all(s.Resource)]
    kinds = {one.type.split("@")[0] for one in resources}
    prefetch(kind for kind in kinds if "." in kind)  # nested ones are named after their parent
    for file in folder.readable:
        Declarations(file, types, Inference(file, types, report)).check()
    for rule in _OF_FILES:
        report.problems.update(rule(folder))
    report.problems.update(parameters.check(folder, types))
    suppressions.apply(folder)
    if report.problems:
        report.unchecked.add("the deployment: the problems above come first")
        return report
    report.problems.update(secrets.check_declarations(folder))
    names = app.of_folder(folder.root, _texts(folder))
    for deployment in deployments(folder, types):
        for of_deployment in _OF_DEPLOYMENTS:
            report.problems.update(of_deployment(deployment, names))
    return report


def _texts(folder: Folder) -> frozenset[str]:
    """Return all string literals and keys in a folder."""
    return frozenset(
        str(node.value if isinstance(node, s.Literal) else node.key)
        for file in folder.readable
        for node in file.nodes
        if isinstance(node, s.Literal | s.Property)
    )
