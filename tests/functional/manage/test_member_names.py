"""
The names of members, which are read in any case.

What the codecs read is recorded while the conversations of `tests/data/management` run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from shared.arm import arm_json, sections
from shared.arm.document_names import (
    NAMESPACE,
    NAMESPACE_SUBSCRIPTION,
    NAMESPACE_TOPIC,
    REGENERATE_KEY,
    REPLAY,
    ROTATE_SECRET,
    SUBSCRIPTION,
    SUBSCRIPTION_PATCH,
    SYSTEM_TOPIC,
    TOPIC,
)
from shared.arm.member_names import FreeNames, Names, Shape, read_names
from shared.arm.sections import Section
from tests.functional.manage.arm_api import (
    BODIES,
    CRM,
    GROUP,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    URL,
    ArmApi,
    header,
    hook,
    push,
)
from tests.functional.manage.conversations import FILES
from tests.functional.manage.test_conversations import converse
from tests.unit.arm.documents import dead_letter

KINDS = {
    TOPIC: "topic",
    SYSTEM_TOPIC: "system topic",
    NAMESPACE: "namespace",
    NAMESPACE_TOPIC: "namespace topic",
    SUBSCRIPTION: "event subscription",
    SUBSCRIPTION_PATCH: "PATCH of an event subscription",
    NAMESPACE_SUBSCRIPTION: "event subscription of a namespace topic",
    REGENERATE_KEY: "regenerateKey",
    ROTATE_SECRET: "rotateSecret",
    REPLAY: "replay",
}
Spelling = Callable[[str], str]
SPELLINGS: Mapping[str, Spelling] = {
    "upper": str.upper,
    "lower": str.lower,
    "pascal": lambda name: name[:1].upper() + name[1:],
    "swapped": str.swapcase,
    "blank": lambda name: f"{name} ",
}


class Reads:
    """
    Which members the codecs read, and which are given.

    Each is the names of its document, the path of its object, without indexes, and its own name.
    """

    def __init__(self) -> None:
        self.names: Names | None = None  # of the document that is read now
        self.read: set[tuple[Names, str, str]] = set()
        self.given: set[tuple[Names, str, str]] = set()

    def begin(self, document: object, names: Names) -> object:
        self.names = names
        found = read_names(document, names)
        self.given |= {(names, *each) for each in members(found)}
        return found

    def note(self, path: str, name: str) -> None:
        names = self.names
        if names is SUBSCRIPTION_PATCH and (path or name in SUBSCRIPTION.below):
            names = SUBSCRIPTION  # the PUT that has its effect
        if names is not None:
            self.read.add((names, re.sub(r"\[\d+\]", "", path), name))


def members(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and name of each member that has a value."""
    if isinstance(value, list):
        for each in value:
            yield from members(each, path)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if each is not None:
                yield path, name
            yield from members(each, f"{path}.{name}" if path else name)


def recording(reads: Reads) -> type[Section]:
    """Return a section that notes each name that is asked for."""

    class Recorded(dict[str, Any]):
        path = ""

        def get(self, name: str, default: Any = None) -> Any:
            reads.note(self.path, name)
            return super().get(name, default)

        def __getitem__(self, name: str) -> Any:
            reads.note(self.path, name)
            return super().__getitem__(name)

        def __contains__(self, name: object) -> bool:
            reads.note(self.path, str(name))
            return super().__contains__(name)

    class RecordingSection(Section):
        def __new__(cls, members: Any, path: str, faults: Any) -> Self:
            recorded = Recorded(members)
            recorded.path = path
            return super().__new__(cls, recorded, path, faults)

    return RecordingSection


@pytest.fixture(scope="module")
def reads() -> Reads:
    """What was read in all conversations."""
    found = Reads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arm_json, "read_names", found.begin)
        patch.setattr(sections, "Section", recording(found))
        for path in FILES:
            converse(ArmApi(), path)
        act(ArmApi(), lambda name: name)
    return found


def act(api: ArmApi, spelling: Spelling) -> list[Any]:
    """Send each action with all members of its body; return the answers."""
    for path, body in BODIES.items():
        api.json("PUT", path, body, status=201)
    dead_letters = {"deadLetterDestination": dead_letter()}
    signed = hook(URL, header("whsec_" + "B" * 32, "webhook-signature"), **dead_letters)
    api.json("PUT", CRM, signed, status=201)
    api.reconfigure(has_local_shortcuts=True)
    dead = {
        "container": "dead",
        "account": "acct",
        "to": {"topic": "orders", "subscription": "crm"},
    }
    of_crm = {"topic": "orders", "subscription": "crm", "prefix": "a", "reason": "", "event": "7"}
    time = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
    how = {"rate": "5", "dryRun": "True", "again": "true", "unproven": "false"}
    key, secret = "bG9jYWwta2V5", "whsec_" + "A" * 32
    requests: list[tuple[str, dict[str, Any], Names, int]] = [
        (f"{ORDERS}/regenerateKey", {"keyName": "KEY2", "keyValue": key}, REGENERATE_KEY, 200),
        (f"{CRM}/rotateSecret", {"secret": secret}, ROTATE_SECRET, 200),
        (f"{GROUP}/replays", {**dead, **time, **how}, REPLAY, 202),
        (f"{GROUP}/replays", of_crm, REPLAY, 409),  # read, and refused while the other one runs
    ]
    return [
        api.json("POST", path, respelt(body, names, spelling), status=status)
        for path, body, names, status in requests
    ]


