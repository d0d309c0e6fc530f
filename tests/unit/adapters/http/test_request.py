"""What a URL and a request look like on the wire, and what can't go on it."""

from __future__ import annotations

import string
from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared import VERSION
from shared.adapters.http.no_answer import NoAnswer
from shared.adapters.http.request_writer import ParsedUrl, Server, parse_url, write_request
from shared.adapters.http.resolver import as_literal
from shared.http import Failure, OutboundRequest
from shared.subscriptions.destination import url_fault

ENDPOINT = "https://a.example/hook"
AGENT = b"User-Agent: pushgrid/%s\r\n" % VERSION.encode()


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("https://a.example/?c=a%2Fb&x=%7e", "a.example", 443, "a.example", "/?c=a%2Fb&x=%7e"),
        ("https://a.example", "a.example", 443, "a.example", "/"),
        ("https://a.example?x=1", "a.example", 443, "a.example", "/?x=1"),
        ("https://a.example/x#part?y", "a.example", 443, "a.example", "/x"),
        ("HTTPS://A.Example:8443//a/../b", "a.example", 8443, "a.example:8443", "//a/../b"),
        ("http://a.example:80/", "a.example", 80, "a.example", "/"),
        ("http://a.example:443/", "a.example", 443, "a.example:443", "/"),
        ("https://a.example:/", "a.example", 443, "a.example", "/"),
        ("https://a.example./", "a.example.", 443, "a.example.", "/"),
        ('https://my_app.example/{i}?"b"|', "my_app.example", 443, "my_app.example", '/{i}?"b"|'),
        ("https://[2606:4700::1]:8443/", "2606:4700::1", 8443, "[2606:4700::1]:8443", "/"),
        ("https://2130706433/", "2130706433", 443, "2130706433", "/"),
        ("https://a.example:65535/", "a.example", 65535, "a.example:65535", "/"),
    ],
    ids=str,
)  # fmt: skip
def test_urls_are_taken_apart(url: str, host: str, port: int, authority: str, path: str) -> None:
    target = parse_url(url)

    assert target == ParsedUrl(Server(target.server.scheme, host, port), authority, path)


@pytest.mark.parametrize(
    "url",
    [
        *("", "a.example/hook", "//a.example/hook", "ftp://a.example/", "file:///etc/passwd"),
        *("https:///hook", "https://", "https://:443/"),
        *(
            f"https://{authority}/"
            for authority in (
                *("user@a.example", "user:pass@a.example", "@a.example", "a.example:0"),
                *("a.example:65536", "a.example:-1", "a.example:443x", "a.example:443:443"),
                *("a.example:\uff14\uff14\uff13", "a b.example", "a%2eexample", "a..example"),
                *(".a.example", "a.example..", f"{'a' * 64}.example", f"{'a.' * 130}example"),
                *(
                    "[fe80::1%25eth0]",
                    "[fe80::1%eth0]",
                    "[::1",
                    "[::1::2]",
                    "[1.2.3.4]",
                    "[]",
                    "::1",
                ),
                *("a.example\\@b.example", "bücher.example", "①②⑦.0.0.1", "\ud800.example"),
                "a\u2024\u2024b.example",
            )
        ),
        *(
            f"https://a.example/{path}"
            for path in ("a b", "a\tb", "\r\nX: y", "\n", "\x00", "\x7f", "é", "\ud800")
        ),
        *("https://a.example\n/", " https://a.example/"),
    ],
)
def test_what_is_no_endpoint_can_not_be_sent_to(url: str) -> None:
    with pytest.raises(NoAnswer) as raised:
        parse_url(url)

    assert raised.value.failure is Failure.UNSENDABLE


@given(url=st.text() | st.text(string.printable).map("https://".__add__))
def test_any_text_is_a_target_or_refused(url: str) -> None:
    try:
        target = parse_url(url)
    except NoAnswer:
        return

    line = f"{target.authority}{target.path}"
    assert line.isascii()
    assert line.isprintable()
    assert " " not in line


