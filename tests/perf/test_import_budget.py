"""Cold starts: what importing a function costs, and what it must not pull in."""

from __future__ import annotations

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

BUILT_BY = {  # what a function's first call builds
    "publish_function": ("publishing", "publish"),
    "publish_namespace_function": ("publishing", "publish"),
    "manage_function": ("managing", "manage"),
    "providers_function": ("managing", "manage"),
    "login_function": ("managing", "az_login"),
    "metadata_function": ("managing", "az_login"),
    "deliver_function": ("delivering", "deliver"),
    "retry_function": ("delivering", "deliver"),
    "console_function": ("operations", "console_files"),
    "status_function": ("operations", "status"),
    "validate_function": ("managing", "validate"),
    "wake_function": ("timers", "wake"),
    "deadletter_function": ("timers", "deadletter_timer"),
}
SETTINGS = {  # as on Azure: who we are is looked up when storage is first asked
    "AzureWebJobsStorage__accountName": "acc",
    "AzureWebJobsStorage__credential": "managedidentity",
    "PUSHGRID_WAKE_SCHEDULE": "0 * * * * *",
    "PUSHGRID_DEADLETTER_SCHEDULE": "0 * * * * *",
    "PUSHGRID_ENTRA_TENANT": "11111111-2222-3333-4444-555555555555",  # read when a token comes
}

_MEASURE = """
import sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
sys.setprofile(count)
import azure.functions, azure.data.tables
sdks = calls
import {folder}
from shared.wiring import {module}
{module}.{use_case}()
print(calls / sdks)
print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("folder", FOLDERS)
def test_importing_a_function_and_building_its_use_case_is_cheap(folder: str):
    module, use_case = BUILT_BY[folder]
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE.format(folder=folder, module=module, use_case=use_case)],
        cwd=ROOT,
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
        check=True,
    )
    ratio, modules = run.stdout.splitlines()

    assert float(ratio) < BUDGET
    assert [name for name in HEAVY if name in modules.split()] == []
