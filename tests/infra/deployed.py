"""
Reads what the compiler has made of the templates, and what is committed beside it.

A snapshot has every value that is known before a deployment, and expressions for the others. What
public Azure makes of an expression is put together here as far as it is known.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
#: How public Azure ends the addresses of its services.
SUFFIXES = {"storage": "core.windows.net", "keyvaultDns": ".vault.azure.net"}


@cache
def text_of(path: str) -> str:
    """Return a file of the project, such as `azure.yaml`."""
    return (ROOT / path).read_text()


def table(name: str) -> Any:
    """Return a table that lies beside this module."""
    return json.loads(text_of(f"tests/infra/{name}.json"))


def documents() -> dict[str, Any]:
    """Return all that is committed: by name, and in `given` the parameters of each snapshot."""
    linter = re.sub(r"(?m)^\s*//.*", "", text_of("infra/bicepconfig.json"))
    disabled = [p.name for p in (ROOT / "infra").rglob("*.bicep") if "#disable" in p.read_text()]
    functions = sorted(ROOT.glob("*_function/function.json"))
    found: dict[str, Any] = {
        "main": json.loads(text_of("infra/tests/main.json")),
        "parameters": json.loads(text_of("infra/main.parameters.json")),
        "linter": json.loads(linter)["analyzers"]["core"] | {"disabled in": disabled},
        "azd": yaml.safe_load(text_of("azure.yaml")),
        "functions": {path.parent.name: json.loads(path.read_text()) for path in functions},
        "given": {},
    }
    for path in sorted((ROOT / "infra/tests").glob("*.bicepparam")):
        name, text = path.stem, path.read_text()
        found[name] = json.loads(path.with_suffix(".snapshot.json").read_text())
        # A literal of Bicep is one of JSON, but for its quotes.
        given = re.findall(r"^param (\w+) = ('.*'|[\w-]+)$", text, re.MULTILINE)
        found["given"][name] = {each: json.loads(of.replace("'", '"')) for each, of in given}
    return found


def evaluated(node: Any) -> Any:
    """Return a part of a snapshot with what is known of its expressions."""
    if isinstance(node, dict):
        return {evaluated(name): evaluated(each) for name, each in node.items()}
    if isinstance(node, list):
        return [evaluated(each) for each in node]
    if not isinstance(node, str) or not node.startswith("["):
        return node
    try:
        return _value(ast.parse(node[1:-1], mode="eval").body)
    except SyntaxError:  # a lambda, in the id of a zone's link
        return node


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Attribute(value=of, attr=name):
            base = _value(of)
            return SUFFIXES[name] if base == "environment().suffixes" else f"{base}.{name}"
        case ast.Call(func=ast.Name(id=name), args=args):
            values = [_value(each) for each in args]
            call = _CALLS.get(name)
            return call(*values) if call else f"{name}({', '.join(map(str, values))})"
    return ast.unparse(node)


_CALLS: Mapping[str, Callable[..., Any]] = {
    "createArray": lambda *values: values,
    "extensionResourceId": lambda scope, kind, name: f"{scope}/providers/{kind}/{name}",
    "format": str.format,
    "join": lambda texts, between: between.join(texts),
    "reference": lambda resource, _version: f"reference({resource})",
    "replace": str.replace,
    # Of a module: the symbol, from which its deployment is named.
    "resourceId": lambda *parts: parts[-1].partition("-uniqueString(")[0],
}


@dataclass(frozen=True)
class Resource:
    """A resource that would be deployed."""

    id: str
    type: str
    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The last part of its name, without those of its parents."""
        name = str(self.document["name"])
        return name if name.startswith("guid(") else name.rpartition("/")[2]

    @property
    def scope(self) -> str:
        """The id of what it extends."""
        return self.id.partition(f"/providers/{self.type}/")[0]

    @property
    def role(self) -> str:
        """The id of the role that it assigns."""
        return str(self.at("properties.roleDefinitionId")).rpartition("/")[2]

    def at(self, path: str) -> Any:
        """Return the value at a path with dots, `None` if it is missing; a number is an index."""
        node: Any = self.document
        for step in path.split("."):
            try:
                node = node[int(step) if isinstance(node, list) else step]
            except (KeyError, IndexError, TypeError):
                return None
        return node


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What one set of parameters deploys."""

    #: The values of all parameters but the secret one.
    given: Mapping[str, Any]
    resources: list[Resource]
    outputs: Mapping[str, Any]

    def of(self, kind: str) -> list[Resource]:
        """Return the resources whose type is, or ends with, *kind*."""
        return [each for each in self.resources if each.type.endswith(kind)]

    def one(self, kind: str) -> Resource:
        """Return the only one; if it is missing, one without members."""
        (found,) = self.of(kind) or [Resource("", kind, {"name": ""})]
        return found

    def names(self, kind: str) -> list[str]:
        return [each.name for each in self.of(kind)]

    @cached_property
    def settings(self) -> dict[str, Any]:
        return dict(self.one("Web/sites/config").at("properties"))

    @cached_property
    def ids(self) -> dict[str, str]:
        """The ids of resources of which there is one, or none."""
        identities = (each.id for each in self.of("/userAssignedIdentities"))
        app, package = sorted(identities, key=lambda each: "-package-" in each)
        kinds = table("azure")["one or none"].items()
        found = {name: "".join(each.id for each in self.of(kind)) for name, kind in kinds}
        return found | {"identity": app, "package_identity": package}

    @property
    def dead_letter_accounts(self) -> list[str]:
        ids = self.given["deadletterAccountIds"].split(",")
        return [each.strip() for each in ids if each.strip()]

    @property
    def package_container(self) -> str:
        """The container of the deployed package, as it must be: in the app's account."""
        path = "properties.functionAppConfig.deployment.storage.value"
        endpoint = f"reference({self.ids['account']}).primaryEndpoints.blob"
        return str(self.one("Web/sites").at(path)).removeprefix(endpoint)


