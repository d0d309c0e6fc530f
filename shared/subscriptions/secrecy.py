"""Decides what of an endpoint's words may be shown or stored: they may repeat its secrets."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote, urlsplit

from shared.clip import LONGEST, clip
from shared.subscriptions.subscription import EventSubscription, StaticHeader

WITHHELD = "Withheld: it repeats a secret of the event subscription."
_RUN = 8  # characters of a secret that tell too much of it
_LAYERS = 8  # of escapes: more would cost more than they can mean
_SHORTEST = 4  # characters: a shorter secret can't be told from other text

# Escapes by number of JSON, JavaScript, Python and C; what else has a backslash stands for itself.
_ESCAPE = re.compile(
    r"\\u0000([0-9a-f]{4})|[\\%]u([0-9a-f]{4})|\\u\{([0-9a-f]{1,4})\}|\\x([0-9a-f]{2})"
    r"|\\(?P<octal>[0-3][0-7]{2})",
    re.IGNORECASE,
)
# Base64 in either alphabet is one, and so are the spaces of forms; case is no difference.
_FOLDED = str.maketrans({"-": "+", "_": "/", " ": "+", "\\": None})
# Tokens of Entra ID, which are not known here, begin so; a challenge names its parameters.
_JWT_HEAD = "eyJ0eXAiOiJKV1QiLCJhbGciOi"
_TOKEN = re.compile(r"eyj[\w+/]{5}|bearer\++(?![a-z/]+=)[\w.~+/=]{8}")


class Secrecy:
    """
    Withholds texts that repeat a secret of a subscription.

    Secrets are the values in the query of its URL, its secret headers, those that sign its
    requests, and tokens for it. A text is withheld if it has a run of 8 characters of one, or a
    secret of 4 to 7 characters as a whole: as it is, or below up to 8 layers of percent-encoding
    and of HTML's and JSON's escapes, which need not be complete, and in up to two of Base64 or one
    of hexadecimal digits.
    """

    def __init__(self, subscription: EventSubscription) -> None:
        self._has_token = subscription.destination.audience is not None
        self._runs = {run for each in _secrets(subscription) for run in _runs(each)}
        self._sizes = {len(each) for each in self._runs}

    def shown(self, text: str, longest: int = LONGEST) -> str:
        """Return the clipped *text*, or `WITHHELD`; what clipping takes away is no matter."""
        clipped = clip(text, longest)
        return WITHHELD if any(map(self._is_telling, _layers(clipped))) else clipped

    def _is_telling(self, text: str) -> bool:
        folded = _folded(text)
        if self._has_token and _TOKEN.search(folded):
            return True
        return any(not self._runs.isdisjoint(_windows(folded, size)) for size in self._sizes)


def _secrets(subscription: EventSubscription) -> Iterator[str]:
    for field in urlsplit(subscription.endpoint_url).query.split("&"):
        name, _, value = field.partition("=")
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
    digits = {each.encode(errors="replace").hex() for each in forms}
    for _ in range(2):
        forms |= {each for form in forms for each in _base64(form)}
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
        if (below := unquote(below)) == text:
            return
        text = below


def _character(found: re.Match[str]) -> str:
    return chr(int(found[found.lastindex or 0], 8 if found["octal"] else 16))


def _base64(text: str) -> Iterator[str]:
    """Yield what *text* is in Base64 whatever stands before and after it."""
    for before in range(3):
        data = bytes(before) + text.encode(errors="replace")
        encoded = b64encode(data).decode()
        yield encoded[(before * 8 + 5) // 6 : len(data) * 8 // 6]
