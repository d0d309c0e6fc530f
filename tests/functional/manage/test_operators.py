"""Operators with tokens of Entra ID, beside the admin key or instead of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shared.events.token_claims import Claims, TokenFault
from shared.http import HttpAnswer
from tests.fakes.tokens import Tokens
from tests.functional.manage.arm_api import KEY, ORDERS, TOPICS, ArmApi


@pytest.fixture
def tokens(api: ArmApi) -> Tokens:
    tokens = Tokens(
        operator=Claims.from_token({"oid": "o-1", "roles": ["EventGridContributor"]}),
        sender=Claims.from_token({"oid": "s-1", "roles": ["EventGrid Data Sender"]}),
        old=TokenFault.EXPIRED,
        foreign=TokenFault.ISSUER,
    )
    api.reconfigure(tokens=tokens)
    return tokens


def get(api: ArmApi, token: str | None, path: str = TOPICS) -> HttpAnswer:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return api.call("GET", path, headers=headers)


@pytest.mark.parametrize("key", [KEY, None])
def test_a_token_with_the_role_manages(api: ArmApi, tokens: Tokens, key: str | None) -> None:
    api.reconfigure(admin_key=key)
    headers = {"authorization": "bearer operator"}

    created = api.call("PUT", ORDERS, {"location": "x"}, headers=headers)

    assert (created.status, get(api, "operator", ORDERS).status) == (201, 200)
    assert tokens.asked == ["operator", "operator"]


def test_the_admin_key_is_no_token(api: ArmApi, tokens: Tokens) -> None:
    tokens.down = True

    assert get(api, KEY).status == 200
    assert tokens.asked == []


@pytest.mark.parametrize(
    ("token", "status", "code", "words"),
    [
        (None, 401, "AuthenticationFailed", "header is missing"),
        ("", 401, "InvalidAuthenticationToken", "Unable to read access token."),
        ("\udc80", 401, "InvalidAuthenticationToken", "Unable to read access token."),
        (f"{KEY}x", 401, "InvalidAuthenticationToken", "Unable to read access token."),
        ("foreign", 401, "InvalidAuthenticationToken", "from another issuer"),
        ("old", 401, "ExpiredAuthenticationToken", "has expired"),
        ("sender", 403, "AuthorizationFailed", "'s-1' does not have authorization"),
    ],
)
@pytest.mark.parametrize("key", [KEY, None])
def test_nobody_else_does(
    api: ArmApi,
    tokens: Tokens,
    key: str | None,
    token: str | None,
    status: int,
    code: str,
    words: str,
) -> None:
    del tokens
    api.reconfigure(admin_key=key)

    answer = get(api, token, f"{TOPICS}/no/such/path")

    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (status, code)
    assert words in error["message"]
    assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


def test_without_a_key_no_key_is_right(api: ArmApi, tokens: Tokens) -> None:
    del tokens
    api.reconfigure(admin_key=None)

    assert [get(api, token).status for token in (KEY, "", "None")] == [401] * 3


def test_while_signing_keys_can_not_be_fetched_nothing_is_said(api: ArmApi, tokens: Tokens) -> None:
    tokens.down = True

    answer = get(api, "operator")

    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


def test_rules_about_addresses_need_a_front_end_that_tells_them(api: ArmApi) -> None:
    rules = {"location": "x", "properties": {"inboundIpRules": [{"ipMask": "203.0.113.0/24"}]}}
    assert api.call("PUT", ORDERS, rules).status == 201

    api.reconfigure(deployment=replace(api.manage.deployment, has_client_ip_header=False))
    error = api.error("PUT", ORDERS, rules, status=400)

    assert error["target"] == "properties.inboundIpRules"
    assert "PUSHGRID_CLIENT_IP_HEADER" in error["message"]
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