@cache
def snapshot(document: str, given: str) -> Snapshot:
    """Return a snapshot of its text; the same one each time, so that a rule looks at it once."""
    found = evaluated(json.loads(document))
    resources = [Resource(each["id"], each["type"], each) for each in found["predictedResources"]]
    return Snapshot(given=json.loads(given), resources=resources, outputs=found["outputs"])


class Deployment:
    """The compiled template, and the snapshots of what it deploys."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.main: Mapping[str, Any] = given["main"]
        self.parameters: Mapping[str, Any] = self.main["parameters"]
        self.parameters_file: Mapping[str, Any] = given["parameters"]["parameters"]
        self.linter, self.azd, self.functions = given["linter"], given["azd"], given["functions"]
        #: By symbol.
        self.modules: Mapping[str, Any] = self.main["resources"]
        defaults = {name: each.get("defaultValue") for name, each in self.parameters.items()}
        self.snapshots = {
            name: snapshot(json.dumps(given[name]), json.dumps(defaults | values))
            for name, values in given["given"].items()
        }


#: Each yields what is wrong, in words.
RULES: dict[str, Callable[[Deployment], Iterable[str]]] = {}


def rule(check: Callable[[Any], Iterable[str]]) -> None:
    """Add a rule about a *deployment*, or about a *snapshot*: then each has to keep it."""
    once = cache(lambda snapshot: tuple(check(snapshot)))

    def check_all(deployment: Deployment) -> Iterator[str]:
        for name, each in deployment.snapshots.items():
            yield from (f"{name}: {fault}" for fault in once(each))

    RULES[check.__name__] = check_all if "snapshot" in check.__annotations__ else check


def differences(what: str, found: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    """Yield names that only one side has."""
    found, wanted = set(found), set(wanted)
    yield from (f"{what} {name} is missing" for name in sorted(wanted - found))
    yield from (f"nothing uses the {what} {name}" for name in sorted(found - wanted))


def unequal(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield what has another value than it should have, or none."""
    for name, value in wanted.items():
        if found.get(name) != value:
            yield f"{name} is {found.get(name)!r}, and should be {value!r}"
