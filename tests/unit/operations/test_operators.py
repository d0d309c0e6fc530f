"""Operators: with keys, or with tokens of Entra ID beside them or instead of them."""

from __future__ import annotations

import hmac

import pytest

from shared.engine.operations.operator_authorization import Operator, Operators
from shared.errors import SigningKeysUnavailable
from shared.events.token_claims import Claims, TokenFault
from tests.token_verifier import Tokens
from tests.unit.events.publishing import refusal

KEY = "key-one"
KEYS = Operators(admin_key=KEY, admin_key_2="key-two", reader_key="key-reads")
HOLDERS = {
    KEY: Operator("the admin key"),
    "key-two": Operator("the second admin key"),
    "key-reads": Operator("the reader's key", is_reader=True),
}


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(
        operator=Claims.from_token({"oid": "o-1", "roles": ["EventGridContributor"]}),
        reader=Claims.from_token({"oid": "r-1", "roles": ["EventGrid Reader"]}),
        sender=Claims.from_token({"oid": "s-1", "roles": ["EventGrid Data Sender"]}),
        old=TokenFault.EXPIRED,
        foreign=TokenFault.ISSUER,
    )


@pytest.mark.parametrize("text", [*HOLDERS, "another", ""])
def test_each_key_is_compared_in_constant_time_whichever_it_is(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    compared, compare = [], hmac.compare_digest

    def compare_digest(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare_digest)

    assert KEYS.with_key(text) == HOLDERS.get(text)
    assert compared == [each.encode() for each in HOLDERS]


@pytest.mark.parametrize(
    "text", ["", "key", "key-on", "key-one ", "key-one\x00", "\udc80", "na\u00efve", "KEY-ONE"]
)
def test_nothing_else_is_a_key(text: str) -> None:
    assert KEYS.with_key(text) is None
    assert Operators(admin_key="", reader_key=None).with_key(text) is None


_MISSING = "Authentication failed. The 'Authorization' header is missing."
_NO_BEARER = "Authentication failed. The 'Authorization' header is not a Bearer token."
_NO_KEY = "Authentication failed. The token is not a valid key."


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        (None, _MISSING),
        ("", _MISSING),
        (f"Basic {KEY}", _NO_BEARER),
        (KEY, _NO_BEARER),
        ("Bearer", _NO_KEY),
        (f"Bearer {KEY}x", _NO_KEY),
    ],
)
def test_without_a_key_nobody_gets_in(authorization: str | None, message: str) -> None:
    refused = refusal(KEYS.authorize, authorization)

    assert refused == (401, "Unauthorized", "AuthenticationFailed", message)


@pytest.mark.parametrize("key", [None, ""])
@pytest.mark.parametrize("authorization", [None, "Bearer", f"Bearer {KEY}"])
def test_where_nobody_could_get_in_the_setting_is_named(
    key: str | None, authorization: str | None
) -> None:
    message = refusal(Operators(admin_key=key).authorize, authorization)[3]

    assert message == "The management API is closed: PUSHGRID_ADMIN_KEY is not set."


@pytest.mark.parametrize("key", [KEY, None])
def test_a_token_with_a_role_is_who_it_says(tokens: Tokens, key: str | None) -> None:
    operators = Operators(admin_key=key, tokens=tokens)

    found = [operators.authorize(f"bearer {each}") for each in ("operator", "reader")]

    assert found == [
        Operator("Entra ID principal o-1"),
        Operator("Entra ID principal r-1", is_reader=True),
    ]


_NO_ROLE = (
    "The client 's-1' does not have authorization to perform this action: its access token has no"
    " role 'EventGrid Contributor' or 'EventGrid Reader'."
)
_UNREADABLE = (401, "Unauthorized", "InvalidAuthenticationToken", TokenFault.UNREADABLE)


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("", _UNREADABLE),
        ("\udc80", _UNREADABLE),
        (f"{KEY}x", _UNREADABLE),
        ("foreign", (401, "Unauthorized", "InvalidAuthenticationToken", TokenFault.ISSUER)),
        ("old", (401, "Unauthorized", "ExpiredAuthenticationToken", TokenFault.EXPIRED)),
        ("sender", (403, "Forbidden", "AuthorizationFailed", _NO_ROLE)),
    ],
)
@pytest.mark.parametrize("key", [KEY, None])
def test_any_other_token_is_refused_with_the_reason(
    tokens: Tokens, key: str | None, token: str, expected: tuple[object, ...]
) -> None:
    operators = Operators(admin_key=key, tokens=tokens)

    assert refusal(operators.authorize, f"Bearer {token}") == expected
    assert refusal(operators.authorize, None)[3] == _MISSING


def test_while_signing_keys_can_not_be_fetched_only_keys_are_known(tokens: Tokens) -> None:
    tokens.down = True
    operators = Operators(admin_key=KEY, tokens=tokens)

    assert operators.authorize(f"Bearer {KEY}") == HOLDERS[KEY]
    with pytest.raises(SigningKeysUnavailable):
        operators.authorize("Bearer operator")
    assert tokens.asked == ["operator"]
