"""Routes, api-versions, bodies, and what every answer has."""

from __future__ import annotations

import json

import pytest

from tests.functional.manage.arm_api import CRM, ORDERS, TOPICS, ArmApi, hook


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("2024-12-15-preview", "Updating"),
        ("2025-02-15", "Succeeded"),
        ("2025-07-15-preview", "Succeeded"),
    ],
)
def test_earlier_clients_are_made_to_get_what_they_wrote(
    orders: ArmApi, version: str, state: str
) -> None:
    """They read an answer to a write twice, and lose the types in it with the first reading."""
    answer = orders.call("PATCH", ORDERS, b"{}", version=f"Api-Version={version}")

    settled = orders.json("GET", ORDERS)
    properties = settled["properties"] | {"provisioningState": state}
    assert json.loads(answer.body) == settled | {"properties": properties}


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("api-version=latest", "InvalidApiVersionParameter"),
        ("api-version=2025-02-15-beta", "InvalidApiVersionParameter"),
    ],
)
def test_a_request_needs_a_version(api: ArmApi, version: str, code: str) -> None:
    answer = api.call("GET", TOPICS, version=version)

    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", TOPICS, "GET"),
        ("GET", f"{ORDERS}/listKeys", "POST"),
        ("POST", CRM, "GET, PUT, PATCH, DELETE"),
    ],
)
def test_the_answer_to_a_wrong_verb_names_the_right_ones(
    api: ArmApi, method: str, path: str, allow: str
) -> None:
    answer = api.call(method, path)

    assert (answer.status, answer.headers["Allow"]) == (405, allow)
    assert json.loads(answer.body)["error"]["code"] == "MethodNotAllowed"


def test_paths_have_no_case(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)

    assert orders.json("GET", CRM.upper())["name"] == "crm"
    assert orders.json("GET", CRM.lower() + "/")["name"] == "crm"
    assert orders.call("POST", f"{ORDERS}/LISTKEYS").status == 200


def test_every_answer_has_an_id_and_stays_out_of_caches(api: ArmApi) -> None:
    answers = [
        api.call("GET", TOPICS),
        api.call("GET", TOPICS, headers={}),
        api.call("PATCH", TOPICS),
        api.call("DELETE", ORDERS),
        api.call("GET", ORDERS),
    ]

    assert [answer.status for answer in answers] == [200, 401, 405, 204, 404]
    assert len({answer.headers["x-ms-request-id"] for answer in answers}) == len(answers)
    assert {answer.headers["Cache-Control"] for answer in answers} == {"no-store"}
    assert [b"{" in answer.body for answer in answers] == [True, True, True, False, True]
    assert answers[0].headers["Content-Type"] == "application/json; charset=utf-8"
    assert "Content-Type" not in answers[3].headers


@pytest.mark.parametrize("verb", ["get", "list", "put", "delete"])
def test_when_storage_is_down_nothing_is_promised(orders: ArmApi, verb: str) -> None:
    requests = {
        "get": ("GET", ORDERS, None),
        "list": ("GET", TOPICS, None),
        "put": ("PUT", ORDERS, {"location": "x"}),
        "delete": ("DELETE", ORDERS, None),
    }
    orders.resources.fail_next(verb)

    answer = orders.call(*requests[verb])

    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert json.loads(answer.body)["error"]["code"] == "ServiceUnavailable"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        pytest.param(b"", 400, "Unexpected end", id="empty"),
        pytest.param(b'{"a":NaN}', 400, "not JSON: NaN'", id="NaN"),
        pytest.param(b"{" + b" " * 1_048_574 + b"}", 201, "", id="1 MiB"),
        pytest.param(b"{" * 1_048_577, 413, "larger than 1048576 bytes", id="more than 1 MiB"),
    ],
)
def test_a_body_must_be_json_of_1_mib_at_most(
    api: ArmApi, body: bytes, status: int, words: str
) -> None:
    document = api.json("PUT", ORDERS, body, status=status)

    if words:
        code = "InvalidRequestContent" if status == 400 else "RequestEntityTooLarge"
        assert document["error"]["code"] == code
        assert words in document["error"]["message"]