def shape_at(names: Shape, path: str) -> Shape:
    for name in filter(None, path.split(".")):
        if isinstance(names, FreeNames):
            names = names.of
        else:
            assert isinstance(names, Names), path
            names = names.below[name]
    return names


def test_the_trees_have_every_name_that_is_read(reads: Reads):
    lacking = [
        (KINDS[names], path, name)
        for names, path, name in reads.read
        if isinstance(shape := shape_at(names, path), Names) and name not in shape.below
    ]

    assert not lacking


def test_the_conversations_give_every_member_that_is_read(reads: Reads):
    missing = [
        (KINDS[names], path, name)
        for names, path, name in sorted(reads.read - reads.given, key=lambda each: each[1:])
        if names is not SUBSCRIPTION_PATCH and not isinstance(shape_at(names, path), FreeNames)
    ]

    assert not missing


def respelt(value: Any, shape: Shape, spelling: Spelling) -> Any:
    """Return a document whose names are spelt otherwise, all but the free ones."""
    if isinstance(value, list):
        inner = shape.of if isinstance(shape, FreeNames) else shape
        return [respelt(each, inner, spelling) for each in value]
    if shape is None or not isinstance(value, dict):
        return value
    if isinstance(shape, FreeNames):
        return {name: respelt(each, shape.of, spelling) for name, each in value.items()}
    return {
        spelling(name): respelt(each, shape.below.get(name), spelling)
        for name, each in value.items()
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_answers_are_as_recorded_in_any_case(
    api: ArmApi, monkeypatch: pytest.MonkeyPatch, path: Path, spelling: str
):
    """They have the documented case."""

    def read_respelt(document: object, names: Names) -> object:
        return read_names(respelt(document, names, SPELLINGS[spelling]), names)

    monkeypatch.setattr(arm_json, "read_names", read_respelt)

    converse(api, path)


def test_what_is_stored_has_the_documented_names(full: ArmApi):
    before = {row.name: row.document for row in full.rows()}
    swap = str.swapcase
    bodies = {ORDERS: TOPIC, SHOP_ORDERS: NAMESPACE_TOPIC, CRM: SUBSCRIPTION}
    bodies |= {SHOP_CRM: NAMESPACE_SUBSCRIPTION, SHOP: NAMESPACE}

    for path, names in bodies.items():
        full.json("PUT", path, respelt(BODIES[path], names, swap), status=201)

    assert {row.name: row.document for row in full.rows()} == before


FILTERS: list[dict[str, Any]] = [  # azure-docs#18172
    {"OperatorType": "NumberGreaterThanOrEquals", "Key": "Data.Key1", "Values": 5},
    {"OperatorType": "StringContains", "Key": "Subject", "Values": ["container1", "container2"]},
]


def test_a_patch_as_a_report_has_it(crm: ArmApi):
    crm.json("PATCH", CRM, {"filter": {"advancedFilters": FILTERS}}, status=201)

    assert crm.json("GET", CRM)["properties"]["filter"]["advancedFilters"] == [
        {"operatorType": "NumberGreaterThanOrEquals", "key": "Data.Key1", "value": 5.0},
        {
            "operatorType": "StringContains",
            "key": "Subject",
            "values": ["container1", "container2"],
        },
    ]


def test_a_document_as_microsofts_page_has_it(orders: ArmApi):
    """Source: "Azure Event Grid subscription schema", with its blank."""
    filters = {
        "includedEventTypes": ["Microsoft.Storage.BlobCreated"],
        "subjectBeginsWith": "/blobServices/default/containers/mycontainer/log",
        "subjectEndsWith": ".jpg",
    }
    body = hook(filter=filters | {"isSubjectCaseSensitive ": "true"})
    body["properties"]["destination"]["endpointType"] = "webhook"

    found = orders.json("PUT", CRM, body, status=201)["properties"]

    assert found["destination"]["endpointType"] == "WebHook"
    assert found["filter"] == filters | {"isSubjectCaseSensitive": True}


def test_a_document_as_microsofts_bicep_module_sends_it(orders: ArmApi):
    """Source: the module event-grid/topic/event-subscription, with its defaults."""
    without: dict[str, Any] = {
        "deadLetterDestination": None,
        "deadLetterWithResourceIdentity": None,
        "deliveryWithResourceIdentity": None,
        "eventDeliverySchema": "EventGridSchema",
        "expirationTimeUtc": "",
        "filter": {},
        "labels": [],
        "retryPolicy": None,
    }

    found = orders.json("PUT", CRM, hook(**without), status=201)["properties"]

    assert found["expirationTimeUtc"] is None


@pytest.mark.parametrize(
    "form", [CRM, f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"]
)
def test_a_patch_replaces_the_member_that_it_names_in_another_case(crm: ArmApi, form: str):
    crm.json(
        "PATCH", form, {"RetryPolicy": {"MaxDeliveryAttempts": 3}, "LABELS": ["a"]}, status=201
    )
    crm.json("PATCH", form, {"labels": ["b"]}, status=201)

    properties = crm.json("GET", CRM)["properties"]
    assert properties["labels"] == ["b"]
    assert properties["retryPolicy"]["maxDeliveryAttempts"] == 3


def test_a_wrapped_patch_in_another_case(full: ArmApi):
    attempts = {"DeliveryConfiguration": {"Push": {"MaxDeliveryCount": 3}}}
    full.json("PATCH", SHOP_CRM, {"Properties": attempts})
    full.json(
        "PATCH",
        ORDERS,
        {"Tags": {"Team": "a", "team": "b"}, "PROPERTIES": {"DisableLocalAuth": True}},
    )

    push = full.json("GET", SHOP_CRM)["properties"]["deliveryConfiguration"]["push"]
    topic = full.json("GET", ORDERS)
    assert push["maxDeliveryCount"] == 3
    assert topic["tags"] == {"Team": "a", "team": "b"}
    assert topic["properties"]["disableLocalAuth"] is True


def test_a_subject_filter_of_a_namespace_topic_survives_a_patch(full: ArmApi):
    """Event Grid has none there."""
    filters = {"subjectBeginsWith": "/a"}
    body = push()["properties"] | {"filtersConfiguration": filters}
    full.json("PUT", SHOP_CRM, {"properties": body}, status=201)

    full.json("PATCH", SHOP_CRM, {"properties": {"expirationTimeUtc": "2099-01-01T00:00:00Z"}})

    found = full.json("GET", SHOP_CRM)["properties"]["filtersConfiguration"]
    assert found == {"includedEventTypes": None, "filters": [], "subjectBeginsWith": "/a"}


def test_what_if_compares_in_any_case(crm: ArmApi):
    body = respelt(hook(), SUBSCRIPTION, str.upper)

    assert crm.json("POST", f"{CRM}/whatIf", body)["changeType"] == "NoChange"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_actions_read_any_case(spelling: str):
    regenerated, rotated, replay, _ = act(ArmApi(), SPELLINGS[spelling])

    assert regenerated["key2"] == "bG9jYWwta2V5"
    assert rotated["secret"] == "whsec_" + "A" * 32
    assert (replay["dryRun"], replay["rate"]) == (True, 5)
    assert [regenerated, rotated] == act(ArmApi(), lambda name: name)[:2]


@pytest.mark.parametrize(
    ("method", "path", "body", "target", "message"),
    [
        (
            "PUT",
            CRM,
            hook(filter={"subjectBeginsWith": "/a"}, Filter={"subjectBeginsWith": "/b"}),
            "properties.filter",
            "properties.filter is there twice, as 'filter' and as 'Filter'.",
        ),
        (
            "PATCH",
            CRM,
            {"filter": {"advancedFilters": [FILTERS[0] | {"key": "id"}]}},
            "filter.advancedFilters[0].key",
            "filter.advancedFilters[0].key is there twice, as 'Key' and as 'key'.",
        ),
        (
            "PUT",
            CRM,
            hook(iflter={"subjectBeginsWith": "/a"}),
            "properties.iflter",
            "properties.iflter is unknown; did you mean filter?",
        ),
        (
            "PUT",
            ORDERS,
            {"location": "x", "properties": {"DisableLocalAuths": True}},
            "properties.DisableLocalAuths",
            "properties.DisableLocalAuths is unknown; did you mean disableLocalAuth?",
        ),
        (
            "POST",
            f"{ORDERS}/regenerateKey",
            {"keyNam": "key1"},
            "keyNam",
            "keyNam is unknown; did you mean keyName?",
        ),
        (
            "POST",
            f"{CRM}/whatIf",
            hook(LABELS=[], Labels=[]),
            "properties.labels",
            "properties.labels is there twice, as 'LABELS' and as 'Labels'.",
        ),
    ],
)
def test_names_that_cannot_be_meant_are_refused(
    full: ArmApi, method: str, path: str, body: object, target: str, message: str
):
    before = full.rows()

    error = full.error(method, path, body, status=400)

    assert (error["code"], error["target"], error["message"]) == ("InvalidRequest", target, message)
    assert full.rows() == before


def test_all_such_names_are_reported_together(full: ArmApi):
    body = hook(iflter={}, lebals=[], Labels=[], labels=[])

    error = full.error("PUT", CRM, body, status=400)

    assert [each["target"] for each in error["details"]] == [
        *("properties.labels", "properties.iflter", "properties.lebals"),
    ]


def test_other_unknown_members_are_ignored(full: ArmApi):
    unused = {"encryption": {"keySource": "x"}, "somethingElse": {"iflter": 1}, "x": 1}
    body = {"location": "x", "plan": {"nameX": "x"}, "properties": unused, "etag": "1"}
    before = full.json("GET", ORDERS)

    assert full.json("PUT", ORDERS, body, status=201) == before
