"""Decides what of an endpoint's words may be shown or stored: they may repeat its secrets."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from html import unescape
from urllib.parse import unquote, urlsplit

from shared.clip import LONGEST, clip
from shared.subscriptions.signing import PREFIX
from shared.subscriptions.subscription import EventSubscription, StaticHeader

WITHHELD = "Withheld: it repeats a secret of the event subscription."
_RUN = 8  # characters of a secret that tell too much of it
_LOCATIONS = ("location", "content-location")
# The query, also an encoded one, and the user: secrets of whoever is redirected to.
_SECRET_OF_LOCATION = re.compile(r"(?:[?#]|%3f|%23).*|(?<=//)[^/?#]*@", re.DOTALL | re.IGNORECASE)
_LAYERS = 8  # of escapes: more would cost more than they can mean
_SHORTEST = 4  # characters: a shorter secret can't be told from other text

# What is no secret in the query of an endpoint's URL, by names in lower case, if the decoded value
# looks so: after a mistyped separator a key would be part of it. Everything else is a secret.
_NO_SECRETS = {
    # The function, which its host's errors name; its name is read in any case. Source: Azure
    # Functions "How to work with Event Grid triggers and bindings", webhook endpoint URL.
    "functionname": re.compile(r"[a-z][\w.-]{0,127}", re.ASCII | re.IGNORECASE),
    # Version of the API, and what the signature ``sig`` permits. Source: Logic Apps REST API,
    # "Workflow Triggers - List Callback Url", queries.
    "api-version": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?"),
    "sp": re.compile(r"/triggers/[\w-]{1,80}/run", re.ASCII),
}

# Escapes by number of JSON, JavaScript, Python and C; what else has a backslash stands for itself.
_ESCAPE = re.compile(
    r"\\u0000([0-9a-f]{4})|[\\%]u([0-9a-f]{4})|\\u\{([0-9a-f]{1,4})\}|\\x([0-9a-f]{2})"
    r"|\\(?P<octal>[0-3][0-7]{2})",
    re.IGNORECASE,
)
# Base64 in either alphabet is one, and so are the spaces of forms; case is no difference.
_FOLDED = str.maketrans({"-": "+", "_": "/", " ": "+", "\\": None})
_STANDARD = str.maketrans("-_", "+/")  # Base64 for URLs in the other alphabet
# Signs between two bytes in hexadecimal: `97-98` of .NET, `<Buffer 97 98>` of Node, `0x97, 0x98`.
_BETWEEN_BYTES = re.compile(r"(?<=[0-9a-f]{2})[^0-9a-z]*(?:0x)?(?=[0-9a-f]{2})")
# Tokens of Entra ID, which are not known here, begin so; a challenge names its parameters.
_JWT_HEAD = "eyJ0eXAiOiJKV1QiLCJhbGciOi"
_TOKEN = re.compile(r"eyj[\w+/]{5}|bearer\++(?![a-z/]+=)[\w.~+/=]{8}")


class Secrecy:
    """
    Withholds texts that repeat a secret of a subscription.

    Secrets are the values in the query of its URL but those as in `_NO_SECRETS`, secret headers,
    those that sign its requests, and tokens for it. A text is withheld if it has a run of 8
    characters of one, or a secret of 4 to 7 characters as a whole: as it is, or below up to 8
    layers of percent-encoding and of HTML's and JSON's escapes, which need not be complete, and in
    up to two of Base64 or one of hexadecimal digits, whatever signs are between their pairs. A list
    of decimal numbers is not recognized. The 8 or more bytes of which a secret is the Base64 or the
    hexadecimal digits are secret as well: those of a key, and what ``Basic`` encodes.
    """

    def __init__(self, subscription: EventSubscription) -> None:
        self._has_token = subscription.destination.audience is not None
        self._runs = {run for each in _secrets(subscription) for run in _runs(each)}
        self._sizes = {len(each) for each in self._runs}

    def shown(self, text: str, longest: int = LONGEST) -> str:
        """Return the clipped *text*, or `WITHHELD`; what clipping takes away is no matter."""
        clipped = clip(text, longest)
        return WITHHELD if any(map(self._is_telling, _layers(clipped))) else clipped

    def header(self, name: str, value: str, longest: int = LONGEST) -> str:
        """Return what is shown of a header with a small *name*: no query, no user of a location."""
        return self.shown(
            _SECRET_OF_LOCATION.sub("", value) if name in _LOCATIONS else value, longest
        )

    def _is_telling(self, text: str) -> bool:
        folded = _folded(text)
        if self._has_token and _TOKEN.search(folded):
            return True
        forms = (folded, _BETWEEN_BYTES.sub("", folded))
        return any(
            not self._runs.isdisjoint(_windows(each, size))
            for each in forms
            for size in self._sizes
        )


def _secrets(subscription: EventSubscription) -> Iterator[str]:
    for field in urlsplit(subscription.endpoint_url).query.split("&"):
        name, _, value = field.partition("=")
        looks = _NO_SECRETS.get(unquote(name).lower())
        if not (looks and looks.fullmatch(unquote(value or name))):
            yield value or name
    for each in subscription.headers:
        if isinstance(each, StaticHeader) and (each.is_secret or _is_authorization(each)):
            yield each.value
    yield from subscription.signing
    if subscription.destination.audience:
        yield _JWT_HEAD


def _is_authorization(header: StaticHeader) -> bool:
    return header.name.lower() == "authorization"


def _runs(secret: str) -> Iterator[str]:
    """Yield the runs by which *secret* is recognized, in all of its forms."""
    forms = {each for each in _layers(secret) if len(each) >= _SHORTEST}
    keys = {key for each in forms for key in _decoded(each) if len(key) >= _RUN}
    encoded = keys | {each.encode(errors="replace") for each in forms}
    digits = {each.hex() for each in encoded}
    forms |= {text for each in keys for text in _texts(each)}
    for _ in range(2):
        found = {each for data in encoded for each in _base64(data)}
        forms |= found
        encoded = {each.encode() for each in found}
    for size, texts in ((_RUN, forms), (2 * _RUN, digits)):
        for each in texts:
            for run in map(_folded, _windows(each, min(size, len(each)))):
                if len(run) >= _SHORTEST:
                    yield run


def _windows(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(len(text) - size + 1))


def _folded(text: str) -> str:
    return text.lower().translate(_FOLDED)


def _layers(text: str) -> Iterator[str]:
    """Yield *text*, and what is below each layer of escapes."""
    for _ in range(_LAYERS):
        yield text
        below = _ESCAPE.sub(_character, text)
        below = unescape(below.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        if (below := unquote(below, errors="surrogateescape")) == text:
            return
        text = below


def _character(found: re.Match[str]) -> str:
    return chr(int(found[found.lastindex or 0], 8 if found["octal"] else 16))


def _decoded(secret: str) -> Iterator[bytes]:
    """Yield the bytes that *secret*, or what follows its scheme or prefix, may stand for."""
    encoded = secret.rpartition(" ")[2].removeprefix(PREFIX).rstrip("=")
    padded = encoded.translate(_STANDARD) + "=" * (-len(encoded) % 4)
    with suppress(ValueError):
        yield b64decode(padded, validate=True)
    with suppress(ValueError):
        yield bytes.fromhex(encoded)


def _texts(key: bytes) -> Iterator[str]:
    """Yield *key* as text: of UTF-8, and with a character for each byte."""
    yield key.decode(errors="surrogateescape")
    yield key.decode("latin-1")


def _base64(data: bytes) -> Iterator[str]:
    """Yield what *data* is in Base64 whatever stands before and after it."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        yield encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
