"""Secrets of deliveries in ARM documents: of their signatures, with rotations, and of headers."""

from __future__ import annotations

import itertools
import json
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from pushgrid.testing.memory import START, answered
from shared.arm.subscription_codec import to_subscription, to_subscription_in_force
from shared.engine.ports import Table
from shared.http import OutboundRequest
from shared.subscriptions.signing import sign
from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import CRM, ORDERS, SHOP_CRM, URL, ArmApi, header, hook, push
from tests.unit.subscriptions.test_signing import FOREIGN, NEW, OLD

ROTATE = f"{CRM}/rotateSecret"
OTHER = "https://other.example/"
MEMBER = "deliveryAttributeMappings"


@pytest.fixture(autouse=True)
def _keys_are_base64(request: pytest.FixtureRequest) -> None:
    """Let the deployment make secrets as it does on Azure: of 32 bytes."""
    api = request.getfixturevalue("orders")
    numbers = itertools.count(1)
    api.reconfigure(new_key=lambda: b64encode(bytes([next(numbers)]) * 32).decode())


def mapping(value: Any = "Generated", **members: Any) -> dict[str, Any]:
    return header(value, "webhook-signature") | members


def signed(*mappings: dict[str, Any], url: str = URL, **properties: Any) -> dict[str, Any]:
    return hook(url, *(mappings or [mapping()]), **properties)


def secrets(api: ArmApi, path: str = CRM) -> list[str]:
    """Return the secrets, as whoever may list them sees them."""
    found = api.json("POST", f"{path}/getDeliveryAttributes")["value"]
    return [value for each in found for value in each["properties"]["value"].split(" ")]


def test_the_deployment_makes_a_secret_once_and_hides_it(orders: ArmApi) -> None:
    made = orders.json("PUT", CRM, signed(), status=201)
    [secret] = secrets(orders)

    shown = orders.json("GET", CRM)
    for body in (signed(), {"properties": shown["properties"]}):
        again = orders.json("PUT", CRM, body, status=201)
        assert again["properties"]["destination"] == shown["properties"]["destination"]
        assert secrets(orders) == [secret]

    [hidden] = shown["properties"]["destination"]["properties"][MEMBER]
    assert hidden == mapping("Hidden")
    assert secret.startswith("whsec_")
    assert len({len(secret), len(NEW)}) == 1
    assert secret[6:] not in json.dumps([made, shown, again])


def test_a_profile_without_custom_headers_has_signatures(orders: ArmApi) -> None:
    body = {"location": "x", "tags": {"deliveryProfile": "2017"}}
    orders.json("PUT", ORDERS, body, status=201)

    orders.json("PUT", CRM, signed(), status=201)

    error = orders.error("PUT", CRM, signed(mapping(), header()), status=400)
    assert "Custom delivery headers are not available" in error["message"]


def test_the_line_break_at_the_end_of_a_secrets_file_is_not_stored(orders: ArmApi) -> None:
    orders.json("PUT", CRM, signed(mapping(f"{OLD}\n")), status=201)
    assert secrets(orders) == [OLD]

    given = orders.json("POST", ROTATE, {"secret": f"{NEW}\r\n"})

    assert (given["secret"], secrets(orders)) == (NEW, [NEW, OLD])


