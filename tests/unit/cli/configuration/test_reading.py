"""`pushgrid.json` and `pushgrid.yaml`: what is read, and where faults are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.mgmt.eventgrid import models

from cli.configuration import read_configuration
from cli.configuration.schema import SCHEMA
from cli.failure import CommandFailed
from cli.program import main
from shared.clip import LONGEST
from tests.unit.cli.configuration.reading import faults, read, shown

JSON = """{
  "topics": {
    "orders": {
      "tags": {"a.b": "c"},
      "keys": {"key1": "localkey1111"},
      "eventSubscriptions": {
        "crm": {
          "consent": "assumed",
          "properties": {
            "destination": {
              "endpointType": "WebHook",
              "properties": {"endpointUrl": "http://127.0.0.1:9000/"}
            },
            "expirationTimeUtc": "2027-01-31T00:00:00Z",
            "labels": ["\\ud83d\\ude00"]
          }
        }
      }
    }
  },
  "namespaces": {
    "shop": {"topics": {"payments": {"properties": {"eventRetentionInDays": 2}}}}
  }
}
"""
YAML = """# yaml-language-server: $schema=./pushgrid.schema.json
topics:
  orders:
    tags: {a.b: c}
    keys: {key1: localkey1111}
    eventSubscriptions:
      crm:
        consent: assumed
        properties:
          destination:
            endpointType: WebHook
            properties: {endpointUrl: "http://127.0.0.1:9000/"}
          expirationTimeUtc: 2027-01-31T00:00:00Z
          labels: [😀]
namespaces:
  shop:
    topics:
      payments:
        properties: {eventRetentionInDays: 2}
