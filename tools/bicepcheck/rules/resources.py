"""Rules about resources: their types, members, parents and scopes."""

from __future__ import annotations

from collections.abc import Iterator

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.shapes import faults, kind_of, of_resource, suggestion, table
from tools.bicepcheck.evaluation.values import Deployed
from tools.bicepcheck.problems import Problem


def check(deployment: EvaluatedFolder) -> Iterator[Problem]:
    """Compare all resources with the table of resource types."""
    scopes = {file.name: file.scope for file in deployment.folder.readable}
    for one in deployment.resources:
        shape = of_resource(one.type)
        if shape is None:
            message = f"data/resources.json has no type {one.type}{suggestion(one.type, table())}"
            yield one.problem("resource-type", message)
            continue
        yield from _place(one, scopes[one.file])
        if one.existing:
            continue
        for path, code, message in faults(one.body, shape):
            yield one.problem(code, f"{one.symbol}: {message}", *path)


def _place(one: Deployed, scope: str) -> Iterator[Problem]:
    """A child has a parent; others deploy to a scope that their type allows."""
    owner, depth = one.type.rpartition("/")[0], one.type.count("/")
    if one.parent is not None and one.parent.type != owner:
        yield one.problem("parent", f"{one.symbol}: the parent must be a {owner}")
    elif depth > 1 and one.parent is None and str(one.name).count("/") != depth - 1:
        yield one.problem("parent", f"{one.symbol}: {one.type} is a child; set its 'parent'")
    if kind_of(one.scope) == "string":
        yield one.problem("scope", f"{one.symbol}: a scope must be a resource, not a string")
    allowed = table()[one.type]["scope"]
    elsewhere = one.scope is not None or one.parent is not None or one.existing
    if not elsewhere and allowed not in {"any", scope}:
        message = f"{one.type} deploys to a {allowed}, this file to a {scope}"
        yield one.problem("scope", message)
