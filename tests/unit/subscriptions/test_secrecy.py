"""What an endpoint says is withheld if it repeats a secret, however it is written."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus, unquote

import pytest

from shared.http import Audience
from shared.subscriptions.secrecy import WITHHELD, Secrecy
from shared.subscriptions.subscription import EventSubscription, StaticHeader
from tests.builders import a_subscription

SECRET = 'p"ss/w0rd+<k\u00fc&y>=\\xQ Zt'
TOKEN = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJhdWQiOiJhIn0.c2ln"


def escaped(each: str) -> str:
    return "".join(f"\\u{ord(one):04x}" for one in each)


def base64(each: str) -> str:
    return b64encode(each.encode()).decode()


WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in another case": str.swapcase,
    "JSON": json.dumps,
    "JSON with slashes": lambda each: json.dumps(each).replace("/", r"\/"),
    "JSON in JSON": lambda each: json.dumps(json.dumps(each)),
    "\\u": escaped,
    "\\u in JSON": lambda each: json.dumps(escaped(each)),
    "\\u{}": lambda each: "".join(f"\\u{{{ord(one):x}}}" for one in each),
    "\\U": lambda each: "".join(f"\\U{ord(one):08x}" for one in each),
    "octal": lambda each: "".join(f"\\{one:03o}" for one in each.encode()),
    "hexadecimal": lambda each: each.encode().hex(),
    "hexadecimal of .NET": lambda each: each.encode().hex("-").upper(),
    "\\x": lambda each: "".join(f"\\x{ord(one):02X}" for one in each),
    "HTML": html.escape,
    "HTML twice": lambda each: html.escape(html.escape(each)),
    "HTML by numbers": lambda each: "".join(f"&#{ord(one)};" for one in each),
    "HTML in hexadecimal": lambda each: "".join(f"&#x{ord(one):X};" for one in each),
    "HTML in JSON": lambda each: json.dumps(html.escape(each)),
    "URL": lambda each: quote(each, safe=""),
    "URL of a form": quote_plus,
    "URL twice": lambda each: quote(quote(each, safe=""), safe=""),
    "URL three times": lambda each: quote(quote(quote(each, safe=""), safe=""), safe=""),
    "URL in every byte": lambda each: "".join(f"%{one:02x}" for one in each.encode()),
    "URL in part": lambda each: "".join(
        quote(one, safe="") if number % 3 else f"%{ord(one):02X}" if one.isascii() else one
        for number, one in enumerate(each)
    ),
    "Base64": base64,
    "Base64 one later": lambda each: base64(f"-{each}"),
    "Base64 two later": lambda each: base64(f"--{each}--"),
    "Base64 of JSON": lambda each: base64(json.dumps({"headers": {"k": each}}, ensure_ascii=False)),
    "Base64 for URLs": lambda each: urlsafe_b64encode(f"?{each}".encode()).decode(),
    "Base64 in a URL": lambda each: quote(base64(each), safe=""),
    "Base64 twice": lambda each: base64(f"-{base64(each)}"),
    "the beginning": lambda each: each[:8],
    "the middle": lambda each: each[9:17],
    "the end": lambda each: each[-8:],
    "the beginning in a URL": lambda each: quote(each[:8], safe=""),
    "the end in HTML": lambda each: html.escape(each[-8:]),
    "the middle in Base64": lambda each: base64(each[3:15]),
}
SUBSCRIPTIONS = {
    "URL": a_subscription(endpoint_url=f"https://h/?v=1&code={quote(SECRET)}"),
    "URL without names": a_subscription(endpoint_url=f"https://h/?{quote(SECRET)}"),
    "secret header": a_subscription(
        headers=(StaticHeader(name="x-key", value=SECRET, is_secret=True),)
    ),
    "signature": a_subscription(signing=("whsec_", SECRET)),
    "authorization": a_subscription(headers=(StaticHeader(name="Authorization", value=SECRET),)),
}


@pytest.mark.parametrize("subscription", SUBSCRIPTIONS.values(), ids=SUBSCRIPTIONS)
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_a_secret_is_withheld(write: Callable[[str], str], subscription: object) -> None:
    secrecy = Secrecy(subscription)  # type: ignore[arg-type]

    for said in (write(SECRET), f"you sent {write(SECRET)}, thanks"):
        assert secrecy.shown(said) == WITHHELD
    assert repr(SECRET) not in repr(subscription)


KEY = bytes(range(151, 175)) + b"\x00k\xe9y\xff\xfe\x80<"
ENCODED = b64encode(KEY).decode()
CREDENTIALS = {
    "signing secret": a_subscription(signing=(f"whsec_{ENCODED}",)),
    "the one before": a_subscription(signing=(f"whsec_{base64('x' * 32)}", f"whsec_{ENCODED}")),
    "signature in the URL": a_subscription(endpoint_url=f"https://h/?sig={quote(ENCODED)}"),
    "key in the URL": a_subscription(
        endpoint_url=f"https://h/?code={urlsafe_b64encode(KEY).decode().rstrip('=')}"
    ),
    "hexadecimal in the URL": a_subscription(endpoint_url=f"https://h/?code={KEY.hex().upper()}"),
    "secret header": a_subscription(
        headers=(StaticHeader(name="x-key", value=ENCODED, is_secret=True),)
    ),
    "authorization": a_subscription(
        headers=(StaticHeader(name="Authorization", value=f"Basic {ENCODED}"),)
    ),
}
OF_BYTES: dict[str, Callable[[bytes], str]] = {
    "hexadecimal": bytes.hex,
    "capital hexadecimal": lambda each: each.hex().upper(),
    "part in hexadecimal": lambda each: each[5:13].hex(),
    "hexadecimal of .NET": lambda each: each.hex("-").upper(),
    "hexadecimal of Node": lambda each: f"<Buffer {each.hex(' ')}>",
    "hexadecimal with colons": lambda each: each.hex(":"),
    "hexadecimal of C": lambda each: ", ".join(f"0x{one:02x}" for one in each),
    "hexadecimal in lines": lambda each: each.hex("\n", 4),
    "Base64": lambda each: b64encode(each).decode(),
    "Base64 without padding": lambda each: b64encode(each).decode().rstrip("="),
    "Base64 for URLs": lambda each: urlsafe_b64encode(each).decode(),
    "Base64 for URLs without padding": lambda each: urlsafe_b64encode(each).decode().rstrip("="),
    "Base64 in a URL": lambda each: quote(b64encode(each), safe=""),
    "Base64 one later": lambda each: b64encode(b"-" + each).decode(),
    "Base64 two later": lambda each: b64encode(b"--" + each).decode(),
    "Base64 of Base64": lambda each: base64(b64encode(each).decode()),
    "Python": repr,
    "JSON": lambda each: json.dumps(each.decode("latin-1")),
    "URL": lambda each: quote(each, safe=""),
    "URL in every byte": lambda each: "".join(f"%{one:02x}" for one in each),
}


@pytest.mark.parametrize("subscription", CREDENTIALS.values(), ids=CREDENTIALS)
@pytest.mark.parametrize("write", OF_BYTES.values(), ids=OF_BYTES)
def test_the_bytes_of_a_key_are_withheld(
    write: Callable[[bytes], str], subscription: EventSubscription
) -> None:
    for said in (write(KEY), f"expected {write(KEY)}, sorry"):
        assert Secrecy(subscription).shown(said) == WITHHELD


def test_a_password_is_withheld_without_its_encoding() -> None:
    basic = "Basic " + base64("crm:s3cret p\u00e4ssword")
    secrecy = Secrecy(a_subscription(headers=(StaticHeader(name="Authorization", value=basic),)))

    assert secrecy.shown("there is no s3cret p\u00e4ssword") == WITHHELD
    assert secrecy.shown("wrong password of crm") == "wrong password of crm"


@pytest.mark.parametrize(
    "said",
    [
        f"you sent Bearer {TOKEN}",
        TOKEN[:20],
        base64(f"-{TOKEN}"),
        quote(quote(f"Bearer {TOKEN[30:]}")),
        json.dumps({"authorization": f"bearer {TOKEN}"}),
    ],
)
def test_a_token_is_withheld(said: str) -> None:
    secrecy = Secrecy(a_subscription(audience=Audience("t", "a")))

    assert secrecy.shown(said) == WITHHELD


@pytest.mark.parametrize(
    "said",
    [
        "",
        '{"message": "accepted", "id": "0f2b7c66-3f0c-4d8e-8a5d-0c7f5a0f6b11"}',
        "<html><body><h1>502 Bad Gateway</h1>&nbsp;&copy; 100% of the password</body></html>",
        SECRET[:7],
        SECRET[-7:],
        "v=1&code=",
        'Bearer realm="crm"',
        'Bearer authorization_uri="https://login.windows.net/t", resource_id="a"',
    ],
)
def test_what_repeats_no_secret_is_shown(said: str) -> None:
    for each in (*SUBSCRIPTIONS.values(), *CREDENTIALS.values()):
        assert Secrecy(each).shown(said) == said
    assert Secrecy(a_subscription(audience=Audience("t", "a"))).shown(said) == said


@pytest.mark.parametrize(
    ("secret", "said", "is_shown"),
    [
        ("abcd", "<abcd>", False),
        ("abcdefg", base64("(abcdefg)"), False),
        ("abcdefg", "<abcdef>", True),
        ("abc", "<abc>", True),
    ],
)
def test_of_a_short_secret_the_whole_is_withheld(secret: str, said: str, *, is_shown: bool) -> None:
    secrecy = Secrecy(a_subscription(endpoint_url=f"https://h/?code={secret}"))

    assert (secrecy.shown(said) == said) is is_shown


CODE = "Zf9-s3cretKeyOfTheExtension_Q=="


@pytest.mark.parametrize("name", ["functionName", "functionname", "FUNCTIONNAME", "function%4eame"])
def test_the_name_of_a_function_is_no_secret(name: str) -> None:
    url = f"https://h/runtime/webhooks/EventGrid?{name}=ProcessOrder&code={CODE}"
    secrecy = Secrecy(a_subscription(endpoint_url=url))

    for said in (
        "Exception while executing function: Functions.ProcessOrder",
        "cannot find function: 'ProcessOrder'",
    ):
        assert secrecy.shown(said) == said
        assert secrecy.shown(f"{said} ({CODE})") == WITHHELD


@pytest.mark.parametrize(
    ("query", "said", "is_shown"),
    [
        ("functionName=main&code=abcdefgh", "the remainder", True),
        ("functionName=abcdefgh&code=abcdefgh", "abcdefgh", False),
        ("functionName", "functionName is missing", True),
        ("function=main&code=abcdefgh", "the remainder", False),
        ("sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=abcdefgh", "of its triggers manual", True),
        ("functionName=Host.Functions.On_blob-1&code=a", "Host.Functions.On_blob-1", True),
        ("api-version=2016-10-01&sig=abcdefgh", "Use 2016-10-01", True),
        ("api-version=2016-10-01-preview&sig=abcdefgh", "Use 2016-10-01-preview", True),
        ("sp=%2Ftriggers%2Fmanual%2Frun&sig=abcdefgh", "abcdefgh", False),
    ],
)
def test_only_named_members_of_a_query_are_no_secrets(
    query: str, said: str, *, is_shown: bool
) -> None:
    secrecy = Secrecy(a_subscription(endpoint_url=f"https://h/?{query}"))

    assert (secrecy.shown(said) == said) is is_shown


@pytest.mark.parametrize("name", ["functionName", "api-version", "sp", "sv", "se"])
@pytest.mark.parametrize(
    "value",
    [
        "{0}%26code%3D{1}",
        "{0}%2526code%253D{1}",
        "{0}?code={1}",
        "{0};code={1}",
        "{0}%26amp%3Bcode={1}",
        "{0}%0Acode={1}",
        "{0}+{1}",
        "{1}",
    ],
)
def test_a_key_in_the_value_of_a_member_that_is_no_secret_is_one(name: str, value: str) -> None:
    """A separator was mistyped, or the values were mixed up."""
    usual = {"functionName": "P", "api-version": "2016-10-01", "sp": "/triggers/manual/run"}
    written = value.format(usual.get(name, "1"), CODE)
    secrecy = Secrecy(a_subscription(endpoint_url=f"https://h/?{name}={written}"))

    assert secrecy.shown(f"cannot find function: '{unquote(written)}'") == WITHHELD
    assert secrecy.shown(f"of the key {CODE}") == WITHHELD


def test_what_is_clipped_away_is_no_matter() -> None:
    secrecy = Secrecy(SUBSCRIPTIONS["URL"])

    assert secrecy.shown("x" * 511 + SECRET) == "x" * 511 + "…"
    assert secrecy.shown("x" * 503 + SECRET) == WITHHELD
    assert secrecy.shown("%25" * 100_000 + SECRET).endswith("…")
