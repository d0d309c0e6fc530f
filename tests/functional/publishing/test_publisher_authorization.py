"""Publishing with a token, and from somewhere: checked first, and nothing is stored if refused."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest

from shared.engine.publishing.publish import PublisherAuthorization
from shared.events.token_claims import Claims, TokenFault
from shared.http import HttpAnswer, HttpRequest
from shared.metrics import Metric
from tests.builders import KEY, a_topic
from tests.functional import namespace_shop
from tests.functional.deployment import Deployment
from tests.functional.publish_requests import URL, event, nothing_stored
from tests.token_verifier import Tokens

_HEADER = "x-forwarded-for"
_NETWORK = ip_network("203.0.113.0/24")
_BEARER = {"authorization": "Bearer sender"}
_KEY = {"aeg-sas-key": KEY}


@pytest.fixture
def tokens(app: Deployment) -> Tokens:
    """Read these tokens; the front end tells where clients are."""
    tokens = Tokens(
        sender=Claims.from_token({"roles": ["EventGridDataSender"]}),
        reader=Claims.from_token({"roles": ["EventGrid Reader"]}),
        old=TokenFault.EXPIRED,
    )
    access = PublisherAuthorization(clock=app.clock, tokens=tokens, client_ip_header=_HEADER)
    app.publish = replace(app.publish, authorization=access)
    app.subscribe()
    return tokens


def topic(app: Deployment, **members: Any) -> None:
    app.directory.topics["orders"] = a_topic(**members)


def send(
    app: Deployment, headers: dict[str, str], method: str = "POST", body: bytes | None = None
) -> HttpAnswer:
    """Publish with these headers, and no key beside them."""
    return app.answer(
        HttpRequest(
            method=method,
            url=URL,
            headers={"content-type": "application/json"} | headers,
            params={"topic": "orders"},
            body=json.dumps([event()]).encode() if body is None else body,
        )
    )


def message(answer: HttpAnswer) -> str:
    return str(json.loads(answer.body)["error"]["message"])


@pytest.mark.parametrize("disabled", [False, True])
def test_a_token_with_the_role_publishes(
    app: Deployment, tokens: Tokens, *, disabled: bool
) -> None:
    """A key does, too, where local authentication is not disabled."""
    topic(app, disable_local_auth=disabled)

    by_key = send(app, _KEY)

    assert by_key.status == (403 if disabled else 200)
    assert disabled == (b"local authentication is disabled" in by_key.body)
    assert (nothing_stored(app), tokens.asked) == (disabled, [])
    assert send(app, _BEARER).status == 200
    assert not nothing_stored(app)
    assert tokens.asked == ["sender"]


def test_another_token_does_not(app: Deployment, tokens: Tokens) -> None:
    answer = send(app, {"authorization": "Bearer old"})

    assert (answer.status, "has expired" in message(answer)) == (401, True)
    assert nothing_stored(app)
    assert tokens.asked == ["old"]
    assert sum(app.metrics.of(Metric.PUBLISH_FAIL).values()) == 1


def test_topics_of_namespaces_take_tokens_as_well(shop: Deployment, tokens: Tokens) -> None:
    orders = shop.directory.topics["shop.orders"]
    shop.directory.topics["shop.orders"] = replace(orders, inbound_rules=(_NETWORK,))
    body = json.dumps([namespace_shop.event()]).encode()
    anywhere, there = (
        namespace_shop.request(body, headers=_BEARER | place)
        for place in ({}, {_HEADER: "203.0.113.7"})
    )

    assert [shop.answer(each).status for each in (anywhere, there)] == [403, 200]
    assert tokens.asked == ["sender"]


def test_while_keys_can_not_be_fetched_the_publisher_is_asked_to_retry(
    app: Deployment, tokens: Tokens
) -> None:
    tokens.down = True

    answer = send(app, _BEARER)

    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert nothing_stored(app)
    assert send(app, _KEY).status == 200  # which needs no such keys


@pytest.mark.parametrize("headers", [_KEY, _BEARER, {}], ids=["key", "token", "nothing"])
def test_a_topic_that_nobody_can_publish_to_says_why(
    app: Deployment, headers: dict[str, str]
) -> None:
    """Without local auth, and without Entra ID."""
    assert send(app, _BEARER).status == 401
    topic(app, disable_local_auth=True)

    answer = send(app, headers)

    assert answer.status == 403
    for part in ("local authentication is disabled", "PUSHGRID_ENTRA_TENANT is not set"):
        assert part in message(answer)
    assert nothing_stored(app)


@pytest.mark.parametrize("credential", [_KEY, _BEARER])
@pytest.mark.parametrize(("hop", "status"), [("203.0.113.7:1234", 200), ("198.51.100.1", 403)])
def test_a_topic_with_rules_is_published_to_from_there_alone(
    app: Deployment, tokens: Tokens, credential: dict[str, str], hop: str, status: int
) -> None:
    topic(app, inbound_rules=(_NETWORK,))

    assert send(app, credential | {_HEADER: hop}).status == status
    assert nothing_stored(app) == (status != 200)
    assert len(tokens.asked) == (status == 200 and credential is _BEARER)


def test_without_an_address_nobody_gets_in(app: Deployment, tokens: Tokens) -> None:
    """The setting that names the header is gone."""
    topic(app, inbound_rules=(_NETWORK,))
    access = replace(app.publish.authorization, client_ip_header=None)
    app.publish = replace(app.publish, authorization=access)

    answer = send(app, _KEY | {_HEADER: "203.0.113.7"})

    assert answer.status == 403
    assert "Publishing to Topic orders by client unknown is rejected" in message(answer)
    assert tokens.asked == []


@pytest.mark.parametrize(
    ("headers", "method", "body", "status"),
    [
        pytest.param({}, "GET", None, 405, id="verb before network"),
        pytest.param(_KEY | {_HEADER: "198.51.100.1"}, "POST", b"", 403, id="network before body"),
        pytest.param({_HEADER: "198.51.100.1"}, "POST", None, 403, id="network before credentials"),
        pytest.param({_HEADER: "203.0.113.7"}, "POST", b"", 401, id="credentials before body"),
        pytest.param(
            {_HEADER: "203.0.113.7", "authorization": "Bearer reader"},
            "POST",
            b"x" * 2_000_000,
            403,
            id="role before size",
        ),
        pytest.param(_KEY | {_HEADER: "198.51.100.1"}, "OPTIONS", b"", 403, id="OPTIONS as well"),
    ],
)
def test_the_order_of_checks(
    app: Deployment,
    tokens: Tokens,
    headers: dict[str, str],
    method: str,
    body: bytes | None,
    status: int,
) -> None:
    """Contract §1.6."""
    del tokens
    topic(app, inbound_rules=(_NETWORK,))

    assert send(app, headers, method, body).status == status
    assert nothing_stored(app)


@pytest.mark.parametrize(
    ("members", "headers", "status"),
    [
        ({"inbound_rules": (_NETWORK,)}, {}, 401),
        ({"inbound_rules": (_NETWORK,)}, {"aeg-sas-key": "d3Jvbmc="}, 401),
        ({"disable_local_auth": True}, {"aeg-sas-key": "d3Jvbmc="}, 401),
        ({}, {"authorization": "Bearer reader"}, 403),
    ],
)
@pytest.mark.usefixtures("tokens")
def test_what_event_grid_documents_tells_that_a_topic_exists(
    app: Deployment, members: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    """As docs/security.md says: an unknown one answers otherwise."""
    topic(app, **members)

    known = send(app, headers)
    del app.directory.topics["orders"]
    unknown = send(app, headers)

    assert (known.status, unknown.status) == (403, status)
    assert message(known).partition(" Report")[0] != message(unknown).partition(" Report")[0]
