"""Who may call, which route is meant, and what every answer has."""

from __future__ import annotations

import json

import pytest

from tests.functional.manage.arm_api import CRM, KEY, ORDERS, TOPICS, ArmApi, hook


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "header is missing"),
        ({"authorization": ""}, "header is missing"),
        ({"authorization": f"Basic {KEY}"}, "not a Bearer token"),
        ({"authorization": KEY}, "not a Bearer token"),
        ({"authorization": "Bearer"}, "not the admin key"),
        ({"authorization": f"Bearer {KEY}x"}, "not the admin key"),
        ({"authorization": f"Bearer {KEY[:-1]}"}, "not the admin key"),
        ({"authorization": "Bearer na\u00efve"}, "not the admin key"),
    ],
)
def test_only_the_operator_gets_in(api: ArmApi, headers: dict[str, str], words: str) -> None:
    answer = api.call("GET", TOPICS, headers=headers)

    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (401, "AuthenticationFailed")
    assert words in error["message"]
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert KEY not in answer.body.decode()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_has_no_case(api: ArmApi, scheme: str) -> None:
    headers = {"authorization": f"{scheme} {KEY}"}

    assert api.call("GET", TOPICS, headers=headers).status == 200


@pytest.mark.parametrize("key", [None, ""])
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer "}, None])
def test_without_a_key_the_api_is_closed(
    api: ArmApi, key: str | None, headers: dict[str, str] | None
) -> None:
    api.reconfigure(admin_key=key)

    answer = api.call("GET", TOPICS, headers=headers)

    assert answer.status == 401
    assert b"PUSHGRID_ADMIN_KEY is not set" in answer.body


def test_nobody_learns_a_route_without_the_key(api: ArmApi) -> None:
    assert api.call("GET", "/subscriptions/s1/nothing", headers={}).status == 401


@pytest.mark.parametrize(
    "version", ["2020-10-15-preview", "2021-12-01", "2022-06-15", "2025-02-15"]
)
def test_every_documented_version_is_served(api: ArmApi, version: str) -> None:
    assert api.call("GET", TOPICS, version=f"api-version={version}").status == 200


@pytest.mark.parametrize(
    ("version", "states"),
    [
        ("2020-10-15-preview", ["Creating", "Updating"]),
        ("2022-06-15", ["Creating", "Updating"]),
        ("2024-12-15-preview", ["Creating", "Updating"]),
        ("2025-02-15", ["Succeeded", "Succeeded"]),
        ("2025-07-15-preview", ["Succeeded", "Succeeded"]),
    ],
)
def test_earlier_clients_are_made_to_get_what_they_wrote(
    api: ArmApi, version: str, states: list[str]
) -> None:
    """They read an answer to a write twice, and lose the types in it with the first reading."""
    for path, body in [(ORDERS, {"location": "x"}), (CRM, hook())]:
        answers = [
            api.call("PUT", path, body, version=f"api-version={version}"),
            api.call("PATCH", path, b"{}", version=f"api-version={version}"),
        ]
        settled = api.json("GET", path)

        shown = [json.loads(answer.body)["properties"] for answer in answers]
        assert [each.pop("provisioningState") for each in shown] == states
        assert settled["properties"].pop("provisioningState") == "Succeeded"
        assert shown == [settled["properties"]] * 2


