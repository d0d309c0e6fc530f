"""Functions: what is read from function.json, and where the app is imported from."""

import json
import re
import sys
from pathlib import Path

import pytest

from devhost.errors import BadFunctionError
from devhost.functions import loader, metadata
from devhost.functions.metadata import HttpTrigger, QueueTrigger, TimerTrigger

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
        return metadata.read(tmp_path / folder, environ or {})

    return go


def test_http(scan):
    found = scan(HTTP | {"route": "a/{id}", "methods": ["get", "POST"], "authLevel": "Admin"}, OUT)

    assert found.trigger == HttpTrigger(
        name="req", route="a/{id}", methods=frozenset(("GET", "POST"))
    )
    assert found.returns_http
    assert found.entry_point == "main"


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
        ([{"name": "x"}], "bindings[0] must be an object with a type and a name"),
        ([HTTP | {"name": ""}], "bindings[0] must be"),
        ([OUT], "function.json has 0 triggers instead of one; its bindings are http"),
        ([HTTP, QUEUE], "function.json has 2 triggers instead of one"),
        ([HTTP | {"type": "blobTrigger"}], "this host does not support blobTrigger"),
        ([HTTP | {"methods": "get"}], "methods must be a list of strings"),
        ([HTTP | {"methods": [1, None]}], "methods must be a list of strings"),
        ([HTTP | {"route": 5}], "route must be a string"),
        ([QUEUE | {"queueName": ""}], "queueTrigger has no queueName"),
        ([QUEUE | {"queueName": "a--b"}], "queueName is not legal"),
        ([QUEUE | {"queueName": "ab"}], "queueName is not legal"),
        ([TIMER | {"schedule": "%NO%"}], "setting NO, named by schedule, is missing"),
        ([QUEUE, OUT], "binding '$return': http (out) is not supported"),
        (
            [QUEUE, {"type": "queue", "direction": "out", "name": "o"}],
            "queue (out) is not supported",
        ),
        ([HTTP, OUT | {"name": "res"}], "this host supports http (out) named $return"),
    ],
)
def test_bad_function_json(scan, bindings, words):
    with pytest.raises(BadFunctionError, match=re.escape(words)):
        scan(*bindings)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"text": "{"}, "function.json is not JSON: .*line 1 column 2"),
        ({"folder": "1st"}, "not a legal function name"),
        ({"scriptFile": "other.py"}, "other.py is missing"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, dict) else "",
)
def test_bad_folders(scan, written, words):
    with pytest.raises(BadFunctionError, match=words):
        scan(HTTP, OUT, **written)


@pytest.mark.parametrize(
    ("document", "environ", "expected"),
    [
        ({}, {}, False),
        ({"disabled": True}, {}, False),  # ignored there (measured, host 4.1037.0)
        ({}, {"AzureWebJobs.one.Disabled": "true"}, True),
        ({}, {"AzureWebJobs_one_Disabled": "1"}, True),
        ({}, {"AzureWebJobs.other.Disabled": "true"}, False),
    ],
)
def test_disabled(scan, document, environ, expected):
    assert scan(HTTP, OUT, environ=environ, **document).disabled is expected


def test_the_apps_folder_is_the_last_to_import_from(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, loader.NAMESPACE, None)

    loader.prepare(tmp_path)

    assert sys.path[-1] == str(tmp_path)
    assert str(Path(loader.__file__).parents[2]) not in sys.path
