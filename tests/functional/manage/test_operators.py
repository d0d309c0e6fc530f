"""Operators: with the admin key, or with tokens of Entra ID beside it or instead of it."""

from __future__ import annotations

import json

import pytest

from shared.engine.operations.operator_authorization import Operators
from shared.events.token_claims import Claims, TokenFault
from shared.http import HttpAnswer
from tests.functional.manage.arm_api import KEY, ORDERS, TOPICS, ArmApi
from tests.token_verifier import Tokens


@pytest.fixture
def tokens(api: ArmApi) -> Tokens:
    tokens = Tokens(
        operator=Claims.from_token({"oid": "o-1", "roles": ["EventGridContributor"]}),
        sender=Claims.from_token({"oid": "s-1", "roles": ["EventGrid Data Sender"]}),
        old=TokenFault.EXPIRED,
        foreign=TokenFault.ISSUER,
    )
    api.reconfigure(operators=Operators(admin_key=KEY, tokens=tokens))
    return tokens


def get(api: ArmApi, token: str | None, path: str = TOPICS) -> HttpAnswer:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return api.call("GET", path, headers=headers)


@pytest.mark.parametrize(
    ("authorization", "words"),
    [
        (None, "header is missing"),
        ("", "header is missing"),
        (f"Basic {KEY}", "not a Bearer token"),
        (KEY, "not a Bearer token"),
        ("Bearer", "not the admin key"),
        (f"Bearer {KEY}x", "not the admin key"),
        (f"Bearer {KEY[:-1]}", "not the admin key"),
        ("Bearer na\u00efve", "not the admin key"),
    ],
)
def test_only_the_operator_gets_in(api: ArmApi, authorization: str | None, words: str) -> None:
    """Nobody else learns even which routes there are."""
    headers = {} if authorization is None else {"authorization": authorization}

    answer = api.call("GET", "/subscriptions/s1/nothing", headers=headers)

    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (401, "AuthenticationFailed")
    assert words in error["message"]
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert KEY not in answer.body.decode()


@pytest.mark.parametrize("key", [None, ""])
@pytest.mark.parametrize("token", [None, "", KEY])
def test_without_a_key_the_api_is_closed(api: ArmApi, key: str | None, token: str | None) -> None:
    api.reconfigure(operators=Operators(admin_key=key))

    answer = get(api, token)

    assert answer.status == 401
    assert b"PUSHGRID_ADMIN_KEY is not set" in answer.body


@pytest.mark.parametrize("key", [KEY, None])
def test_a_token_with_the_role_manages(api: ArmApi, tokens: Tokens, key: str | None) -> None:
    api.reconfigure(operators=Operators(admin_key=key, tokens=tokens))
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
    api.reconfigure(operators=Operators(admin_key=key, tokens=tokens))

    answer = get(api, token, f"{TOPICS}/no/such/path")

    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (status, code)
    assert words in error["message"]
    assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


def test_without_a_key_no_key_is_right(api: ArmApi, tokens: Tokens) -> None:
    api.reconfigure(operators=Operators(tokens=tokens))

    assert [get(api, token).status for token in (KEY, "", "None")] == [401] * 3


def test_while_signing_keys_can_not_be_fetched_nothing_is_said(api: ArmApi, tokens: Tokens) -> None:
    tokens.down = True

    answer = get(api, "operator")

    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