def test_the_name_of_a_parameter_has_no_case(api: ArmApi) -> None:
    assert api.call("GET", TOPICS, version="Api-Version=2025-02-15").status == 200


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("", "MissingApiVersionParameter"),
        ("api-version=", "MissingApiVersionParameter"),
        ("api-version=latest", "InvalidApiVersionParameter"),
        ("api-version=2025-02-15-beta", "InvalidApiVersionParameter"),
    ],
)
def test_a_request_needs_a_version(api: ArmApi, version: str, code: str) -> None:
    answer = api.call("GET", TOPICS, version=version)

    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    "path",
    [
        "/subscriptions",
        "/subscriptions/s1",
        "/subscriptions//providers/Microsoft.EventGrid/topics",
        "/subscriptions/s1/providers/Microsoft.Storage/topics",
        f"{TOPICS}/orders/nothing",
        f"{ORDERS}/eventSubscriptions/crm/getNothing",
        f"{ORDERS}/providers/Microsoft.Storage/eventSubscriptions/crm",
        f"{TOPICS}%2Forders",
        ORDERS.replace("/topics", "//topics"),
    ],
)
def test_an_unknown_path_is_not_found(orders: ArmApi, path: str) -> None:
    assert orders.error("GET", path, status=404)["code"] == "ResourceNotFound"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", TOPICS, "GET"),
        ("PATCH", f"{ORDERS}/listKeys", "POST"),
        ("POST", ORDERS, "GET, PUT, PATCH, DELETE"),
        ("GET", f"{ORDERS}/listKeys", "POST"),
        ("DELETE", f"{ORDERS}/eventSubscriptions", "GET"),
        ("POST", CRM, "GET, PUT, PATCH, DELETE"),
    ],
)
def test_a_wrong_verb_is_told_the_right_ones(
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
    ("body", "words"),
    [
        pytest.param(b"", "Unexpected end", id="empty"),
        pytest.param(b"{", "Unexpected end", id="cut off"),
        pytest.param(b'{"a":NaN}', "not JSON: NaN'", id="NaN"),
        pytest.param(b'{"a":-Infinity}', "not JSON: -Infinity'", id="infinity"),
        pytest.param(b'{"a":1e999}', "out of range", id="out of range"),
        pytest.param(b'{"a":' + b"9" * 5000 + b"}", "out of range", id="endless integer"),
        pytest.param(b'{"a":"\xff"}', "not valid UTF-8", id="not UTF-8"),
        pytest.param(b'{"a":"\\ud800"}', "surrogate pair", id="half a surrogate pair"),
        pytest.param(b'{"\\udfff":1}', "surrogate pair", id="half a surrogate pair as name"),
        pytest.param(b'{"a":' * 64 + b"[]" + b"}" * 64, "deeper than 64", id="64 levels and one"),
        pytest.param(b"[" * 500_000, "deeper than 64", id="very deep"),
        pytest.param(b'{"a":1} x', "Extra data", id="more than one"),
    ],
)
def test_a_body_must_be_json(api: ArmApi, body: bytes, words: str) -> None:
    error = api.error("PUT", ORDERS, body, status=400)

    assert error["code"] == "InvalidRequestContent"
    assert words in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'\xef\xbb\xbf{"location":"x"}', id="byte order mark"),
        pytest.param(b'{"x":"\\ud83d\\ude00"}', id="whole surrogate pair"),
        pytest.param(b'{"a":' * 63 + b"[1]" + b"}" * 63, id="64 levels"),
        pytest.param(b"{" + b" " * 1_048_574 + b"}", id="1 MiB"),
    ],
)
def test_what_json_allows_is_read(api: ArmApi, body: bytes) -> None:
    assert api.call("PUT", ORDERS, body).status == 201


def test_a_body_of_more_than_1_mib_is_refused_unread(api: ArmApi) -> None:
    error = api.error("PUT", ORDERS, b"{" * 1_048_577, status=413)

    assert error["code"] == "RequestEntityTooLarge"


def test_one_fault_is_the_error_itself(api: ArmApi) -> None:
    error = api.error("PUT", ORDERS, {"location": 1}, status=400)

    assert (error["code"], error["target"], error["details"]) == ("InvalidRequest", "location", [])


def test_all_faults_are_details_of_one_error(orders: ArmApi) -> None:
    body = hook("http://x", filter={"advancedFilters": [1]}, labels=1)

    error = orders.error("PUT", CRM, body, status=400)

    assert (error["code"], error["target"]) == ("InvalidRequest", None)
    assert [detail["target"] for detail in error["details"]] == [
        "properties.labels",
        "properties.destination.properties.endpointUrl",
        "properties.filter.advancedFilters",
    ]
    assert all(detail["message"] in error["message"] for detail in error["details"])
