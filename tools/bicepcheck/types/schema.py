"""Reads the schemas of Azure's resource types from `azmcp`, and caches them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(__file__).resolve().parents[1] / "data"
NOTES = DATA / "types.json"
"""Types that azmcp does not have."""

_TIMEOUT_SECONDS = 60
_UNKNOWN = re.compile(r"not found|Invalid resource type|given key '[^']+' was not present")
_WITHOUT_SCHEMA = re.compile(r"Resource type (\S+) with apiVersion (\S+) not supported")
_NO_TELEMETRY = {"AZURE_MCP_COLLECT_TELEMETRY": "false", "DOTNET_CLI_TELEMETRY_OPTOUT": "1"}


class NoSchemas(Exception):
    """azmcp is not installed, or does not answer."""


@cache
def _program() -> Path:
    packages = ROOT / "node_modules" / "@azure"
    found = [
        path for name in ("azmcp", "azmcp.exe") for path in packages.glob(f"mcp-*/dist/{name}")
    ]
    if not found:
        raise NoSchemas(f"azmcp is not in {packages}: run `make setup` (npm package @azure/mcp)")
    return found[0]


@cache
def _cache_folder() -> Path:
    """Return the folder of cached answers; each version of azmcp has its own."""
    package = json.loads((_program().parents[1] / "package.json").read_text(encoding="utf-8"))
    for parent in (ROOT / ".infra-schemas", Path(tempfile.gettempdir()) / "infra-schemas"):
        folder = parent / f"azmcp-{package['version']}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise NoSchemas("there is no writable folder to cache resource types in")


@cache
def schema(resource_type: str) -> dict[str, Any] | None:
    """
    Return the schema of a resource type: ``resource``, ``types`` by name; ``None``: no such type.

    ``types`` is ``None`` for a type that exists and whose schema azmcp does not have.

    Raises:
        NoSchemas: azmcp can't be asked.
    """
    for name, note in _notes().items():
        if name.split("@")[0].lower() == resource_type.lower():
            return _from_note(name, note)
    cached = _cache_folder() / (resource_type.replace("/", "_") + ".json")
    if cached.exists():
        answer = json.loads(cached.read_text(encoding="utf-8"))
    else:
        answer = ask(resource_type)
        _store(cached, answer)
    return dict(answer) if answer else None


def prefetch(names: Iterable[str]) -> None:
    """Read several schemas in parallel, since azmcp takes a second for each."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(schema, names))


@cache
def _notes() -> dict[str, Any]:
    return {
        name: one
        for name, one in json.loads(NOTES.read_text(encoding="utf-8")).items()
        if name != "about"
    }


@cache
def versions(resource_type: str) -> frozenset[str]:
    """Return the API versions of a type known to exist, similar to the checked one."""
    lists = json.loads((DATA / "versions.json").read_text(encoding="utf-8"))
    prefixes = [name for name in lists if f"{resource_type}/".startswith(f"{name}/")]
    return frozenset(lists[max(prefixes, key=len)] if prefixes else ())


def limitation(resource_type: str) -> str | None:
    """Return what is not checked of a type whose schema azmcp does not have."""
    if any(name.split("@")[0].lower() == resource_type.lower() for name in _notes()):
        return f"compared with {NOTES.name}, as azmcp does not have it"
    answer = schema(resource_type)
    return "its members, as azmcp does not have it" if answer and not answer["types"] else None


def _from_note(name: str, note: dict[str, Any]) -> dict[str, Any]:
    """Return a noted type in azmcp's form."""
    kind, version = name.split("@")
    types = {
        key: _definition(key, one) for key, one in note.items() if key not in {"scopes", "body"}
    }
    body = _definition(kind, note["body"])
    body["properties"] += [
        {"name": "apiVersion", "type": version, "flags": "ReadOnly"},
        {"name": "id", "type": "string", "flags": "ReadOnly"},
        {"name": "name", "type": "string", "flags": "Required"},
        {"name": "type", "type": kind, "flags": "ReadOnly"},
    ]
    resource = {"name": name, "bodyType": body, "writableScopes": note["scopes"]}
    return {"resource": resource, "types": types}


def _definition(name: str, members: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"$type": "Object", "name": name, "properties": []}
    for member, text in members.items():
        if member == "*":
            entry["additionalPropertiesType"] = text
            continue
        kind, _, limits = text.partition(" m") if ": " in text else (text, "", "")
        flags = "Required" if member.endswith("!") else ""
        entry["properties"].append(
            {"name": member.rstrip("!"), "type": kind, "flags": flags, "modifiers": f"m{limits}"}
        )
    return entry


def _store(path: Path, answer: dict[str, Any] | None) -> None:
    """Write the file atomically: several checks may run at the same time."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, suffix=".new", delete=False
    ) as new:
        json.dump(answer, new, separators=(",", ":"))
    Path(new.name).replace(path)


def ask(resource_type: str) -> dict[str, Any] | None:
    """Return azmcp's answer, shortened; ``None``: there is no such type."""
    print(f"reading {resource_type} …", file=sys.stderr)
    program = _program()
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    with tempfile.TemporaryDirectory() as home:
        try:
            done = subprocess.run(
                [str(program), "bicepschema", "get", "--resource-type", resource_type],
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=_TIMEOUT_SECONDS,
                check=False,
                env={**os.environ, **_NO_TELEMETRY, "HOME": home},
            )
            answer = json.loads(done.stdout[done.stdout.index("{") :])
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            raise NoSchemas(f"azmcp did not answer for {resource_type}: {error}") from error
    if answer["status"] == 200:
        return _shortened(answer["results"]["BicepSchemaResult"], resource_type)
    message = str(answer.get("message"))
    if _UNKNOWN.search(message):
        return None
    if found := _WITHOUT_SCHEMA.search(message):
        return {"resource": {"name": f"{found[1]}@{found[2]}"}, "types": None}
    raise NoSchemas(f"azmcp has no answer for {resource_type}: {message}")


def _shortened(entries: list[dict[str, Any]], resource_type: str) -> dict[str, Any] | None:
    objects = ("Object", "DiscriminatedObject")
    types = {one["name"]: _undescribed(one) for one in entries if one["$type"] in objects}
    for one in entries:
        if (
            one["$type"] == "Resource"
            and one["name"].split("@")[0].lower() == resource_type.lower()
        ):
            return {"resource": _undescribed(one), "types": types}
    return None


def _undescribed(value: Any) -> Any:
    """Return a schema without its descriptions."""
    if isinstance(value, dict):
        return {key: _undescribed(one) for key, one in value.items() if key != "description"}
    return [_undescribed(one) for one in value] if isinstance(value, list) else value
