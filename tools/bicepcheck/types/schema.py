"""What Azure's resource types look like: asked of `azmcp` once each, and kept in a folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OWN = Path(__file__).parents[1].joinpath("data") / "types.json"
"""Types that azmcp does not have."""
VERSIONS = Path(__file__).parents[1].joinpath("data") / "versions.json"
"""Versions that exist besides those that are checked."""

_SECONDS = 60
_NO_SUCH = re.compile(r"not found|Invalid resource type|given key '[^']+' was not present")
_NOT_HELD = re.compile(r"Resource type (\S+) with apiVersion (\S+) not supported")
_QUIET = {"AZURE_MCP_COLLECT_TELEMETRY": "false", "DOTNET_CLI_TELEMETRY_OPTOUT": "1"}


class NoSchemas(Exception):
    """azmcp is not installed, or does not answer."""


@cache
def _program() -> Path:
    packages = ROOT / "node_modules" / "@azure"
    names = ("azmcp", "azmcp.exe")
    found = [path for name in names for path in packages.glob(f"mcp-*/dist/{name}")]
    if not found:
        raise NoSchemas(f"azmcp is not in {packages}: run `make setup` (npm package @azure/mcp)")
    return found[0]


@cache
def _kept() -> Path:
    """Return the folder of answers; each version of azmcp has its own."""
    package = json.loads((_program().parents[1] / "package.json").read_text(encoding="utf-8"))
    name = f"azmcp-{package['version']}"
    for parent in (ROOT / ".infra-schemas", Path(tempfile.gettempdir()) / "infra-schemas"):
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise NoSchemas("there is no folder to keep resource types in")


@cache
def raw(resource_type: str) -> dict[str, Any] | None:
    """
    Return what is known of a resource type: ``resource``, ``types`` by name; ``None``: nothing.

    Of a type that exists and is not held ``types`` is ``None``.

    Raises:
        NoSchemas: azmcp can't be asked.
    """
    for name, own in _own().items():
        if name.split("@")[0].lower() == resource_type.lower():
            return _expanded(name, own)
    kept = _kept() / (resource_type.replace("/", "_") + ".json")
    if kept.exists():
        answer = json.loads(kept.read_text(encoding="utf-8"))
    else:
        answer = _ask(resource_type)
        _keep(kept, answer)
    return dict(answer) if answer else None


@cache
def _own() -> dict[str, Any]:
    types = json.loads(OWN.read_text(encoding="utf-8"))
    return {name: one for name, one in types.items() if name != "about"}


@cache
def versions(resource_type: str) -> frozenset[str]:
    """Return the versions of a type that are known to exist and to be like the checked one."""
    lists = json.loads(VERSIONS.read_text(encoding="utf-8"))
    fitting = [name for name in lists if f"{resource_type}/".startswith(f"{name}/")]
    return frozenset(lists[max(fitting, key=len)] if fitting else ())


def note(resource_type: str) -> str | None:
    """Return what is to be said of a type that azmcp does not hold."""
    if any(name.split("@")[0].lower() == resource_type.lower() for name in _own()):
        return f"compared with {OWN.name}, as azmcp does not hold it"
    answer = raw(resource_type)
    return "its members, as azmcp does not hold it" if answer and not answer["types"] else None


def _expanded(name: str, own: dict[str, Any]) -> dict[str, Any]:
    """Return an own type in azmcp's form."""
    kind, version = name.split("@")
    always = [
        {"name": "apiVersion", "type": version, "flags": "ReadOnly"},
        {"name": "id", "type": "string", "flags": "ReadOnly"},
        {"name": "name", "type": "string", "flags": "Required"},
        {"name": "type", "type": kind, "flags": "ReadOnly"},
    ]

    def expand(key: str, members: dict[str, str]) -> dict[str, Any]:
        entry: dict[str, Any] = {"$type": "Object", "name": key, "properties": []}
        for member, text in members.items():
            if member == "*":
                entry["additionalPropertiesType"] = text
                continue
            at = text.find(" m")
            bare, limits = (text[:at], text[at + 1 :]) if ": " in text else (text, "")
            flags = "Required" if member.endswith("!") else ""
            entry["properties"].append(
                {"name": member.rstrip("!"), "type": bare, "flags": flags, "modifiers": limits}
            )
        return entry

    types = {key: expand(key, one) for key, one in own.items() if key not in {"scopes", "body"}}
    body = expand(kind, own["body"])
    body["properties"] += always
    resource = {"name": name, "bodyType": body, "writableScopes": own["scopes"]}
    return {"resource": resource, "types": types}


def _keep(path: Path, answer: dict[str, Any] | None) -> None:
    """Write whole or not at all: several checks may run at the same time."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, suffix=".new", delete=False
    ) as new:
        json.dump(answer, new, separators=(",", ":"))
    Path(new.name).replace(path)


def _ask(resource_type: str) -> dict[str, Any] | None:
    print(f"reading {resource_type} …", file=sys.stderr)
    command = [str(_program()), "bicepschema", "get", "--resource-type", resource_type]
    program = _program()
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    with tempfile.TemporaryDirectory() as home:
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=_SECONDS,
                check=False,
                env={**os.environ, **_QUIET, "HOME": home},
            )
            text = done.stdout
            answer = json.loads(text[text.index("{") :])
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            raise NoSchemas(f"azmcp did not answer for {resource_type}: {error}") from error
    if answer["status"] == 200:
        return _compact(answer["results"]["BicepSchemaResult"], resource_type)
    said = str(answer.get("message"))
    if _NO_SUCH.search(said):
        return None
    if found := _NOT_HELD.search(said):
        return {"resource": {"name": f"{found[1]}@{found[2]}"}, "types": None}
    raise NoSchemas(f"azmcp has no answer for {resource_type}: {said}")


def _compact(entries: list[dict[str, Any]], resource_type: str) -> dict[str, Any] | None:
    resource: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for entry in entries:
        if entry["$type"] == "Resource":
            if entry["name"].split("@")[0].lower() == resource_type.lower():
                resource = entry
        elif entry["$type"] in {"Object", "DiscriminatedObject"}:
            types[entry["name"]] = entry
    if not resource:
        return None
    return {"resource": _bare(resource), "types": {name: _bare(one) for name, one in types.items()}}


def _bare(value: Any) -> Any:
    """Return a schema without its prose."""
    if isinstance(value, dict):
        return {key: _bare(one) for key, one in value.items() if key != "description"}
    return [_bare(one) for one in value] if isinstance(value, list) else value
