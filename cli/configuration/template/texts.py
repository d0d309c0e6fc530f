"""Defines the functions for texts."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import SplitResult, quote, unquote_plus, urljoin, urlsplit

from cli.configuration.source import check_size
from cli.configuration.template.composite_format import formatted
from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.unique_names import guid, unique_string
from cli.configuration.template.values import kind_of, named, text_of

_MAX_WIDTH = 16  # of padLeft()
_DATA_URI = re.compile(r"data:[^,]*?(;base64)?,(.*)", re.DOTALL)
_UTF_16 = "utf-16-le"
_PORTS = {"http": 80, "https": 443}
_NEVER_UPPER = "\u0131\u017f"  # dotless i and long s: nothing becomes ASCII
_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_OF_URIS = "%!#$&'()*+,/:;=?@[]~"  # characters that a URI keeps


def units(text: str) -> int:
    """Return the length of a text as ARM counts it, in units of UTF-16."""
    return len(text) + sum(each > "\uffff" for each in text)


def cut(text: str, start: int, end: int | None) -> str:
    """
    Return the part of a text between two places, counted in units of UTF-16.

    Raises:
        ExpressionFault: one is in the midst of a character.
    """
    if text.isascii():
        return text[start:end]
    stop = None if end is None else 2 * end
    try:
        return text.encode(_UTF_16, "surrogatepass")[2 * start : stop].decode(_UTF_16)
    except UnicodeDecodeError:
        raise ExpressionFault("a character beyond 16 bits can't be cut in two") from None


def read_json(text: str, name: str = "json") -> Any:
    """
    Return the value of a JSON text.

    Raises:
        ExpressionFault: it is malformed; the fault is that of the function *name*.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError:
        raise ExpressionFault(f"{name}(): the text is not JSON") from None


def _substring(text: str, start: int, length: int | None = None) -> str:
    size = units(text)
    end = size if length is None else start + length
    if not 0 <= start <= end <= size:
        raise ExpressionFault(f"substring(): the text has only {size} characters")
    return cut(text, start, end)


def _split(text: str, delimiters: str | list[Any]) -> list[str]:
    given = [delimiters] if isinstance(delimiters, str) else delimiters
    if not all(isinstance(each, str) for each in given):
        raise ExpressionFault("split(): each delimiter must be text")
    wanted = [re.escape(each) for each in given if each]
    check_size(len(text) * len(wanted))  # so many comparisons
    return re.split("|".join(wanted), text) if wanted else [text]


def _join(values: Sequence[Any], delimiter: str) -> str:
    if not all(isinstance(each, str | int) for each in values):
        raise ExpressionFault("join(): each element must be text, a number, or true or false")
    check_size(len(values) * len(delimiter))
    return delimiter.join(map(text_of, values))


def _replace(text: str, old: str, new: str) -> str:
    if not old:
        raise ExpressionFault("replace(): argument 2 must not be empty")
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _pad_left(text: str | int, width: int, fill: str = " ") -> str:
    if not 1 <= width <= _MAX_WIDTH:
        raise ExpressionFault(f"padLeft(): the width must be from 1 to {_MAX_WIDTH}")
    if units(fill) != 1:
        raise ExpressionFault("padLeft(): argument 3 must be one character")
    return text_of(text).rjust(width, fill)


