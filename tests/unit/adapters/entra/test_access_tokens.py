"""Which access tokens are believed: every wrong claim, every trick with the signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory.clock import FakeClock
from pushgrid.testing.memory.pushing import ScriptedPusher, answered
from shared.adapters.entra.access_tokens import EntraTokenVerifier, SigningKeys
from shared.adapters.threads import SystemThreads
from shared.errors import SigningKeysUnavailable
from shared.events.token_claims import Claims, Role, TokenFault
from tests.tokens import (
    AUDIENCE,
    ISSUER,
    OLD_ISSUER,
    SENDER,
    TENANT,
    a_token,
    jwk,
    key_set,
    private_key,
    public_pem,
)

_URL = "https://login.example/keys"


def _tokens(*keys: dict[str, Any] | str) -> EntraTokenVerifier:
    clock = FakeClock()
    pusher = ScriptedPusher(clock)
    pusher.script(_URL, answered(200, key_set(*(keys or ("k1", "k2")))))
    signing_keys = SigningKeys(_URL, lambda: pusher, SystemThreads(clock.monotonic))
    return EntraTokenVerifier(
        signing_keys, issuers=[ISSUER, OLD_ISSUER], audiences=[AUDIENCE, f"{AUDIENCE}/"]
    )


TOKENS = _tokens()


def _segment(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _forged(header: object, signer: Any = lambda _: b"") -> str:
    """Make a token whose signature is whatever *signer* returns for what is signed."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 3600, "roles": [SENDER]}
    signed = f"{_segment(header)}.{_segment(claims)}"
    return f"{signed}.{_segment(signer(signed.encode()))}"


def _hs256(secret: bytes) -> Any:
    return lambda signed: hmac.digest(secret, signed, hashlib.sha256)


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({}, id="version 2"),
        pytest.param({"iss": OLD_ISSUER}, id="version 1"),
        pytest.param({"aud": f"{AUDIENCE}/"}, id="audience with a slash"),
        pytest.param({"aud": ["https://other.example", AUDIENCE]}, id="several audiences"),
        pytest.param({"nbf": ..., "iat": ...}, id="since ever"),
        pytest.param({"kid": "k2"}, id="another key"),
        pytest.param({"expires_in": -4}, id="expired within the leeway"),
        pytest.param({"begins_in": 4}, id="not yet, within the leeway"),
        pytest.param({"roles": SENDER}, id="one role as text"),
        pytest.param({"roles": ["Other", "EventGridDataSender"]}, id="no blanks, as Entra has it"),
    ],
)
def test_a_genuine_token_is_believed(claims: dict[str, Any]) -> None:
    verdict = TOKENS.verify(a_token(**claims))

    assert isinstance(verdict, Claims)
    assert (verdict.principal, verdict.grant(Role.DATA_SENDER)) == ("someone", True)
    assert not verdict.grant(Role.CONTRIBUTOR)


