"""Settings and host.json: sources, overrides and faults."""

import json
import logging
import os
from datetime import timedelta

import pytest

from devhost import host_json, settings
from devhost.errors import BadFunctionError, HostError


def test_local_settings(tmp_path):
    document = {
        "IsEncrypted": False,
        "Values": {"A": "x", "N": 3, "T": True, "Z": None},
        "ConnectionStrings": {"S": "y"},
        "Host": {"LocalHttpPort": 7099},
    }
    (tmp_path / "local.settings.json").write_text(json.dumps(document), encoding="utf-8-sig")

    found = settings.read_local_settings(tmp_path)

    assert found.values == {"A": "x", "N": "3", "T": "true", "ConnectionStrings:S": "y"}
    assert found.port == 7099


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON: .*line 1 column 2"),
        ("[" * 200_000, "is not JSON: "),
        ("[]", "must contain a JSON object"),
        ('{"IsEncrypted": true}', "is encrypted"),
        ('{"Values": []}', "Values must be an object"),
        ('{"Values": {"A": {}}}', "Values.A must be a string"),
        ('{"Host": {"LocalHttpPort": "x"}}', "LocalHttpPort must be a number"),
        ('{"Host": {"LocalHttpPort": 99999}}', "must be a number from 0 to 65535"),
    ],
    ids=range(8),
)
def test_local_settings_refused(tmp_path, text, words):
    (tmp_path / "local.settings.json").write_text(text)

    with pytest.raises(HostError, match=words):
        settings.read_local_settings(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"), [("a=b", "x"), ("", "x"), ("A", "x\0"), ("A", "x\ud800")], ids=range(4)
)
def test_settings_that_no_environment_can_have_are_refused(name, text):
    with pytest.raises(HostError, match=f"'{name}' cannot be put in the environment"):
        settings.overlay(os.environ, {name: text}, {})


def test_resolve():
    assert settings.resolve("a-%X%-%Y%", {"X": "1", "Y": "2"}, "queueName") == "a-1-2"

    with pytest.raises(BadFunctionError, match="setting Z, named by schedule, is missing"):
        settings.resolve("%Z%", {}, "schedule")


@pytest.fixture
def read(tmp_path):
    def go(document, **environ):
        (tmp_path / "host.json").write_text(json.dumps({"version": "2.0"} | document))
        return host_json.read_host_json(tmp_path, environ)

    return go


def test_host_json_says(read):
    queues = {"batchSize": 4, "newBatchThreshold": 2, "messageEncoding": "none"}
    levels = {"default": "Warning", "Azure.Core": "Error"}

    options = read(
        {
            "extensions": {"queues": queues, "http": {"routePrefix": ""}},
            "functionTimeout": "-1",
            "logging": {"logLevel": levels},
        }
    )

    assert (options.queues.batch_size, options.queues.new_batch_threshold) == (4, 2)
    assert options.queues.base64 is False
    assert options.queues.max_dequeue_count == 5  # the default
    assert options.route_prefix == ""
    assert options.function_timeout is None
    assert options.log_levels == {"default": logging.WARNING, "azure.core": logging.ERROR}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("batchSize", 0, "batchSize must be a number from 1 to 32"),
        ("batchSize", 33, "from 1 to 32"),
        ("batchSize", "many", "from 1 to 32"),
        ("newBatchThreshold", -1, "from 0"),
        ("maxPollingInterval", "00:00:00.099", "0:00:00.100000 or more"),
        ("visibilityTimeout", "5 s", "a time such as"),
        ("messageEncoding", "utf8", "base64 or none"),
    ],
)
def test_host_json_refused(read, name, value, words):
    with pytest.raises(HostError, match=words):
        read({"extensions": {"queues": {name: value}}})


@pytest.mark.parametrize("text", ["00:00:14", "00:01:01"])
def test_a_lease_that_storage_would_not_give_is_refused(read, text):
    """Source: azure-webjobs-sdk SingletonOptions.cs, MinimumLeasePeriod and MaximumLeasePeriod."""
    with pytest.raises(HostError, match=r"listenerLockPeriod .* from 0:00:15 to 0:01:00"):
        read({"singleton": {"listenerLockPeriod": text}})


def test_host_json_must_be_there(tmp_path, read):
    with pytest.raises(HostError, match=r"no host\.json"):
        host_json.read_host_json(tmp_path, {})
    with pytest.raises(HostError, match=r"logLevel\.default must be Trace"):
        read({"logging": {"logLevel": {"default": "loud"}}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:00:02", timedelta(seconds=2)),
        ("00:00:00.500", timedelta(milliseconds=500)),
        ("1.02:03:04", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("-00:00:01", None),
        ("24:00:00", None),
        ("00:60:00", None),
        ("soon", None),
    ],
)
def test_time_span(text, expected):
    assert host_json.parse_time_span(text) == expected