def _each_letter(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return *change* for letters one by one, as .NET does: what grows stays as it is."""
    return lambda text: "".join(new if len(new := change(each)) == 1 else each for each in text)


_lower = _each_letter(str.lower)
_upper = _each_letter(lambda each: each if each in _NEVER_UPPER else each.upper())


def _decoded(name: str) -> Callable[[str], str]:
    def decode(text: str) -> str:
        try:
            return base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            raise ExpressionFault(f"{name}(): the text is not Base64 of UTF-8") from None

    return decode


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _data_uri(value: Any) -> str:
    kind = "text/plain" if isinstance(value, str) else "application/json"
    return f"data:{kind};charset=utf-8;base64,{_base64(text_of(value))}"


def _of_data_uri(text: str) -> str:
    match = _DATA_URI.fullmatch(text)
    if match is None:
        raise ExpressionFault("dataUriToString(): the text is not a data URI")
    return _decoded("dataUriToString")(match[2]) if match[1] else unquote_plus(match[2])


def _split_uri(text: str, name: str) -> SplitResult:
    try:
        found = urlsplit(quote(text, safe=_OF_URIS))
        port = found.port
    except ValueError:
        found, port = urlsplit(""), None
    if not (found.scheme and found.hostname):
        raise ExpressionFault(f"{name}(): this is not a URI such as https://example.com/")
    if port is not None and port == _PORTS.get(found.scheme):
        found = found._replace(netloc=found.netloc.rpartition(":")[0])
    user, at, host = found.netloc.rpartition("@")
    return found._replace(netloc=f"{user}{at}{host.lower()}", path=found.path or "/")


def _uri(base: str, relative: str) -> str:
    _split_uri(base, "uri")
    try:
        joined = urljoin(base, relative)
    except ValueError:
        raise ExpressionFault("uri(): argument 2 must be a URI, or the end of one") from None
    return _split_uri(joined, "uri").geturl()


def _parse_uri(text: str) -> dict[str, Any]:
    found = _split_uri(text, "parseUri")
    parts = {
        "scheme": found.scheme,
        "host": found.hostname or "",
        "port": found.port,
        "path": found.path,
    }
    return {**parts, "query": f"?{found.query}"} if found.query else parts


def _build_uri(parts: Mapping[str, Any]) -> str:
    known = {each.casefold(): value for each, value in parts.items()}

    def part(name: str, kind: str = "text") -> Any:
        if (value := known.get(name)) is not None and kind_of(value) != kind:
            raise ExpressionFault(f"buildUri(): {name} must be {named(kind)}")
        if not value and name in {"scheme", "host"}:
            raise ExpressionFault(f"buildUri(): {name} is missing")
        return value

    port, path, query = part("port", "int"), part("path") or "", part("query") or ""
    start = f"{part('scheme')}://{part('host')}{'' if port is None else f':{port}'}"
    mark = "?" if query else ""
    return f"{start}/{path.removeprefix('/')}{mark}{query.removeprefix('?')}"


def index_of(text: str, part: str) -> int:
    """Return where the first of *part* begins in *text*, whatever its case, or -1."""
    at = _lower(text).find(_lower(part))
    return units(text[:at]) if at > 0 else at


def last_index_of(text: str, part: str) -> int:
    """Return where the last of *part* begins in *text*, whatever its case, or -1."""
    at = _lower(text).rfind(_lower(part)) if part else max(len(text) - 1, 0)
    return units(text[:at]) if at > 0 else at


TEXTS: Mapping[str, Callable[..., Any]] = {
    "base64(text)": _base64,
    "base64ToJson(text)": lambda text: read_json(_decoded("base64ToJson")(text), "base64ToJson"),
    "base64ToString(text)": _decoded("base64ToString"),
    "buildUri(object)": _build_uri,
    "dataUri(text|int|float|bool|array|object)": _data_uri,
    "dataUriToString(text)": _of_data_uri,
    "endsWith(text, text)": lambda text, end: _lower(text).endswith(_lower(end)),
    "format(text, any...)": formatted,
    "guid(text, text...)": guid,
    "join(array, text)": _join,
    "json(text)": read_json,
    "padLeft(text|int, int, text?)": _pad_left,
    "parseUri(text)": _parse_uri,
    "replace(text, text, text)": _replace,
    "split(text, text|array)": _split,
    "startsWith(text, text)": lambda text, start: _lower(text).startswith(_lower(start)),
    "string(text|int|bool|array|object)": text_of,
    "substring(text, int, int?)": _substring,
    "toLower(text)": _lower,
    "toUpper(text)": _upper,
    "trim(text)": lambda text: text.strip(_BLANKS),
    "uniqueString(text, text...)": unique_string,
    "uri(text, text)": _uri,
    "uriComponent(text)": lambda text: quote(text, safe="", errors="surrogatepass"),
    "uriComponentToString(text)": unquote_plus,
}
