"""Cold starts: what importing a function costs, and what it must not pull in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*_function/function.json"))
BUDGET = 1.65  # times the function calls that importing the SDKs makes: these never vary
HEAVY = (
    "pydantic",
    "aiohttp",
    "jsonschema",
    "azure.identity",
    "uvicorn",
    "msal",
    "jwt",
    "cryptography",
)

BUILT_BY = {  # what a function's first call builds of the app; of several areas, for each
    "publish_function": "app.publish",
    "publish_namespace_function": "app.publish",
    "manage_function": "app.manage",
    "web_function providers": "app.manage",
    "web_function adfs": "app.az_login",
    "web_function metadata": "app.az_login",
    "deliver_function": "delivering",
    "retry_function": "delivering",
    "web_function console": "console_files",
    "web_function status": "app.status",
    "web_function validate": "app.validate",
    "web_function topics": "app.publish",
    "wake_function": "app.wake_timer",
    "deadletter_function": "app.deadletter_timer",
}
SETTINGS = {  # as on Azure: who we are is looked up when storage is first asked
    "AzureWebJobsStorage__accountName": "acc",
    "AzureWebJobsStorage__credential": "managedidentity",
    "PUSHGRID_WAKE_SCHEDULE": "0 * * * * *",
    "PUSHGRID_DEADLETTER_SCHEDULE": "0 * * * * *",
    "PUSHGRID_ENTRA_TENANT": "11111111-2222-3333-4444-555555555555",  # read when a token comes
}

# Each function has a process of its own, which begins where the SDKs have been imported.
_MEASURE = """
import json, os, sys
from importlib import import_module
from operator import attrgetter
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
built_by = json.loads(sys.argv[1])
sys.setprofile(count)
import azure.functions, azure.data.tables
sdks = calls
for folder, use_case in built_by.items():
    if os.fork():
        os.wait()
        continue
    import_module(folder.split()[0])
    attrgetter(use_case)(import_module("shared.wiring.function_app").APP)
    print(json.dumps([folder, calls / sdks, list(sys.modules)]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[float, list[str]]]:
    """For each function, how much is called and which modules are imported by its first call."""
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE, json.dumps(BUILT_BY)],
        cwd=ROOT,
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = map(json.loads, run.stdout.splitlines())
    return {folder: (ratio, modules) for folder, ratio, modules in lines}


def test_every_function_is_measured():
    assert sorted({each.split()[0] for each in BUILT_BY}) == FOLDERS


@pytest.mark.parametrize("folder", BUILT_BY)
def test_importing_a_function_and_building_its_use_case_is_cheap(
    measured: dict[str, tuple[float, list[str]]], folder: str
):
    ratio, modules = measured[folder]

    assert ratio < BUDGET
    assert [name for name in HEAVY if name in modules] == []
