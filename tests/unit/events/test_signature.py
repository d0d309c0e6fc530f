"""Shared access signatures: key, resource and expiry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events.shared_access_signature import Signature
from tests.builders import KEY
from tests.unit.events.publishing import KEY2, NOW, URL, VECTORS, seal, sign

_EXPIRES = datetime(2030, 1, 1, tzinfo=UTC)


def _read(token: str) -> Signature:
    signature = Signature.parse(token)
    assert signature
    return signature


@given(
    resource=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    seconds=st.integers(min_value=1, max_value=10**9),
    key=st.sampled_from([KEY, KEY2]),
)
def test_a_signed_token_is_parsed(resource, seconds, key):
    expires = NOW + timedelta(seconds=seconds)

    signature = _read(sign(resource, expires.isoformat(), key))

    assert (signature.resource, signature.expires) == (resource, expires)
    assert signature.is_by(key)


@given(position=st.integers(min_value=0), replacement=st.characters())
def test_a_changed_token_does_not_verify(position, replacement):
    token = VECTORS["python"]
    position %= token.index("&s=")
    changed = token[:position] + replacement + token[position + 1 :]

    signature = Signature.parse(changed)

    assert changed == token or signature is None or not signature.is_by(KEY)


@pytest.mark.parametrize(
    "token",
    [
        "garbage",  # no parts
        "e=2030-01-01&r=a&s=b",  # another order
        "r=&e=2030-01-01&s=b",  # empty resource
        "r=a&e=2030-01-01&s=b&x=1",  # one more part
    ],
)
def test_a_malformed_token_is_not_parsed(token):
    assert Signature.parse(token) is None


@pytest.mark.parametrize(
    ("expiry", "moment"),
    [
        ("2030-01-01 00:00:00+00:00", _EXPIRES),  # python
        ("2030-01-01T00:00:00Z", _EXPIRES),  # docs
        ("2030-01-01T00:00:00", _EXPIRES),  # no offset is UTC
        ("1/1/2030 12:00:00 AM", _EXPIRES),  # js
        ("1/1/2030 12:00:00\u202fAM", _EXPIRES),  # newer ICU
        ("1/1/2030, 12:00:00 AM", _EXPIRES),  # comma
        ("1/1/2030 12:00:00 AM +00:00", _EXPIRES),  # .net
        ("12/31/2030 12:30:00 PM", datetime(2030, 12, 31, 12, 30, tzinfo=UTC)),  # noon
        ("2/3/2030 1:02:03 PM", datetime(2030, 2, 3, 13, 2, 3, tzinfo=UTC)),  # PM
        ("1/1/2030 12:00:00 AM +02:00", datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
@pytest.mark.parametrize("encode", [quote, quote_plus], ids=["%20", "+"])
def test_expiry_is_read_in_every_form(expiry, moment, encode):
    token = seal(f"r={encode(URL)}&e={encode(expiry)}")

    assert _read(token).expires == moment
    assert _read(token).is_by(KEY)


_ORDERS = "https://grid.example/topics/orders/api/events"


@pytest.mark.parametrize(
    ("resource", "url", "covers"),
    [
        (_ORDERS, _ORDERS, True),  # same
        (f"{_ORDERS}?api-version=2018-01-01", _ORDERS, True),  # query in the token
        (_ORDERS, f"{_ORDERS}?api-version=2018-01-01", True),  # query in the URL
        (_ORDERS.upper(), _ORDERS, True),  # another case
        (_ORDERS, _ORDERS.replace("https", "http"), True),  # TLS ended by a proxy
        (_ORDERS, _ORDERS.replace("example", "example:443"), True),  # the port of the scheme
        ("https://grid.example/topics/orders", _ORDERS, True),  # path above
        ("https://grid.example/topics/orders/", _ORDERS, True),  # slash at the end
        ("https://grid.example", _ORDERS, True),  # host
        (_ORDERS.replace("/topics/", "//topics//"), _ORDERS, True),  # joined carelessly
        ("https://grid.example//topics/ord", _ORDERS, False),  # and part of a name
        ("https://grid.example/topics/ord", _ORDERS, False),  # part of a name
        ("https://grid.example/topics/orders2", _ORDERS, False),  # longer name
        (f"{_ORDERS}/x", _ORDERS, False),  # path below
        (_ORDERS.replace("grid", "grid2"), _ORDERS, False),  # another host
        (_ORDERS.replace("example", "example:8443"), _ORDERS, False),  # another port
        ("grid.example/topics", _ORDERS, False),  # no scheme
        ("https://[grid/", _ORDERS, False),  # no URL
        (
            "http://127.0.0.1:7071/topics/a/api/events",
            "http://127.0.0.1:7071/topics/a/api/events",
            True,
        ),
    ],
)
def test_a_signature_covers_its_resource_only(resource, url, covers):
    assert _read(sign(resource)).covers(url) is covers
