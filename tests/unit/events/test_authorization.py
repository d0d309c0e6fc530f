"""Who may publish: keys, signatures of all clients, and everything that is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidSignature, Unauthenticated
from shared.events.authorization import authorize
from tests.builders import KEY
from tests.unit.events.publishing import KEY2, NOW, URL, a_request, a_topic, refusal
from tests.unit.events.signing import VECTORS, sign

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
_KEY = f"{_REFUSED}The key is not one of the topic's."
_SIGNER = f"{_REFUSED}The signature is not by one of the topic's keys."
_EXPIRED = f"{_REFUSED}The signature has expired."
_RESOURCE = f"{_REFUSED}The signature is for another resource."

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
def test_signatures_of_all_clients_pass(client, carrier):
    request = _CARRIERS[carrier](VECTORS[client])

    authorize(request, a_topic(), NOW)
    authorize(request, a_topic(), _EXPIRES - timedelta(microseconds=1))


@pytest.mark.parametrize("client", VECTORS)
def test_signatures_expire(client):
    request = _CARRIERS["header"](VECTORS[client])

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
    assert found == _unauthorized(_RESOURCE)


@pytest.mark.parametrize("key", [KEY, KEY2], ids=["key1", "key2"])
def test_both_keys_pass(key):
    _authorize({"aeg-sas-key": key})
    _authorize(query={"aeg-sas-key": key})
    _authorize({"aeg-sas-token": sign(key=key)})


def test_a_plus_in_the_query_may_be_bare():
    _authorize(query={"aeg-sas-key": KEY2.replace("+", " ")})


@pytest.mark.parametrize(
    ("headers", "query", "message"),
    [
        pytest.param({}, {}, _NONE, id="nothing"),
        pytest.param({"aeg-sas-key": KEY[:-1]}, {}, _KEY, id="part of a key"),
        pytest.param({"aeg-sas-key": KEY.lower()}, {}, _KEY, id="another case"),
        pytest.param({"aeg-sas-key": "é\udc80"}, {}, _KEY, id="not ASCII"),
        pytest.param({"aeg-sas-key": "a" * 1_000_000}, {}, _KEY, id="huge"),
        pytest.param({}, {"aeg-sas-key": "x"}, _KEY, id="key in the query"),
        pytest.param({"aeg-sas-key": "x"}, {"aeg-sas-key": KEY}, _KEY, id="header before query"),
        pytest.param(
            {"authorization": "Bearer x"}, {}, "Unable to read access token.", id="bearer"
        ),
        pytest.param(
            {"authorization": "bearer"}, {}, "Unable to read access token.", id="no token"
        ),
        pytest.param({"authorization": "Basic x"}, {}, _SCHEME, id="basic"),
        pytest.param({"authorization": ""}, {}, _SCHEME, id="no scheme"),
        pytest.param({"aeg-sas-token": sign(key="AAAA")}, {}, _SIGNER, id="another key"),
        pytest.param({"aeg-sas-token": f"{sign()[:-9]}"}, {}, _SIGNER, id="cut off"),
        pytest.param({"aeg-sas-token": "r=a&e=2030-01-01&s=é%FF"}, {}, _SIGNER, id="no base64"),
        pytest.param({}, {"aeg-sas-token": sign(URL + "2")}, _RESOURCE, id="token in the query"),
        pytest.param(
            {"aeg-sas-token": sign(expiry="2020-01-01", key="AAAA")},
            {},
            _SIGNER,
            id="signer before expiry",
        ),
        pytest.param(
            {"aeg-sas-token": sign("https://a", "2020-01-01")},
            {},
            _EXPIRED,
            id="expiry before resource",
        ),
        pytest.param(
            {"aeg-sas-token": sign().replace("orders", "Orders")}, {}, _SIGNER, id="changed after"
        ),
    ],
)
def test_what_proves_nothing_is_not_authorized(headers, query, message):
    assert refusal(_authorize, headers, query) == _unauthorized(message)


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


def test_a_token_that_is_none_is_a_bad_request():
    message = (
        "Invalid key in aeg-sas-token. Valid format"
        " :r=UrlEncodedResource&e=UrlEncodedUtcExpiration&s=UrlEncodedSignature."
        " Input sas string: r=é&s=b"
    )

    assert refusal(_authorize, {"aeg-sas-token": "r=é&s=b"}) == (
        400,
        "BadRequest",
        "InvalidSas",
        message,
    )


def test_a_huge_token_is_quoted_in_part():
    message = refusal(_authorize, {"aeg-sas-token": "x" * 1_000_000})[3]

    assert message.endswith(f"Input sas string: {'x' * 1024}…")


def test_a_url_that_is_none_is_refused_politely():
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
def test_garbage_is_refused_and_never_fails(name, value, url, in_query):
    carried = {name: value}

    with pytest.raises((Unauthenticated, InvalidSignature)):
        _authorize({} if in_query else carried, carried if in_query else {}, url=url)