"""


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (JSON, "pushgrid.json", 7),
        ("\t" + JSON.replace("  ", "\t"), "pushgrid.json", 7),
        (JSON, "pushgrid.yaml", 7),
        (YAML, "pushgrid.yaml", 7),
        (YAML, "pushgrid.YML", 7),
    ],
)
def test_both_forms_say_the_same(tmp_path: Path, text: str, name: str, line: int) -> None:
    if name.endswith("yaml") and text is JSON:
        text = text.replace("\\ud83d\\ude00", "😀")
    found = read(tmp_path, text, name).resources

    assert [(each.id.kind, each.id.name) for each in found] == [
        ("namespace", "shop"),
        ("topic", "orders"),
        ("namespace topic", "shop.payments"),
        ("event subscription", "orders/crm"),
    ]
    assert [each.document for each in found[:3]] == [
        {},
        {"tags": {"a.b": "c"}},
        {"properties": {"eventRetentionInDays": 2}},
    ]
    crm = found[3]
    assert (crm.id.path, crm.place.line) == ("topics/orders/eventSubscriptions/crm", line)
    assert (crm.is_consent_assumed, found[1].keys) == (True, {"key1": "localkey1111"})
    assert crm.document["properties"]["expirationTimeUtc"] == "2027-01-31T00:00:00Z"
    assert crm.document["properties"]["labels"] == ["😀"]
    assert set(crm.document) == {"properties"}


def test_aliases_are_read(tmp_path: Path) -> None:
    text = "topics:\n  one: &own\n    tags: {a: b}\n  two: *own\n"

    found = read(tmp_path, text, "pushgrid.yaml").resources

    assert [(each.id.name, each.document) for each in found] == [
        ("one", {"tags": {"a": "b"}}),
        ("two", {"tags": {"a": "b"}}),
    ]


@pytest.mark.parametrize(
    ("text", "name", "fault"),
    [
        ('{\n "topics": {,\n}', "a.json", "a.json:2: column 13: this is not JSON: Expecting prop"),
        (f'{{"{"a" * 1025}": 1}}', "a.json", "a.json:1: column 1029: this JSON can't be read: the"),
        ('{"a": "\x7f"}', "a.json", "a.json:1: this JSON can't be read: unacceptable character"),
        ('{"topics": NaN}', "a.json", "a.json:1: this is not JSON: NaN is not a number"),
        ("topics:\n  a: b: c\n", "a.yaml", "a.yaml:2: column 7: this is not YAML: mapping values"),
        ("topics: &a\n  orders: *a\n", "a.yaml", "a.yaml:1: its values are nested too deeply"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\n", "a.yaml", "a.yaml:1: a: there is no such member"),
        ("? [a]\n: b\n", "a.yaml", "a.yaml:1: the name of a member must be text"),
        ("[]", "a.json", "a.json:1: this must be an object"),
        ("", "a.yaml", "a.yaml:1: this must be an object"),
        ('{"topics":\n {"a": {}, "a": {}}}', "a.json", "a.json:2: topics.a: this member is given"),
        ("topics:\n  abc:\n  abc:\n", "a.yaml", "a.yaml:3: topics.abc: this member is given twice"),
        ('{"topics":\n{"abc": {},\n"ABC": {}}}', "a.json", "a.json:3: topics.ABC: ABC is already"),
        ('{"topics":\n {"a b": {}}}', "a.json", "a.json:2: topics.a b: the name must be 3 to 50"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, text: str, name: str, fault: str) -> None:
    (found,) = faults(tmp_path, text, name)

    assert found.startswith(fault)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("[" * 100_000, "a.json", "a.json:1: its values are nested too deeply"),
        ("[" * 101 + "]" * 101, "a.json", "a.json:1: its values are nested too deeply"),
        ("[" * 100_000, "a.yaml", "a.yaml:1: its values are nested too deeply"),
        ("- " * 100_000, "a.yaml", "a.yaml:1: its values are nested too deeply"),
        ("".join(f"{' ' * n}a:\n" for n in range(999)), "a.yaml",
         "a.yaml:101: its values are nested too deeply"),
        ("a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60, "a.yaml",
         "a.yaml:1: its values are nested too deeply"),
        ("!!int '" + "[" * 100_000 + "'", "a.yaml", "a.yaml:1: its values are nested too deeply"),
        ("[" + "1," * 700_000 + "]", "a.yaml", "a.yaml:1: the file has too many values"),
        ("[" + "1," * 700_000 + "1]", "a.json", "a.json:1: the file has too many values"),
        ("a0: &a0 [" + "1," * 10 + "]\n" + "".join(f"a{n}: &a{n} [" + f"*a{n - 1}," * 10 + "]\n"
         for n in range(1, 9)), "a.yaml", "a.yaml:1: the file has too many values"),
        ("a: &a " + "x" * 100_000 + "\n" + "".join(f"a{n}: *a\n" for n in range(99)), "a.yaml",
         "a.yaml:1: the value is larger than 8,388,608 characters"),
        (" " * (4 * 1024 * 1024 + 1), "a.json", "a.json: the file has more than 4,194,304 char"),
    ],
    ids=shown,
)  # fmt: skip
def test_what_a_file_can_cost_is_bounded(tmp_path: Path, text: str, name: str, words: str) -> None:
    (fault,) = faults(tmp_path, text, name)

    assert fault.startswith(words)


def test_faults_are_no_more_and_no_longer_than_people_read(tmp_path: Path) -> None:
    members = "".join(f"? {number}{'x' * 10_000}\n: 1\n" for number in range(200))

    found = faults(tmp_path, members, "pushgrid.yaml")

    assert len(found) == 100
    assert max(map(len, found)) <= 2 * LONGEST
    assert all(each.endswith("…") for each in found)


def test_too_little_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", raising(MemoryError()))

    assert faults(tmp_path, "{}") == ["pushgrid.json: there is too little memory to read it"]


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("maximum recursion depth")])
def test_no_command_ends_with_a_traceback_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    monkeypatch.setattr(Path, "read_text", raising(error))

    assert main(["schema"]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pushgrid: ")


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def test_all_faults_are_told_in_the_order_of_their_lines(tmp_path: Path) -> None:
    wrong = JSON.replace('"consent": "assumed"', '"consent": "yes"')
    wrong = wrong.replace('"endpointType": "WebHook",', '"endpointTyp": "WebHook",')
    wrong = wrong.replace('"labels": [', '"labels": [1, ').replace('Days": 2', 'Days": 8')
    wrong = wrong.replace("localkey1111", "local key")

    own = "topics.orders.eventSubscriptions.crm"
    days = "namespaces.shop.topics.payments.properties.eventRetentionInDays"
    typo = f"{own}.properties.destination.endpointTyp"
    assert faults(tmp_path, wrong) == [
        "pushgrid.json:5: topics.orders.keys.key1: this must be Base64 of 8 to 128 characters",
        f'pushgrid.json:8: {own}.consent: "yes" is none of: assumed',
        f"pushgrid.json:11: {typo}: there is no such member; did you mean endpointType?",
        f"pushgrid.json:15: {own}.properties.labels[0]: this must be text",
        f"pushgrid.json:22: {days}: this must be from 1 to 7",
    ]


def test_a_destination_that_is_not_included_is_refused_with_what_to_use(tmp_path: Path) -> None:
    wrong = JSON.replace('"endpointType": "WebHook",', '"endpointType": "ServiceBusQueue",')

    (found,) = faults(tmp_path, wrong)

    assert "is none of: WebHook, StorageQueue. Service Bus destinations are not included" in found


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="No such file or directory"):
        read_configuration(tmp_path / "pushgrid.json")
    (tmp_path / "latin.json").write_bytes(b'"\xe4"')
    with pytest.raises(CommandFailed, match="it is not UTF-8"):
        read_configuration(tmp_path / "latin.json")


def test_only_templates_have_parameters(tmp_path: Path) -> None:
    path = tmp_path / "pushgrid.json"
    path.write_text("{}")
    with pytest.raises(CommandFailed, match="only templates have parameters"):
        read_configuration(path, {"a": "b"})


@pytest.mark.parametrize(
    ("definition", "model"),
    [
        ("topic", models.Topic),
        ("eventSubscription", models.EventSubscription),
        ("systemTopic", models.SystemTopic),
        ("namespace", models.Namespace),
        ("namespaceTopic", models.NamespaceTopic),
        ("namespaceSubscription", models.Subscription),
        ("destination", models.WebHookEventSubscriptionDestination),
        ("destination", models.StorageQueueEventSubscriptionDestination),
        ("deadLetter", models.StorageBlobDeadLetterDestination),
        ("inputSchemaMapping", models.JsonInputSchemaMapping),
    ],
)
def test_the_schema_knows_every_member_of_the_official_client(definition: str, model: Any) -> None:
    known = json.loads(SCHEMA.read_text())["definitions"][definition]["properties"]

    for member in model._attribute_map.values():
        outer, _, inner = member["key"].partition(".")
        assert outer in known
        assert not inner or inner in known[outer]["properties"]
