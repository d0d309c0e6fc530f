"""The app with wrong settings: the local host ends, on Azure every answer says what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WRONG = {
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    "PUSHGRID_PROFILE": "nope",
    "PUSHGRID_WEBHOOK_CLIENT_ID": "a misplaced s3cret",
}
WHY = (
    "the app can't start: InvalidSettings: "
    "PUSHGRID_PROFILE: not one of 2017, 2019, 2020, 2023, latest, ns; "
    "PUSHGRID_WEBHOOK_CLIENT_ID: not the id of an application: "
    "use its GUID"
)
# What the worker does: import the folder's module, then call its function.
ASK = """
import asyncio, importlib, json, logging, sys
import azure.functions as func
logging.basicConfig(format="%(levelname)s %(message)s")
folder, method, path, params = sys.argv[1:]
main = importlib.import_module(folder).main
request = func.HttpRequest(method, "https://app.example" + path, headers={}, params={},
    route_params=json.loads(params), body=b"[]")
for _ in range(2):
    last = main(request)
    if asyncio.iscoroutine(last):
        last = asyncio.run(last)
print(json.dumps([last.status_code, dict(last.headers), last.get_body().decode()]))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | WRONG,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ask(
    folder: str, method: str, path: str, params: dict[str, str]
) -> tuple[int, dict[str, str], Any, str]:
    asked = run("-c", ASK, folder, method, path, json.dumps(params))
    assert asked.returncode == 0, asked.stderr
    status, headers, body = json.loads(asked.stdout)
    return status, headers, json.loads(body), asked.stderr


def test_the_local_host_ends_with_one_line() -> None:
    host = run("-m", "devhost", "--port", "0")

    assert (host.returncode, "ready" in host.stdout) == (1, False)
    assert host.stderr == f"devhost: {WHY}\n"


def test_dev_says_once_what_is_wrong() -> None:
    dev = run("-m", "cli", "dev", "--port", "0")

    assert (dev.returncode, dev.stderr) == (1, f"pushgrid: {WHY}\n")
    assert "InvalidSettings" not in dev.stdout


@pytest.mark.parametrize(
    ("folder", "method", "path", "params"),
    [
        ("publish_function", "POST", "/topics/orders/api/events", {"topic": "orders"}),
        (
            "publish_namespace_function",
            "POST",
            "/namespaces/shop/topics/orders:publish",
            {"namespace": "shop", "action": "orders:publish"},
        ),
        ("manage_function", "PUT", "/subscriptions/s1", {"path": "s1"}),
        ("providers_function", "GET", "/providers/Microsoft.EventGrid", {}),
        ("login_function", "POST", "/adfs/oauth2/token", {"path": "oauth2/token"}),
        ("metadata_function", "GET", "/metadata/endpoints", {}),
        ("validate_function", "GET", "/validate/a.b.c", {"id": "a.b.c"}),
        ("status_function", "GET", "/status/metrics", {"what": "metrics"}),
    ],
)
def test_every_route_says_that_settings_are_wrong(
    folder: str, method: str, path: str, params: dict[str, str]
) -> None:
    status, headers, body, log = ask(folder, method, path, params)

    assert status == 503
    assert int(headers["Retry-After"]) > 0
    assert body["error"]["code"] == "ServiceUnavailable"
    told = body["error"]["message"]
    assert told.startswith(
        "The app's settings are not valid. Check PUSHGRID_PROFILE, PUSHGRID_WEBHOOK_CLIENT_ID;"
    )
    assert "s3cret" not in told
    assert log.count("settings.invalid") == 2  # a line for each
    assert "ERROR" in log
    assert "PUSHGRID_PROFILE: not one of" in log
    assert "s3cret" not in log


def test_health_is_that_nothing_works() -> None:
    status, _, body, _ = ask("status_function", "GET", "/status/health", {"what": "health"})

    assert (status, body["status"]) == (503, "unhealthy")
    (reason,) = body["reasons"]
    assert "PUSHGRID_PROFILE" in reason
    assert "s3cret" not in reason


def test_the_console_opens_and_says_what_its_calls_say() -> None:
    code = (
        "import azure.functions as func, console_function as console;"
        "request = func.HttpRequest('GET', 'http://h/console', body=b'');"
        "print(console.main(request).status_code)"
    )

    assert run("-c", code).stdout == "200\n"


@pytest.mark.parametrize("folder", ["deliver_function", "retry_function", "wake_function"])
def test_what_answers_nobody_is_not_loaded(folder: str) -> None:
    """Its messages stay where they are."""
    loaded = run("-c", f"import {folder}")

    assert loaded.returncode != 0
    assert "InvalidSettings" in loaded.stderr.splitlines()[-1]