_LABELS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
_HOSTS = (
    st.lists(_LABELS, min_size=1, max_size=9).map(".".join)
    | st.integers(250, 256).map(lambda length: ("a." * 128)[: length - 1] + "b")
    | st.ip_addresses().map(
        lambda address: f"[{address}]" if address.version == 6 else f"{address}"
    )
)
_URLS = st.builds(
    "{}://{}{}{}{}".format,
    st.sampled_from(["https", "HTTP"]),
    _HOSTS,
    st.sampled_from(["", "."]),
    st.just("") | st.integers(0, 65_536).map(":{}".format),
    st.text(string.printable).map("/".__add__) | st.sampled_from(["", "?a=b", "?"]),
)


@given(url=_URLS)
@example(url=f"https://{'a.' * 126}ab/")
def test_what_a_subscription_may_name_can_be_sent_to(url: str) -> None:
    if url_fault(url, allow_http=True) is None:
        assert parse_url(url).authority


def write(headers: dict[str, str], method: str = "POST", body: bytes = b"") -> bytes:
    request = OutboundRequest(method=method, url=ENDPOINT, headers=headers, body=body)
    return write_request(request, parse_url(ENDPOINT))


def test_a_request_is_its_headers_and_no_others() -> None:
    assert write({"Content-Type": "application/json", "x-name": "ü\t1"}, body=b"[]") == (
        b"POST /hook HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\n"
        b"x-name: \xfc\t1\r\n" + AGENT + b"Content-Length: 2\r\n\r\n[]"
    )


@pytest.mark.parametrize("name", ["User-Agent", "user-agent"])
def test_a_subscription_may_name_another_user_agent(name: str) -> None:
    written = write({name: "shop/1.0"})

    assert written.lower().count(b"user-agent:") == 1
    assert f"\r\n{name}: shop/1.0\r\n".encode() in written


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("POST", b"", b"Content-Length: 0\r\n"),
        ("OPTIONS", b"", b""),
        ("GET", b"", b""),
        ("OPTIONS", b"x", b"Content-Length: 1\r\n"),
    ],
)
def test_a_length_is_sent_where_a_body_is_expected(method: str, body: bytes, length: bytes) -> None:
    start = b"%s /hook HTTP/1.1\r\nHost: a.example\r\n" % method.encode()

    assert write({}, method, body) == start + AGENT + length + b"\r\n" + body


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        *(("POST", {"x": value}) for value in ("a\r\nHost: evil", "a\n", "a\r", "a\0", "a\x1b")),
        *(("POST", {"x": value}) for value in ("\u20ac", "\ud800")),
        *(("POST", {name: "a"}) for name in ("", "x y", "x:", "x\r\ny", "x\n", "é", "Host")),
        ("POST", {"content-LENGTH": "5"}),
        ("POST", {"Transfer-Encoding": "chunked"}),
        ("POST", {"Connection": "close"}),
        ("POST", {"Upgrade": "h2c"}),
        *((method, {}) for method in ("", "HEAD", "CONNECT", "POST\r\n")),
    ],
)
def test_what_http_can_not_carry_is_not_sent(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(NoAnswer) as raised:
        write(headers, method)

    assert raised.value.failure is Failure.UNSENDABLE


@given(headers=st.dictionaries(st.text(), st.text()), body=st.binary())
def test_no_header_breaks_out_of_its_line(headers: dict[str, str], body: bytes) -> None:
    try:
        written = write(headers, body=body)
    except NoAnswer:
        return

    head, _, rest = written.partition(b"\r\n\r\n")
    assert rest == body
    names = {name.lower() for name in headers}
    assert len(head.split(b"\r\n")) == len(headers) + 4 - ("user-agent" in names)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("010.8.8.8", "8.8.8.8"),
        ("0", "0.0.0.0"),  # noqa: S104 - nothing binds it
        ("::1", "::1"),
        ("::ffff:7f00:1", "::ffff:127.0.0.1"),
        ("a.example", None),
        ("256.0.0.1", None),
        ("1.2.3.4.5", None),
        ("0x7f.example", None),
        ("3com.example", None),
    ],
)
def test_every_way_to_write_an_address_is_one(host: str, address: str | None) -> None:
    assert as_literal(host) == (address and ip_address(address))
