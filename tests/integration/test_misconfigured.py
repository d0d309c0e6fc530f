"""The app with wrong settings: the local host ends, on Azure every answer says what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from devhost.http import routes

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
# What the worker does: import the folder's module, then call its function; here twice, and for
# each request in a process of its own.
ASK = """
import asyncio, importlib, json, logging, os, sys
import azure.functions as func
import shared.wiring.function_app
logging.basicConfig(format="%(levelname)s %(message)s")
for folder, method, path, params in json.loads(sys.argv[1]):
    if os.fork():
        assert os.wait()[1] == 0
        print("asked", file=sys.stderr)
        continue
    main = importlib.import_module(folder).main
    request = func.HttpRequest(method, "https://app.example" + path, headers={}, params={},
        route_params=params, body=b"[]")
    for _ in range(2):
        last = main(request)
        if asyncio.iscoroutine(last):
            last = asyncio.run(last)
    print(json.dumps([last.status_code, dict(last.headers), last.get_body().decode()]))
    break
"""
Asked = tuple[str, str, str, dict[str, str] | None]  # None: of the web function's route
REJECTED: list[Asked] = [
    ("publish_function", "POST", "/topics/orders/api/events", {"topic": "orders"}),
    (
        "publish_namespace_function",
        "POST",
        "/namespaces/shop/topics/orders:publish",
        {"namespace": "shop", "action": "orders:publish"},
    ),
    ("manage_function", "PUT", "/subscriptions/s1", {"path": "s1"}),
    *(
        ("web_function", method, path, None)
        for method, path in (
            ("GET", "/providers/Microsoft.EventGrid"),
            ("POST", "/adfs/oauth2/token"),
            ("GET", "/metadata/endpoints"),
            ("GET", "/Metadata/Endpoints/"),
            ("GET", "/Validate/a.b.c"),
            ("POST", "/validate/a.b.c/"),
            ("GET", "/status/metrics"),
            ("POST", "/api/events"),
            ("POST", "/topics/orders"),
            ("POST", "/topics/orders/api/events/"),  # a host may ask this function first
        )
    ),
]
NOT_FOUND: list[Asked] = [
    ("web_function", method, path, None)
    for method, path in (
        ("POST", "/providers/Microsoft.EventGrid"),
        ("HEAD", "/status/health"),
        ("POST", "/console"),
        ("HEAD", "/adfs/oauth2/token"),
        ("GET", "/metadata"),
        ("GET", "/metadata/endpoints/more"),
        ("GET", "/validate"),
        ("GET", "/topics/orders"),
        ("POST", "/api/other"),
        ("GET", "/validate/a.b.c/more"),
    )
]
HEALTH: Asked = ("web_function", "GET", "/status/health", None)


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | WRONG | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Answer(NamedTuple):
    """What came back, and what was logged meanwhile."""

    status: int
    headers: dict[str, str]
    body: Any
    log: str


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """Ask everything; give the answers by method and path."""
    asked = [*REJECTED, *NOT_FOUND, HEALTH]
    given = [
        (folder, method, path, web_params(path) if params is None else params)
        for folder, method, path, params in asked
    ]
    done = run("-c", ASK, json.dumps(given))
    assert done.returncode == 0, done.stderr
    found = zip(asked, done.stdout.splitlines(), done.stderr.split("asked\n"), strict=False)
    return {
        f"{method} {path}": Answer(status, headers, body and json.loads(body), log)
        for (_, method, path, _), answer, log in found
        for status, headers, body in [json.loads(answer)]
    }


def web_params(path: str) -> dict[str, str]:
    """Return the parameters of a path below the route of ``web_function``."""
    (trigger, _) = json.loads((ROOT / "web_function/function.json").read_text())["bindings"]
    params = routes.parse(trigger["route"]).match(path.strip("/"))
    assert params is not None
    return dict(params)


def test_the_local_host_ends_with_one_line() -> None:
    host = run("-m", "devhost", "--port", "0")

    assert (host.returncode, "ready" in host.stdout) == (1, False)
    assert host.stderr == f"devhost: {WHY}\n"


def test_dev_says_once_what_is_wrong() -> None:
    dev = run("-m", "cli", "dev", "--port", "0")

    assert (dev.returncode, dev.stderr) == (1, f"pushgrid: {WHY}\n")
    assert "InvalidSettings" not in dev.stdout


@pytest.mark.parametrize("asked", [f"{method} {path}" for _, method, path, _ in REJECTED])
def test_every_route_says_that_settings_are_wrong(answers: dict[str, Answer], asked: str) -> None:
    status, headers, body, log = answers[asked]

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


def test_health_is_that_nothing_works(answers: dict[str, Answer]) -> None:
    status, _, body, _ = answers["GET /status/health"]

    assert (status, body["status"]) == (503, "unhealthy")
    (reason,) = body["reasons"]
    assert "PUSHGRID_PROFILE" in reason
    assert "s3cret" not in reason


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, 200),
        ({"PUSHGRID_PROFILE": "latest", "PUSHGRID_WEBHOOK_CLIENT_ID": ""}, 200),
        (
            {
                "PUSHGRID_PROFILE": "latest",
                "PUSHGRID_WEBHOOK_CLIENT_ID": "",
                "PUSHGRID_CONSOLE": "false",
            },
            404,
        ),
    ],
)
def test_the_console_opens_unless_it_is_off(settings: dict[str, str], status: int) -> None:
    """With wrong settings as well: it shows what its calls answer."""
    code = (
        "import azure.functions as func, web_function as web;"
        "request = func.HttpRequest('GET', 'http://h/console', route_params={'area': 'console'},"
        " body=b'');"
        "print(web.main(request).status_code)"
    )

    assert run("-c", code, **settings).stdout == f"{status}\n"


@pytest.mark.parametrize("asked", [f"{method} {path}" for _, method, path, _ in NOT_FOUND])
def test_what_has_no_row_is_not_found_as_the_host_answers(
    answers: dict[str, Answer], asked: str
) -> None:
    status, headers, body, _ = answers[asked]

    assert (status, body) == (404, "")
    assert headers == {"X-Content-Type-Options": "nosniff"}


@pytest.mark.parametrize("folder", ["deliver_function", "retry_function", "wake_function"])
def test_what_answers_nobody_is_not_loaded(folder: str) -> None:
    """Its messages stay where they are."""
    loaded = run("-c", f"import {folder}")

    assert loaded.returncode != 0
    assert "InvalidSettings" in loaded.stderr.splitlines()[-1]
