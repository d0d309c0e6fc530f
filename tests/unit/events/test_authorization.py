"""Authorization by key, by shared access signature, and by access token."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidSignature, Unauthenticated
from shared.events.authorization import authorize, bearer_token
from shared.events.token_claims import Claims, TokenFault
from tests import builders
from tests.builders import KEY
from tests.unit.events.publishing import KEY2, NOW, URL, VECTORS, a_request, a_topic, refusal, sign

_EXPIRES = datetime(2030, 1, 1, tzinfo=UTC)
_NONE = (
    "Request must contain one of the following authorization signature: aeg-sas-token, aeg-sas-key."
)
_SCHEME = (
    "Request has an unsupported Authorization scheme (must be SharedAccessSignature or Bearer)."
)
_REFUSED = (
    "The request authorization key is not authorized for ORDERS.LOCAL-1.EVENTGRID.AZURE.NET."
    " This is due to the reason: "
)
_KEY = f"{_REFUSED}The key is not one of the topic's, or there is no such topic."
_SIGNER = f"{_REFUSED}The signature is not by one of the topic's keys, or there is no such topic."
_EXPIRED = f"{_REFUSED}The signature has expired."
_RESOURCE = f"{_REFUSED}The signature is for another resource: sign {URL} or a path above it."
_EXPIRY = (
    f"{_REFUSED}The expiry of the signature (e=) can't be read. Write it in UTC, like "
    "2030-01-31T23:59:59Z or 1/31/2030 11:59:59 PM, and percent-encode it before you sign."
)

_CARRIERS = {
    "header": lambda token: a_request(headers={"aeg-sas-token": token}),
    "authorization": lambda token: a_request(
        headers={"authorization": f"SharedAccessSignature {token}"}
    ),
    "any case": lambda token: a_request(
        headers={"authorization": f"sharedaccesssignature  {token}"}
    ),
    "query": lambda token: a_request(query={"aeg-sas-token": token}),
}


def _authorize(headers: Any = None, query: Any = None, *, url: str = URL) -> None:
    authorize(a_request(headers=headers, query=query, url=url), a_topic(), NOW)


def _unauthorized(message: str) -> tuple[int, str, str, str]:
    return 401, "Unauthorized", "Unauthorized", message


@pytest.mark.parametrize("carrier", _CARRIERS)
@pytest.mark.parametrize("client", VECTORS)
def test_signatures_of_all_clients_pass_until_they_expire(client, carrier):
    request = _CARRIERS[carrier](VECTORS[client])

    authorize(request, a_topic(), NOW)
    authorize(request, a_topic(), _EXPIRES - timedelta(microseconds=1))
    assert refusal(authorize, request, a_topic(), _EXPIRES) == _unauthorized(_EXPIRED)


@pytest.mark.parametrize("carrier", _CARRIERS)
def test_a_signature_may_be_for_the_public_address(carrier):
    """A front end may call the app by another name than publishers do."""
    public = "https://events.shop.example/grid"
    request = _CARRIERS[carrier](sign(f"{public}/api/events"))

    authorize(request, a_topic(), NOW, public_url=public)
    assert refusal(authorize, request, a_topic(), NOW) == _unauthorized(_RESOURCE)
    elsewhere = _CARRIERS[carrier](sign(f"{public}/api/other"))
    found = refusal(authorize, elsewhere, a_topic(), NOW, public_url=public)
    assert found == _unauthorized(_RESOURCE.replace(URL, f"{public}/api/events"))


@pytest.mark.parametrize("key", [KEY, KEY2], ids=["key1", "key2"])
def test_both_keys_pass(key):
    _authorize({"aeg-sas-key": key})
    _authorize(query={"aeg-sas-key": key})
    _authorize({"aeg-sas-token": sign(key=key)})


def test_a_plus_in_the_query_may_be_bare():
    _authorize(query={"aeg-sas-key": KEY2.replace("+", " ")})


_UNREADABLE = "Unable to read access token."
_EARLIER = sign(expiry="2020-01-01", key="AAAA")


@pytest.mark.parametrize(
    ("headers", "query", "message"),
    [
        ({}, {}, _NONE),
        ({"aeg-sas-key": KEY[:-1]}, {}, _KEY),
        ({"aeg-sas-key": KEY.lower()}, {}, _KEY),
        ({"aeg-sas-key": "é\udc80"}, {}, _KEY),
        ({"aeg-sas-key": "a" * 100_000}, {}, _KEY),
        ({}, {"aeg-sas-key": "x"}, _KEY),
        ({"aeg-sas-key": "x"}, {"aeg-sas-key": KEY}, _KEY),  # the header decides
        ({"authorization": "Bearer x"}, {}, _UNREADABLE),
        ({"authorization": "bearer"}, {}, _UNREADABLE),
        ({"authorization": "Basic x"}, {}, _SCHEME),
        ({"authorization": ""}, {}, _SCHEME),
        ({"aeg-sas-token": sign(key="AAAA")}, {}, _SIGNER),
        ({"aeg-sas-token": f"{sign()[:-9]}"}, {}, _SIGNER),
        ({"aeg-sas-token": "r=a&e=2030-01-01&s=é%FF"}, {}, _SIGNER),
        ({"aeg-sas-token": sign().replace("orders", "Orders")}, {}, _SIGNER),
        ({"aeg-sas-token": _EARLIER}, {}, _SIGNER),  # before the expiry
        ({"aeg-sas-token": sign("https://a", "2020-01-01")}, {}, _EXPIRED),  # before the resource
        ({}, {"aeg-sas-token": sign(URL + "2")}, _RESOURCE),
        (
            {"aeg-sas-key": sign()},
            {},
            f"{_REFUSED}It is a signature, not a key: send it as aeg-sas-token.",
        ),
    ],
    ids=map(str, count()),  # one key is too long
)
def test_an_invalid_credential_is_not_authorized(headers, query, message):
    assert refusal(_authorize, headers, query) == _unauthorized(message)


@pytest.mark.parametrize("key", [KEY, "AAAA"], ids=["by a key of the topic", "by another"])
@pytest.mark.parametrize("keys", [(KEY, KEY2), ()], ids=["a topic", "no such topic"])
@pytest.mark.parametrize(
    "expiry",
    [
        "soon",
        "1893456000",  # Unix time, as Service Bus has it
        "1/1/2030 13:00:00 AM",
        "1/1/2030 0:00:00 AM",
        "1/1/2030 1:00:00",  # 24 hours, or AM and PM forgotten
        "2/30/2030 1:00:00 AM",
        "31.01.2030 23:59:59",  # of another culture
        "31/01/2030 11:59:59 PM",
        "Tue, 01 Jan 2030 00:00:00 GMT",
        "2030-01-01T00:00:00%2B00:00",  # encoded twice
        "2030-13-01T00:00:00Z",
        "2030-01-01T00:00:00." + "0" * 99 + "Z",
        "\u0662\u0660\u0663\u0660-01-01",  # digits of another script
    ],
)
def test_an_expiry_that_cant_be_read_is_named_whoever_signed(
    expiry: str, keys: tuple[str, ...], key: str
) -> None:
    """The answer depends on what the client has sent alone: it tells nothing about keys."""
    request = a_request(headers={"aeg-sas-token": sign(expiry=expiry, key=key)})

    found = refusal(authorize, request, builders.a_topic(keys=keys), NOW)

    assert found == _unauthorized(_EXPIRY)


@pytest.mark.parametrize(
    ("headers", "query", "name"),
    [
        ({"aeg-sas-key": ""}, {}, "aeg-sas-key"),
        ({"aeg-sas-key": " ", "aeg-sas-token": sign()}, {}, "aeg-sas-key"),
        ({}, {"aeg-sas-key": ""}, "aeg-sas-key"),
        ({"aeg-sas-token": " "}, {}, "aeg-sas-token"),
        ({"authorization": "SharedAccessSignature"}, {}, "aeg-sas-token"),
    ],
)
def test_an_empty_value_is_a_bad_request(headers, query, name):
    message = f"Request must have a value for {name}."

    assert refusal(_authorize, headers, query) == (400, "BadRequest", "InvalidSas", message)


@pytest.mark.parametrize(
    ("token", "quoted"), [("r=é&s=b", "r=é&s=b"), ("x" * 5_000, "x" * 511 + "…")], ids=["", "long"]
)
def test_a_malformed_token_is_a_bad_request(token, quoted):
    message = (
        "Invalid key in aeg-sas-token. Valid format"
        " :r=UrlEncodedResource&e=UrlEncodedUtcExpiration&s=UrlEncodedSignature."
        f" Input sas string: {quoted}"
    )

    found = refusal(_authorize, {"aeg-sas-token": token})

    assert found == (400, "BadRequest", "InvalidSas", message)


def test_a_malformed_url_gives_an_empty_host_in_the_error():
    message = refusal(_authorize, {"aeg-sas-key": "x"}, url="https://[")[3]

    assert message.startswith("The request authorization key is not authorized for .")


@given(
    name=st.sampled_from(["aeg-sas-key", "aeg-sas-token", "authorization"]),
    value=st.text(st.characters(), max_size=60)
    | st.builds("r={}&e={}&s={}".format, st.text(), st.text(), st.text())
    | st.builds("SharedAccessSignature {}".format, st.text()),
    url=st.text() | st.just(URL),
    in_query=st.booleans(),
)
def test_garbage_raises_only_refusals(name, value, url, in_query):
    carried = {name: value}

    with pytest.raises((Unauthenticated, InvalidSignature)):
        _authorize({} if in_query else carried, carried if in_query else {}, url=url)


_BEARER = {"authorization": "Bearer t"}
_SENDER = Claims.from_token({"roles": ["EventGrid Data Sender"]})
_TOKEN_REFUSED = (
    "The request authorization token is not authorized for ORDERS.LOCAL-1.EVENTGRID.AZURE.NET."
    " This is due to the reason: "
)
_LOCAL = (
    "Publishing to Topic orders with an access key or a shared access signature is rejected"
    " because local authentication is disabled."
)


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"authorization": "Bearer t"}, "t"),
        ({"authorization": " bearer   t "}, "t"),
        ({"authorization": "BEARER a b"}, "a b"),
        ({"authorization": "Bearer"}, ""),
        ({"authorization": "Bearer t", "aeg-sas-key": ""}, None),
        ({"authorization": "Bearer t", "aeg-sas-token": ""}, None),
        ({"authorization": "SharedAccessSignature t"}, None),
        ({"authorization": ""}, None),
        ({}, None),
    ],
)
def test_the_token_decides_unless_another_credential_comes_first(headers, token):
    assert bearer_token(a_request(headers=headers)) == token


def test_namespace_topics_ignore_other_carriers():
    request = replace(
        a_request(headers=_BEARER | {"aeg-sas-key": KEY}),
        params={"namespace": "shop", "action": "orders:publish"},
    )

    assert bearer_token(request) == "t"
    authorize(request, a_topic(), NOW, _SENDER)
    assert refusal(authorize, request, a_topic(), NOW)[3] == TokenFault.UNREADABLE


@pytest.mark.parametrize("fault", [None, *TokenFault])
def test_a_faulty_token_is_refused_with_the_reason(fault):
    refused = refusal(authorize, a_request(headers=_BEARER), a_topic(), NOW, fault)

    is_unreadable = fault in (None, TokenFault.UNREADABLE)
    message = "Unable to read access token." if is_unreadable else _TOKEN_REFUSED + fault.value
    assert refused == (401, "Unauthorized", "Unauthorized", message)


@pytest.mark.parametrize("roles", [[], ["EventGrid Contributor"], ["EventGrid Data"]])
def test_a_token_without_the_role_is_forbidden(roles):
    claims = Claims.from_token({"roles": roles})

    refused = refusal(authorize, a_request(headers=_BEARER), a_topic(), NOW, claims)

    assert refused[:3] == (403, "Forbidden", "Forbidden")
    assert refused[3] == (
        "The principal associated with access token presented with the incoming request"
        f" does not have permission to send data to {builders.TOPIC_ID}."
    )


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"aeg-sas-key": KEY}, {}),
        ({"aeg-sas-key": "wrong"}, {}),
        ({"aeg-sas-key": ""}, {}),
        ({"aeg-sas-token": sign()}, {}),
        ({"aeg-sas-token": "r=a"}, {}),
        ({"authorization": f"SharedAccessSignature {sign()}"}, {}),
        ({}, {"aeg-sas-key": KEY}),
        ({}, {"aeg-sas-token": sign()}),
        ({"aeg-sas-key": KEY, **_BEARER}, {}),
    ],
)
def test_without_local_auth_keys_and_signatures_are_forbidden(headers, query):
    """Contract §1.7: and no answer tells whether they would have been right."""
    topic = builders.a_topic(disable_local_auth=True)

    refused = refusal(authorize, a_request(headers=headers, query=query), topic, NOW, _SENDER)

    assert refused == (403, "Forbidden", "Forbidden", _LOCAL)


@pytest.mark.parametrize(
    ("headers", "words"), [({}, "must contain one of"), ({"authorization": "Basic x"}, "scheme")]
)
def test_without_local_auth_a_missing_credential_is_reported_as_such(headers, words):
    topic = builders.a_topic(disable_local_auth=True)

    status, *_, message = refusal(authorize, a_request(headers=headers), topic, NOW)

    assert status == 401
    assert words in message