def test_a_rotation_signs_with_the_secret_before_until_the_next_one(
    orders: ArmApi, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    orders.json("PUT", CRM, signed(mapping(OLD), labels=["a"]), status=201)

    made = orders.json("POST", ROTATE)
    orders.reconfigure(known_for=timedelta(hours=1))
    given = orders.json("POST", ROTATE, {"secret": NEW})

    assert secrets(orders) == [NEW, made["secret"]]
    assert given["secret"] == NEW
    # What is known serves so long; a minute in an endpoint's line, and 30 s for the answer.
    assert [each["message"].split(" every")[0] for each in (made, given)] == [
        "Within 100 s",
        "Within 3690 s",
    ]
    assert orders.json("GET", CRM)["properties"]["labels"] == ["a"]
    lines = [each for each in logged("subscription.changed") if each["action"] == "rotateSecret"]
    assert [each["by"] for each in lines] == ["the admin key"] * 2
    assert not any(each[6:] in caplog.text for each in (OLD, NEW, made["secret"]))


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_an_update_without_the_attributes_ends_signing_and_is_logged_once(
    orders: ArmApi, logged: Logged, method: str
) -> None:
    """As Azure ends headers; 201 stays the answer."""
    body = hook() if method == "PUT" else hook()["properties"]
    orders.json("PUT", CRM, signed(), status=201)

    for _ in range(2):
        orders.json(method, CRM, body, status=201)

    ended = to_subscription(orders.stored()).signing_end
    assert ended == (START, "the admin key")
    [line] = logged("subscription.unsigned")
    assert [line[each] for each in ("topic", "subscription", "by")] == ["orders", "crm", ended.by]
    assert "signingEnd" not in json.dumps(orders.json("GET", CRM))

    orders.json("PUT", CRM, signed(), status=201)
    assert to_subscription(orders.stored()).signing_end is None


def test_what_was_never_signed_or_goes_to_a_queue_has_no_end_of_signing(
    orders: ArmApi, logged: Logged
) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.json("PATCH", CRM, hook(OTHER)["properties"], status=201)
    orders.json("PATCH", CRM, signed(url=OTHER)["properties"], status=201)
    orders.json("PATCH", CRM, {"labels": ["a"]}, status=201)
    orders.json("PUT", CRM, of_queue({}), status=201)

    assert to_subscription(orders.stored()).signing_end is None
    assert not logged("subscription.unsigned")


def test_while_consent_is_awaited_the_version_in_force_is_still_signed(orders: ArmApi) -> None:
    orders.json("PUT", CRM, signed(), status=201)
    orders.pusher.script(OTHER, answered(200))

    orders.json("PUT", CRM, hook(OTHER), status=201)

    in_force, wanted = orders.in_force(), to_subscription(orders.stored())
    assert (bool(in_force.signing), in_force.signing_end) == (True, None)
    assert wanted.signing_end


def test_a_rotation_and_a_change_at_the_same_time_are_both_kept(orders: ArmApi) -> None:
    orders.json("PUT", CRM, signed(mapping(OLD)), status=201)
    orders.pusher.during_handshakes.append(lambda: orders.json("POST", ROTATE, {"secret": NEW}))

    orders.json("PUT", CRM, signed(mapping("Hidden"), url=OTHER), status=201)

    assert secrets(orders) == [NEW, OLD]
    assert to_subscription(orders.stored()).endpoint_url == OTHER


def test_what_is_in_force_while_consent_is_awaited_is_rotated_too(orders: ArmApi) -> None:
    other = "https://other.example/"
    orders.json("PUT", CRM, signed(mapping(OLD)), status=201)
    orders.pusher.script(other, answered(200, b"later"))
    orders.json("PUT", CRM, signed(mapping("Hidden"), url=other), status=201)

    orders.json("POST", ROTATE, {"secret": NEW})

    in_force = to_subscription_in_force(orders.stored())
    assert (in_force.endpoint_url, in_force.signing) == (URL, (NEW, OLD))
    assert to_subscription(orders.stored()).signing == (NEW, OLD)


def test_a_subscription_of_a_namespace_topic_is_signed_and_rotated(shop_orders: ArmApi) -> None:
    shop_orders.json("PUT", SHOP_CRM, push(URL, mapping(OLD)), status=201)

    shop_orders.json("POST", f"{SHOP_CRM}/rotateSecret", {"secret": NEW})

    assert secrets(shop_orders, SHOP_CRM) == [NEW, OLD]
    assert OLD[6:] not in json.dumps(shop_orders.json("GET", SHOP_CRM))


def requests(api: ArmApi, act: Callable[[], object]) -> list[OutboundRequest]:
    api.pusher.sent.clear()
    act()
    return [each.request for each in api.pusher.sent]


@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
def test_the_handshake_is_not_signed_and_tests_and_notices_are(orders: ArmApi, schema: str) -> None:
    body = signed(mapping(f"{NEW} {OLD}"), eventDeliverySchema=schema)

    [handshake] = requests(orders, lambda: orders.json("PUT", CRM, body, status=201))
    assert not any(name.lower().startswith("webhook-s") for name in handshake.headers)
    [test] = requests(orders, lambda: orders.json("POST", f"{CRM}/test"))
    [notice] = requests(orders, lambda: orders.call("DELETE", CRM))

    for request in (test, notice):
        id_ = request.headers["webhook-id"]
        assert sign(request, (NEW, OLD), id_, orders.clock.now()) == request
    assert test.headers["webhook-id"] == test.headers["aeg-output-event-id"]
    event = json.loads(notice.body)
    assert notice.headers["webhook-id"] == (event if schema[0] == "C" else event[0])["id"]


def test_what_if_tells_a_new_secret_from_one_that_is_kept_and_shows_none(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    assert "are not signed" in orders.error("POST", ROTATE, status=400)["message"]
    new = orders.json("POST", f"{CRM}/whatIf", signed())
    orders.json("PUT", CRM, signed(mapping(OLD)), status=201)

    kept = orders.json("POST", f"{CRM}/whatIf", signed())
    changed = orders.json("POST", f"{CRM}/whatIf", signed(mapping(NEW)))

    found = [each["changeType"] for each in (new, kept, changed)]
    assert found == ["Modify", "NoChange", "Modify"]
    assert not any("whsec_" in json.dumps(each) for each in (new, kept, changed))


def of_queue(properties: dict[str, Any]) -> dict[str, Any]:
    account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/acct"
    queue = {"resourceId": account, "queueName": "orders", **properties}
    return {"properties": {"destination": {"endpointType": "StorageQueue", "properties": queue}}}


PLAIN = {"properties": {"value": NEW}}
WRONG = {
    "no secret": (signed(mapping("hunter2")), ".properties.value"),
    "null": (signed(mapping(None)), ".properties.value"),
    "hidden, and none known": (signed(mapping("Hidden")), ".properties.value"),
    "not secret": (signed(mapping(**PLAIN)), ".properties.isSecret"),
    "dynamic": (
        signed(mapping(type="Dynamic", properties={"sourceField": "data.x"})),
        ".type",
    ),
    "twice": (signed(mapping(NEW), mapping(OLD) | {"name": "Webhook-Signature"}), "1].name"),
    "another header of the scheme": (signed(mapping(name="webhook-id")), ".name"),
    "a queue": (of_queue({MEMBER: [mapping()]}), f"properties.{MEMBER}"),
}


@pytest.mark.parametrize(("body", "target"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused_and_nothing_is_stored(
    orders: ArmApi, body: dict[str, Any], target: str
) -> None:
    answer = orders.call("PUT", CRM, body)

    assert answer.status == 400
    error = json.loads(answer.body)["error"]
    targets = [each["target"] for each in error["details"]] or [error["target"]]
    assert any(each.endswith(target) for each in targets), targets
    assert not any(each[6:] in answer.body.decode() for each in (NEW, OLD, FOREIGN))
    assert orders.resources.get(Table.EVENT_SUBSCRIPTIONS, "orders", "crm") is None
    assert orders.pusher.sent == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param({"secret": "hunter2"}, "must begin with 'whsec_'", id="no secret"),
        pytest.param({"secret": f"{NEW} {FOREIGN}"}, "must be one secret", id="two"),
        pytest.param({"secret": OLD}, "the same secret twice", id="the one it has"),
        pytest.param({"secrte": NEW}, "secrte is unknown", id="typing error"),
        pytest.param([NEW], "must be a JSON object", id="list"),
    ],
)
def test_a_wrong_rotation_is_refused_and_changes_nothing(
    orders: ArmApi, body: Any, said: str
) -> None:
    orders.json("PUT", CRM, signed(mapping(OLD)), status=201)
    before = orders.stored()

    error = orders.error("POST", ROTATE, body, status=400)

    assert said in error["message"]
    assert not any(each[6:] in json.dumps(error) for each in (NEW, OLD, FOREIGN))
    assert orders.stored() == before


# --- secrets of other headers


SECRET = header("k3y")
PUBLIC = {"name": "x-team", "type": "Static", "properties": {"value": "crm"}}


def test_a_secret_that_comes_back_as_it_was_shown_keeps_its_value(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(URL, PUBLIC, SECRET), status=201)
    shown = orders.json("GET", CRM)["properties"]["destination"]["properties"]
    hidden = shown["deliveryAttributeMappings"][1] | {"name": "X-KEY"}
    body = hook(URL, hidden)

    for method, given in (("PUT", body), ("PATCH", body["properties"])):
        orders.json(method, CRM, given, status=201)
        (kept,) = orders.json("POST", f"{CRM}/getDeliveryAttributes")["value"]
        assert kept == SECRET | {"name": "X-KEY"}


@pytest.mark.parametrize("action", ["getFullUrl", "getDeliveryAttributes"])
def test_the_log_names_who_reads_secrets_and_none_of_them(
    orders: ArmApi, action: str, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    orders.json("PUT", CRM, hook(URL, SECRET), status=201)

    orders.json("POST", f"{CRM}/{action}")

    (line,) = logged("secrets.listed")
    assert (line["topic"], line["subscription"], line["by"]) == ("orders", "crm", "the admin key")
    assert not any(secret in caplog.text for secret in ("k3y", urlsplit(URL).query))


@pytest.mark.parametrize("name", ["x-team", "x-new"])
def test_a_hidden_value_that_is_no_known_secret_is_refused(orders: ArmApi, name: str) -> None:
    orders.json("PUT", CRM, hook(URL, PUBLIC, SECRET), status=201)
    hidden = header("Hidden", name)

    error = orders.error("PUT", CRM, hook(URL, hidden), status=400)

    where = "properties.destination.properties.deliveryAttributeMappings[0].properties.value"
    assert (error["code"], error["target"]) == ("InvalidRequest", where)
    assert error["message"].endswith(
        "no secret is stored for a header of this name: give its value."
    )
    plain = hidden | {"properties": {"value": "Hidden"}}
    orders.json("PUT", CRM, hook(URL, plain), status=201)
