"""Rules about secrets: how they are passed on, where they may be stored, what reveals them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.bicepcheck.evaluation.evaluated_folder import EvaluatedFolder
from tools.bicepcheck.evaluation.values import Computed, Deployed, Input, Ref, leaves
from tools.bicepcheck.problems import Problem
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.rules import azure
from tools.bicepcheck.rules.names_in_code import App

_SECRET_FUNCTIONS = ("listKeys", "listAccountSas", "listServiceSas", "listSas", "getSecret")
_SECRET_MEMBERS = (
    "ConnectionString",
    "InstrumentationKey",
    "primaryKey",
    "primarySharedKey",
    "secondarySharedKey",
)
_SECRET_NAME = re.compile(r"(key|secret|password|connectionString|token|sas)$", re.IGNORECASE)


def check_declarations(folder: Folder) -> Iterator[Problem]:
    """Check parameters, and what modules receive."""
    for file in folder.readable:
        for call in file.all(s.Invocation):
            if call.name in {"newGuid", "utcNow"}:
                message = f"{call.name}() changes at each deployment; use a fixed value"
                yield file.problem(call, "changes-each-time", message)
        for param in file.all(s.Param):
            yield from _param(file, param)
        for module in file.all(s.Module):
            yield from _module(folder, file, module)


def check(deployment: EvaluatedFolder, _app: App) -> Iterator[Problem]:
    """Check outputs and members that contain secrets."""
    for name, value in deployment.outputs.items():
        if any(map(_is_secret, leaves(value))):
            message = f"the output '{name}' reveals a secret; delete it"
            yield Problem("main.bicep", 1, "secret", message)
    for one in deployment.deployed:
        yield from _resource(one)


def _is_secret(value: object) -> bool:
    if isinstance(value, Input):
        return value.secret
    return isinstance(value, Ref) and value.path[-1] in _SECRET_MEMBERS


def _resource(one: Deployed) -> Iterator[Problem]:
    values = list(leaves(one.body))
    if one.type == azure.SECRET:
        stored = one.at("properties", "value")
        if not (isinstance(stored, Input) and stored.secret):
            message = f"{one.symbol}: the value of a secret must be a @secure() parameter"
            yield one.problem("secret", message, "properties", "value")
    elif any(isinstance(leaf, Input) and leaf.secret for leaf in values):
        yield one.problem("secret", f"{one.symbol} contains a secret in plain text")
    for leaf in values:
        if isinstance(leaf, Computed) and leaf.function in _SECRET_FUNCTIONS:
            message = f"{one.symbol} contains a key, from {leaf.function}(); use an identity"
            yield one.problem("secret", message)


def _param(file: File, one: s.Param) -> Iterator[Problem]:
    text = isinstance(one.type, s.Name) and one.type.name == "string"
    if text and not one.has("secure") and _SECRET_NAME.search(one.name):
        message = f"'{one.name}' has the name of a secret; mark it with @secure()"
        yield file.problem(one, "secret", message)
    empty = isinstance(one.default, s.Literal) and one.default.value == ""
    if one.has("secure") and one.default is not None and not empty:
        message = f"the secret '{one.name}' has a default, which anyone can read; delete it"
        yield file.problem(one, "secret-default", message)


def _module(folder: Folder, file: File, module: s.Module) -> Iterator[Problem]:
    """A parameter that receives a secret is @secure(), and receives nothing else."""
    there, params = folder.module(file, module), module.property("params")
    if there is None or params is None or not isinstance(params.value, s.Object):
        return
    for one in params.value.properties:
        param = there.symbols.get(str(one.key))
        if not isinstance(param, s.Param):
            continue
        given = [file.symbols.get(node.name) for node in s.walk(one.value, s.Name)]
        from_secret = any(isinstance(found, s.Param) and found.has("secure") for found in given)
        from_vault = any(call.name == "getSecret" for call in s.walk(one.value, s.Invocation))
        if param.has("secure") and not from_secret and not from_vault:
            message = f"'{one.key}' is @secure() in {there.name}; pass it a @secure() parameter"
            yield file.problem(one, "secret", message)
        if from_secret and not param.has("secure"):
            message = f"'{one.key}' receives a secret; mark it with @secure() in {there.name}"
            yield file.problem(one, "secret", message)
