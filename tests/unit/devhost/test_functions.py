"""Functions: what is read from function.json, and where the app is imported from."""

import json
import sys
from pathlib import Path

import pytest

from devhost.functions import loader, metadata
from devhost.functions.metadata import BadFunction, HttpTrigger, QueueTrigger, TimerTrigger

HTTP = {"type": "httpTrigger", "direction": "in", "name": "req"}
OUT = {"type": "http", "direction": "out", "name": "$return"}
QUEUE = {"type": "queueTrigger", "direction": "in", "name": "m", "queueName": "work"}
TIMER = {"type": "timerTrigger", "direction": "in", "name": "t", "schedule": "0 * * * * *"}


@pytest.fixture
def scan(tmp_path):
    def go(*bindings, environ=None, folder="one", text=None, **document):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
        written = text or json.dumps({"bindings": bindings} | document)
        (tmp_path / folder / "function.json").write_text(written)
        return metadata.scan(tmp_path, environ or {})[0]

    return go


def test_http(scan):
    found = scan(HTTP | {"route": "a/{id}", "methods": ["get", "POST"], "authLevel": "Admin"}, OUT)

    assert found.trigger == HttpTrigger(
        name="req", route="a/{id}", methods=frozenset(("GET", "POST"))
    )
    assert found.returns_http
    assert found.entry_point == "main"


def test_http_defaults(scan):
    trigger = scan(HTTP, OUT).trigger

    assert (trigger.route, trigger.methods) == (None, frozenset())


def test_queue(scan):
    found = scan(QUEUE | {"queueName": "%Q%", "dataType": "binary"}, environ={"Q": "Work-Items"})

    assert found.trigger == QueueTrigger(
        name="m", queue="work-items", connection="AzureWebJobsStorage", binary=True
    )


def test_timer(scan):
    found = scan(TIMER | {"schedule": "%S%", "runOnStartup": True}, environ={"S": "0 0 * * * *"})

    assert found.trigger == TimerTrigger(
        name="t", schedule="0 0 * * * *", run_on_startup=True, use_monitor=True
    )


@pytest.mark.parametrize(
    ("bindings", "words"),
    [
        ([], "function.json has no bindings"),
        (["x"], "bindings[0] must be an object with a type"),
        ([{"name": "x"}], "bindings[0] must be an object with a type"),
        ([HTTP | {"name": ""}], "bindings[0] has an illegal name: ''"),
        ([HTTP, HTTP], "two bindings are named 'req'"),
        ([OUT], "function.json has 0 triggers instead of one"),
        ([HTTP, QUEUE], "function.json has 2 triggers instead of one"),
        ([HTTP | {"direction": "out"}], "the trigger's direction must be in"),
        ([HTTP | {"type": "blobTrigger"}], "this host does not support blobTrigger"),
        ([HTTP | {"authLevel": "root"}], "authLevel 'root' is not"),
        ([HTTP | {"methods": "get"}], "methods must be a list"),
        ([HTTP | {"methods": [1, None]}], "methods must be a list of strings"),
        ([HTTP | {"type": "httptriger"}], "instead of one; its bindings are httptriger"),
        ([HTTP | {"route": 5}], "route must be a string"),
        ([QUEUE | {"queueName": ""}], "queueTrigger has no queueName"),
        ([QUEUE | {"queueName": "a--b"}], "queueName is not legal"),
        ([QUEUE | {"queueName": "ab"}], "queueName is not legal"),
        ([QUEUE | {"queueName": "%NO%"}], "setting NO, named by queueName, is missing"),
        ([TIMER | {"schedule": ""}], "timerTrigger has no schedule"),
        ([TIMER | {"schedule": "%NO%"}], "setting NO, named by schedule, is missing"),
        (
            [QUEUE, {"type": "queue", "direction": "out", "name": "o"}],
            "queue (out) is not supported",
        ),
        ([HTTP, OUT | {"direction": "both"}], "direction both is not supported"),
        ([HTTP, OUT | {"name": "res"}], "the http output must be named $return"),
    ],
)
def test_bad_function_json(scan, bindings, words):
    found = scan(*bindings)

    assert isinstance(found, BadFunction)
    assert words in found.fault


def test_broken_json(scan):
    assert scan(text="{").fault.startswith("function.json is not JSON: line 1, column 2")


def test_bad_folder_name(scan):
    assert "not a legal function name" in scan(HTTP, OUT, folder="1st").fault


def test_missing_script(scan):
    assert scan(HTTP, OUT, scriptFile="other.py").fault == "other.py is missing"


@pytest.mark.parametrize(
    ("document", "environ", "expected"),
    [
        ({}, {}, False),
        ({"disabled": True}, {}, True),
        ({}, {"AzureWebJobs.one.Disabled": "true"}, True),
        ({}, {"AzureWebJobs_one_Disabled": "1"}, True),
        ({}, {"AzureWebJobs.other.Disabled": "true"}, False),
        ({"disabled": "OFF"}, {"OFF": "true"}, True),
        ({"disabled": "OFF"}, {}, False),
    ],
)
def test_disabled(scan, document, environ, expected):
    assert scan(HTTP, OUT, environ=environ, **document).disabled is expected


def test_order_is_by_name(tmp_path, scan):
    for folder in ("Cfn", "Afn", "Bfn"):
        scan(HTTP, OUT, folder=folder)

    assert [each.name for each in metadata.scan(tmp_path, {})] == ["Afn", "Bfn", "Cfn"]


def test_the_apps_folder_is_the_last_to_import_from(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, loader.NAMESPACE, None)

    loader.prepare(tmp_path)

    assert sys.path[-1] == str(tmp_path)
    assert str(Path(loader.__file__).parents[2]) not in sys.path
