"""Every place of every valid request, with something of every other kind in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.manage.arm_api import CRM, ORDERS, SHOP, TOPICS, VERSION
from tests.fuzz import damage
from tests.fuzz.damage import JUNK, RAW, SEGMENTS, changed, places
from tests.fuzz.documents import (
    CLOUD_EVENT,
    CLOUD_TOPIC,
    CUSTOM_EVENT,
    CUSTOM_TOPIC,
    EVENT,
    WRITES,
    Given,
)
from tests.fuzz.surfaces import Surfaces


def damaged(document: Any) -> list[bytes]:
    changes = (changed(document, place, junk) for place in places(document) for junk in JUNK)
    return [*RAW, *(json.dumps(each).encode() for each in changes)]


@pytest.mark.parametrize("given", WRITES, ids=lambda each: f"{each.method} {each.path[66:]}")
def test_no_value_anywhere_in_a_managed_document_does_harm(given: Given):
    surfaces = Surfaces()
    target = f"{given.path}?{VERSION}"
    valid = surfaces.manage(given.method, target, json.dumps(given.document).encode())
    assert valid.status_code in {200, 201, 202}, valid.get_body()

    answers = [
        surfaces.manage(given.method, target, body).status_code for body in damaged(given.document)
    ]

    assert 400 in answers


def test_no_segment_anywhere_in_a_path_does_harm():
    surfaces = Surfaces()

    for given in WRITES:
        body = json.dumps(given.document).encode()
        segments = given.path.split("/")
        for at in range(1, len(segments)):
            for odd in SEGMENTS:
                path = "/".join([*segments[:at], odd, *segments[at + 1 :]])
                surfaces.manage(given.method, f"{path}?{VERSION}", body)


@pytest.mark.parametrize(
    "path",
    [
        TOPICS,
        f"{ORDERS}/eventSubscriptions",
        *(f"{each}/providers/Microsoft.Insights/metrics" for each in (ORDERS, CRM, SHOP)),
    ],
)
def test_no_value_of_a_parameter_does_harm(path: str):
    surfaces = Surfaces()

    answers = [
        surfaces.manage("GET", f"{path}?{name}={text}&{VERSION}", b"").status_code
        for name in damage.PARAMETERS
        for text in (*damage.TEXTS, *damage.FILTERS, *damage.METRICS)
    ]

    assert set(answers) == {200, 400}


@pytest.mark.parametrize(
    ("document", "topic", "kind"),
    [
        pytest.param([EVENT], {}, "json", id="Event Grid"),
        pytest.param(CLOUD_EVENT, CLOUD_TOPIC, "cloudevents+json", id="CloudEvent"),
        pytest.param([CLOUD_EVENT], CLOUD_TOPIC, "cloudevents-batch+json", id="CloudEvents"),
        pytest.param([CUSTOM_EVENT], CUSTOM_TOPIC, "json", id="custom"),
    ],
)
def test_no_value_anywhere_in_an_event_does_harm(document: Any, topic: dict[str, Any], kind: str):
    surfaces = Surfaces(**topic)
    headers = {"aeg-sas-key": surfaces.key, "content-type": f"application/{kind}"}
    target, params = "/topics/orders/api/events", {"topic": "orders"}
    valid = surfaces.publish("POST", target, json.dumps(document).encode(), headers, params)
    assert valid.status_code == 200, valid.get_body()

    answers = {
        surfaces.publish("POST", target, body, headers, params).status_code
        for body in damaged(document)
    }

    assert answers >= {200, 400}