@pytest.mark.parametrize(
    "roles", [..., None, [], "", {}, 1, ["eventgrid data sender"], [[SENDER]], [f"{SENDER}x"]]
)
def test_whoever_has_no_role_is_known_and_may_nothing(roles: object) -> None:
    verdict = TOKENS.verify(a_token(roles=roles, scp=SENDER, wids=[SENDER]))

    assert isinstance(verdict, Claims)
    assert not verdict.grant(Role.DATA_SENDER)


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        pytest.param({"expires_in": -6}, TokenFault.EXPIRED, id="expired"),
        pytest.param({"exp": 0}, TokenFault.EXPIRED, id="long ago"),
        pytest.param({"exp": ...}, TokenFault.INCOMPLETE, id="never expires"),
        pytest.param({"exp": "soon"}, TokenFault.UNREADABLE, id="expires sometime"),
        pytest.param({"begins_in": 6}, TokenFault.NOT_YET_VALID, id="not yet"),
        pytest.param({"aud": "https://management.azure.com"}, TokenFault.AUDIENCE, id="for ARM"),
        pytest.param({"aud": f"{AUDIENCE}.evil.example"}, TokenFault.AUDIENCE, id="longer"),
        pytest.param({"aud": AUDIENCE.upper()}, TokenFault.AUDIENCE, id="another case"),
        pytest.param({"aud": ["https://a.example"]}, TokenFault.AUDIENCE, id="for others"),
        pytest.param({"aud": [AUDIENCE, 1]}, TokenFault.AUDIENCE, id="for a number"),
        pytest.param({"aud": {AUDIENCE: 1}}, TokenFault.AUDIENCE, id="for an object"),
        pytest.param({"aud": ...}, TokenFault.INCOMPLETE, id="for nobody"),
        pytest.param({"aud": []}, TokenFault.INCOMPLETE, id="for an empty list"),
        pytest.param(
            {"iss": ISSUER.replace("1111", "9999")}, TokenFault.ISSUER, id="another tenant"
        ),
        pytest.param({"iss": ISSUER + "/"}, TokenFault.ISSUER, id="almost the issuer"),
        pytest.param({"iss": ...}, TokenFault.INCOMPLETE, id="by nobody"),
        pytest.param({"iss": "https://evil.example", "tid": TENANT}, TokenFault.ISSUER, id="tid"),
        pytest.param({"kid": "k9"}, TokenFault.SIGNATURE, id="unknown key"),
        pytest.param({"key": private_key("k2")}, TokenFault.SIGNATURE, id="another's key"),
        pytest.param({"algorithm": "RS512"}, TokenFault.SIGNATURE, id="RS512"),
        pytest.param({"algorithm": "PS256"}, TokenFault.SIGNATURE, id="PS256"),
    ],
)
def test_what_is_wrong_with_a_token_is_said(claims: dict[str, Any], fault: TokenFault) -> None:
    assert TOKENS.verify(a_token(**claims)) is fault


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(_forged({"alg": "none", "kid": "k1"}), id="none"),
        pytest.param(_forged({"alg": "None", "kid": "k1"}), id="None"),
        pytest.param(_forged({"kid": "k1"}), id="no algorithm"),
        pytest.param(_forged({"alg": "RS256"}), id="no key"),
        pytest.param(_forged({"alg": "RS256", "kid": "k1"}), id="no signature"),
        pytest.param(
            _forged({"alg": "HS256", "kid": "k1"}, _hs256(public_pem("k1"))), id="HS256, public key"
        ),
        pytest.param(_forged({"alg": "HS256", "kid": "k1"}, _hs256(b"")), id="HS256, no secret"),
        pytest.param(_forged({"alg": "RS256", "kid": "k1"}, _hs256(public_pem("k1"))), id="RS256"),
        pytest.param(
            _forged({"alg": ["RS256"], "kid": "k1"}, _hs256(public_pem("k1"))), id="a list"
        ),
        pytest.param(
            a_token(kid="mine", header={"kid": "k1", "jwk": jwk("mine")}), id="brings its key"
        ),
        pytest.param(
            a_token(kid="mine", header={"kid": "k1", "jku": "https://evil.example/keys"}),
            id="says where its key is",
        ),
    ],
)
def test_a_token_does_not_choose_how_it_is_verified(token: str) -> None:
    assert TOKENS.verify(token) is TokenFault.SIGNATURE


def test_a_short_key_is_no_key() -> None:
    tokens = _tokens("short")

    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):  # of signing with it
        token = a_token(kid="short")
    verdict = tokens.verify(token)

    assert verdict is TokenFault.SIGNATURE


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b",
        "a.b.c",
        "a.b.c.d.e",
        "é.é.é",
        "\udc80.a.b",
        f"{_segment([])}.{_segment({})}.",
        f"{_segment(b'[' * 9000)}.{_segment({})}.",
        f"{_segment(b'{' + b'9' * 9000)}.{_segment({})}.",
        _forged({"alg": "RS256", "kid": None}),
        _forged({"alg": "RS256", "kid": ["k1"]}),
        a_token(padding="x" * 40_000),
    ],
    ids=range(13),
)
def test_garbage_can_not_be_read(token: str) -> None:
    assert TOKENS.verify(token) is TokenFault.UNREADABLE


def test_what_is_large_but_genuine_is_read() -> None:
    assert isinstance(TOKENS.verify(a_token(groups=["x" * 36] * 400)), Claims)


@given(
    st.text(max_size=80)
    | st.builds(
        "{}.{}.{}".format,
        st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64"]), st.text() | st.none()).map(
            _segment
        ),
        st.text(),
        st.text(),
    )
)
def test_whatever_comes_there_is_a_verdict(token: str) -> None:
    assert isinstance(TOKENS.verify(token), TokenFault)


def test_without_keys_nothing_can_be_said() -> None:
    clock = FakeClock()
    pusher = ScriptedPusher(clock)
    pusher.script(_URL, answered(503))
    keys = SigningKeys(_URL, lambda: pusher, SystemThreads(clock.monotonic))
    tokens = EntraTokenVerifier(keys, issuers=[ISSUER], audiences=[AUDIENCE])

    with pytest.raises(SigningKeysUnavailable):
        tokens.verify(a_token())
    assert tokens.verify("x.y.z") is TokenFault.UNREADABLE
