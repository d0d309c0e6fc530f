"""Secrets stay secret: how they are passed on, where they may stand, what is made anew."""

from __future__ import annotations

import re
from typing import Any

from tools.bicepcheck.evaluation.deployment import Deployment
from tools.bicepcheck.evaluation.values import Deployed, Given, Made, Ref, leaves
from tools.bicepcheck.problems import Report
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File, Folder
from tools.bicepcheck.types.functions import DEFAULTS_ONLY

_SECRET_FUNCTIONS = ("listKeys", "listAccountSas", "listServiceSas", "listSas", "getSecret")
_SECRET_MEMBERS = frozenset(
    {
        "ConnectionString",
        "InstrumentationKey",
        "primaryKey",
        "primarySharedKey",
        "secondarySharedKey",
    }
)
_SOUNDS_SECRET = re.compile(r"(key|secret|password|connectionString|token|sas)$", re.IGNORECASE)
_NO_SECRET = re.compile(r"(uri|url|name|id|kind|type)$", re.IGNORECASE)


def declared(folder: Folder, report: Report) -> None:
    """Check parameters and outputs, and what modules pass on."""
    for file in folder.readable:
        for param in file.all(s.Param):
            _param(file, param, report)
        for output in file.all(s.Output):
            _output(file, output, report)
        for module in file.all(s.Module):
            _passed(folder, file, module, report)


def check(deployment: Deployment, report: Report) -> None:
    """Check outputs and members that hold secrets."""
    for name, value in deployment.outputs.items():
        if any(secret(leaf) for leaf in leaves(value)):
            report.add("main.bicep", 1, "secret", f"the output {name} tells a secret")
    for one in deployment.resources:
        if one.type == "Microsoft.KeyVault/vaults/secrets" and not one.existing:
            _stored(one, report)
        elif not one.existing and any(
            isinstance(leaf, Given) and leaf.secret for leaf in leaves(one.body)
        ):
            report.add(one.file, one.line, "secret", f"{one.symbol} holds a secret in plain text")
        for leaf in leaves(one.body):
            if isinstance(leaf, Made) and leaf.function in _SECRET_FUNCTIONS:
                report.add(
                    one.file, one.line, "secret", f"{one.symbol} is given a key: {leaf.function}()"
                )


def secret(value: Any) -> bool:
    """Whether a value is a secret."""
    if isinstance(value, Given):
        return value.secret
    return isinstance(value, Ref) and value.path[-1] in _SECRET_MEMBERS


def _marked(one: s.Declaration) -> bool:
    return any(mark.name == "secure" for mark in one.decorators)


def _param(file: File, one: s.Param, report: Report) -> None:
    plain = isinstance(one.type, s.Name) and one.type.name == "string"
    if (
        plain
        and not _marked(one)
        and _SOUNDS_SECRET.search(one.name)
        and not _NO_SECRET.search(one.name)
    ):
        report.add(file.name, one.line, "secret", f"{one.name} sounds secret and lacks @secure()")
    for node in s.walk(one.default) if one.default else ():
        if isinstance(node, s.Call) and node.name in DEFAULTS_ONLY:
            message = f"{one.name}: {node.name}() gives another value at each deployment"
            report.add(file.name, node.line, "changes-each-time", message)


def _output(file: File, one: s.Declaration, report: Report) -> None:
    for node in s.walk(one):
        of_secret = (
            isinstance(node, s.Name) and (found := file.symbols.get(node.name)) and _marked(found)
        )
        keys = isinstance(node, s.Call) and node.name in _SECRET_FUNCTIONS
        member = isinstance(node, s.Member) and node.name in _SECRET_MEMBERS
        if of_secret or keys or member:
            report.add(file.name, node.line, "secret", f"the output {one.name} tells a secret")


def _passed(folder: Folder, file: File, module: s.Module, report: Report) -> None:
    """What a module takes as a secret is one before, and what is one before is taken as one."""
    there = folder.files.get(file.sibling(module.path))
    body = s.loop_parts(module.value)[2]
    params = body.get("params") if isinstance(body, s.Object) else None
    if there is None or params is None or not isinstance(params.value, s.Object):
        return
    for one in params.value.properties:
        asked = there.symbols.get(str(one.key))
        if not isinstance(asked, s.Param):
            continue
        names = {node.name for node in s.walk(one.value) if isinstance(node, s.Name)}
        given = [found for name in names if isinstance(found := file.symbols.get(name), s.Param)]
        from_secret = any(_marked(found) for found in given)
        called = any(
            isinstance(node, s.Call) and node.name == "getSecret" for node in s.walk(one.value)
        )
        if _marked(asked) and not from_secret and not called:
            report.add(file.name, one.line, "secret", f"{one.key} is secret there and not here")
        if from_secret and not _marked(asked):
            report.add(file.name, one.line, "secret", f"{one.key} is secret here and not there")


def _stored(one: Deployed, report: Report) -> None:
    value = one.at("properties", "value")
    if not (isinstance(value, Given) and value.secret):
        line = one.line_of("properties", "value")
        report.add(
            one.file, line, "secret", f"{one.symbol}: a secret comes from a @secure() parameter"
        )
