"""URLs of endpoints: accepted, refused, and recognized as the app itself."""

from __future__ import annotations

import pytest

from shared.subscriptions.destination import (
    INVALID_URL,
    MAX_URL,
    base_url,
    host_addresses,
    loop_fault,
    url_fault,
)

_STEM = "https://a.example/"
LONGEST_NAME = "a." * 126 + "a"  # 253 characters; a full stop at its end doesn't count


@pytest.mark.parametrize(
    "url",
    [
        *("https://crm.example/hook", "https://crm.example", "HTTPS://CRM.EXAMPLE/"),
        *("https://crm.example:8443/hook?code=a%20b&x=/?@:", "https://crm.example/a@b"),
        *("https://crm.example?user@host", "https://a_b.example./x"),
        *("https://xn--bcher-kva.example/", "https://192.0.2.1/", "https://[2001:db8::1]:65535/"),
        *(f"https://{'a' * 63}.example/", f"https://{LONGEST_NAME}/"),
        *(f"https://{LONGEST_NAME}.:443/", _STEM + "x" * (MAX_URL - len(_STEM))),
    ],
)
def test_a_proper_https_url_is_accepted(url: str) -> None:
    assert url_fault(url, allow_http=False) is None


REFUSED = {
    "it is missing or empty": (None, ""),
    "it is longer than 2048 characters": (_STEM + "x" * (MAX_URL - len(_STEM) + 1),),
    "PUSHGRID_ALLOW_HTTP": ("http://crm.example/", "HTTP://crm.example/"),
    "does not begin with https://": (
        *("ftp://crm.example/", "localhost:9000", "crm.example/hook", "https:/crm.example/"),
        *("https:crm.example", "//crm.example/"),
    ),
    "it has no host": ("https://", "https:///hook", "https://:443/", "https://?x"),
    "its port is not one of 1 to 65535": (
        *("https://crm.example:0/", "https://crm.example:65536/", "https://crm.example:+80/"),
        *("https://crm.example:x/", "https://crm.example:/", "https://[::1]:80:80/"),
    ),
    "its host is not in ASCII: write it as xn--": (
        *("https://b\u00fccher.example/", "https://crm.example\u2044/"),
    ),
    "it has a blank or a line break before or after it": (
        *(" https://crm.example/", "https://crm.example/\n", "https://crm.example/\u00a0"),
    ),
    "its host is not legal": (
        *("https://crm..example/", "https://-crm.example/"),
        *("https://crm-.example/", f"https://{'a' * 64}.example/", f"https://{LONGEST_NAME}a/"),
        *("https://crm%2eexample/", "https://[::1/", "https://[::1]x/", "https://[::g]/"),
        *("https://[fe80::1%25eth0]/", "https://[:::]/"),
    ),
    "it has a user name or password": (
        *("https://user@crm.example/", "https://user:word@crm.example/"),
        "https://crm.example@evil.example/",
    ),
    "it has a fragment": ("https://crm.example/#top", "https://crm.example/#"),
    "it has characters that must be percent-encoded": (
        *("https://crm.example/a b", "https://crm.example/\r\nX: y"),
        *("https://crm.example\\@evil.example/", "https://crm.example/\u00fc"),
        *("https://crm.example/\ud800", "https://crm.example/{id}"),
    ),
}


@pytest.mark.parametrize(
    ("url", "reason"), [(url, reason) for reason, urls in REFUSED.items() for url in urls]
)
def test_anything_else_is_refused_with_the_documented_text(url: str | None, reason: str) -> None:
    fault = url_fault(url, allow_http=False)

    assert fault is not None
    assert fault.startswith(INVALID_URL)
    assert reason in fault[len(INVALID_URL) :]


def test_http_is_accepted_where_the_settings_allow_it() -> None:
    assert url_fault("http://127.0.0.1:8080/hook", allow_http=True) is None
    assert url_fault("ftp://127.0.0.1/", allow_http=True) is not None


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://crm.example/hook?code=s3cret", "https://crm.example/hook"),
        ("https://crm.example/hook", "https://crm.example/hook"),
        ("https://crm.example?a?b", "https://crm.example"),
    ],
)
def test_the_base_of_a_url_has_no_query(url: str, base: str) -> None:
    assert base_url(url) == base


@pytest.mark.parametrize(
    ("own", "url", "is_own"),
    [
        ("https://app.example", "https://app.example/topics/orders/api/events", True),
        ("https://app.example", "https://APP.example.:443/x?y", True),
        ("https://app.example", "http://app.example/", True),
        ("http://app.example", "https://app.example/", True),
        ("https://app.example:8443", "https://app.example:8443/", True),
        ("https://APP.example.:8443/base", "https://app.example:8443/", True),
        ("http://localhost:7071", "http://localhost:7071/hook", True),
        ("http://[::1]:7071", "http://[::1]:7071/hook", True),
        ("https://app.example", "https://app.example:8443/", False),
        ("https://app.example:8443", "https://app.example/", False),
        ("http://localhost:7071", "http://localhost:9000/hook", False),
        ("https://app.example", "https://not-app.example/", False),
        ("https://app.example", "https://app.example.evil.example/", False),
        ("https://app.example", "https://crm.example/?x=https://app.example", False),
        ("https://", "https:///hook", False),
        ("", "", False),
        ("https://app.example:x", "https://app.example:x/", False),
    ],
)
def test_an_endpoint_at_the_app_itself_is_recognized(own: str, url: str, is_own: bool) -> None:  # noqa: FBT001 - a row
    fault = loop_fault(url, host_addresses(own))

    assert (fault is not None) is is_own
    assert fault is None or "is this app itself" in fault
