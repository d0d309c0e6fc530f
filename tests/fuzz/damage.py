"""How requests are damaged: documents at every place, and what is around them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.fuzz.documents import Given

Place = tuple[str | int, ...]

GONE = object()  # in the place of a value: it isn't there
#: In the place of any value, one of each kind that is likely to be forgotten.
JUNK: tuple[Any, ...] = (
    *(GONE, None, True, 0, -1, 2**63, 10**400, 0.5, 1e308, float("nan"), float("-inf")),
    *("", " ", "a" * 5000, "\x00\r\n", "☃\U0001f4b6", "\ud800", "NaN", "../../x?y#z"),
    *("https://[::1", "9999-12-31T23:59:59.9999999-12:00", "P9999999999D"),
    *([], [[]], [None, 1, "a", {}], {}, {"": {"a": [{}]}}, {"a": {"a": {"a": {}}}}),
)
#: In the place of a whole body.
RAW = (
    *(b"", b" ", b"{", b"[", b"null", b"nul", b"0", b'"a"', b"[1,]", b'{"a":1,"a":{}}'),
    *(b'{"a":NaN}', b"-Infinity", b"1e999", b"9" * 5000, b'"\\ud800"', b'{"\\udfff":1}'),
    *(b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\xc3\x28", b"[" * 100_000, b'{"a":' * 100_000),
    *(b"[" * 63 + b"]" * 63, b"{}" * 2, b"\x00" * 100, b'[{"id":"a"},'),
)
METHODS = ("GET", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "HEAD", "TRACE", "put", "X", "")
SEGMENTS = (
    *("", ".", "..", "%2E%2E", "%2F", "a%2Fb", "%5C", "%00", "%23%3F", "%", "%zz", "%FF%FE"),
    *("%ED%A0%80", "☃", "%E2%98%83", "a b", "a.b", "*", "{path}", "'\"<>", "A" * 9000),
    *("Microsoft-x", "con", "🏳"),
)
TEXTS = ("", "0", "-1", "1e3", "٣", "101", "%00", "%", "%FF", "x" * 9000, "☃", "name eq 'a", "a/b")
PARAMETERS = (
    *("$top", "$filter", "$skiptoken", "timespan", "interval", "metricnames", "aggregation"),
    "api-version",
)
#: What parameters of metrics look like, up to their limits.
METRICS = (
    "2026-02-09T11:00:00Z/2026-02-09T12:00:00Z",
    "0001-01-01T00:00:00Z/9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00%2B14:00/9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z/9999-12-31T23:59:59-14:00",
    "FULL",
    "deliverysuccesscount,DroppedEventCount",
    "EventSubscriptionName eq '*' and (DropReason eq 'a' or DropReason eq '')",
)
FILTERS = (
    "name eq 'crm'",
    "contains(name,'r') and not name ne 'x' or name eq ''''",
    "not " * 200 + "name eq 'x'",
    "(" * 500,
    "contains(name, crm)",
    "topic eq 'x'",
    "name eq 'a' and",
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Give every place in a document, itself first."""
    yield at
    if isinstance(value, dict):
        for name, member in value.items():
            yield from places(member, (*at, name))
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from places(member, (*at, number))


def changed(value: Any, place: Place, new: Any) -> Any:
    """Return a copy of *value* that has *new* at *place*."""
    if not place:
        return None if new is GONE else new
    first, *rest = place
    copy = value.copy()
    if rest:
        copy[first] = changed(copy[first], tuple(rest), new)
    elif new is GONE:
        del copy[first]
    else:
        copy[first] = new
    return copy


_junk = st.sampled_from(JUNK)
_names = st.sampled_from(("", "id", "ID", "type", "data", "properties", "☃", "\ud800", "n" * 999))


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """Draw *document* with up to three faults."""
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(list(places(document))))
        found = _at(document, place)
        if isinstance(found, dict) and draw(st.booleans()):
            document = changed(document, (*place, draw(_names)), _kept(draw(_junk)))
        elif isinstance(found, list) and draw(st.booleans()):
            document = changed(document, place, found * draw(st.sampled_from((2, 30, 300))))
        else:
            document = changed(document, place, draw(_junk))
    return document


@st.composite
def bodies(draw: st.DrawFn, documents: Sequence[Any]) -> bytes:
    """Draw the body of a request: a damaged document, cut or garbled, or something else."""
    how = draw(st.sampled_from(("whole",) * 8 + ("cut", "garbled", "raw")))
    if how == "raw":
        return draw(st.sampled_from(RAW) | st.binary(max_size=50))
    body = json.dumps(draw(damaged(draw(st.sampled_from(documents))))).encode()
    if how == "whole":
        return body
    at = draw(st.integers(0, len(body)))
    return body[:at] if how == "cut" else body[:at] + draw(st.binary(max_size=3)) + body[at + 1 :]


@st.composite
def paths(draw: st.DrawFn, path: str) -> str:
    """Draw *path*, or one with a segment that is odd, doubled, or too many or too few."""
    how = draw(st.sampled_from(("same",) * 5 + ("odd", "odd", "more", "less", "doubled", "/")))
    segments = path.split("/")
    at = draw(st.integers(1, len(segments) - 1))
    odd = draw(st.sampled_from(SEGMENTS))
    match how:
        case "odd":
            segments[at] = odd
        case "more":
            segments.insert(at, odd)
        case "less":
            del segments[at]
        case "doubled":
            segments[at] += "/"
        case "/":
            segments.append("")
    return "/".join(segments)


@st.composite
def queries(draw: st.DrawFn, api_version: str) -> str:
    """Draw a query, which most often has *api_version*."""
    version = draw(st.sampled_from((f"api-version={api_version}",) * 8 + ("", "api-version=x")))
    names = ("$top", "$filter", "$skiptoken", "timespan", "interval", "metricnames", "", "a")
    texts = st.sampled_from(TEXTS + FILTERS)
    parts = [f"{draw(st.sampled_from(names))}={draw(texts)}" for _ in range(draw(_few))]
    return "&".join([version, *parts, *draw(st.sampled_from(((),) * 5 + (("&&=",), (version,))))])


_few = st.sampled_from((0, 0, 0, 1, 2))
_values = ("", " ", "x" * 20_000, "☃", "\xff\xfe", "application/json; charset=x", '"', ";;", "0")
_headers = (
    "content-type",
    "content-length",
    "host",
    "x-forwarded-for",
    "x-ms-client-request-id",
    "x-ms-return-client-request-id",
    "aeg-event-type",
    "ce-specversion",
    "ce-id",
    "if-match",
    "x" * 300,
    "x-☃",
)


@st.composite
def headers(draw: st.DrawFn, access: Sequence[dict[str, str]], content: str) -> dict[str, str]:
    """Draw headers; the first way of *access* is the one that is let in, most often."""
    found = {"content-type": content}
    found |= access[0] if draw(st.integers(0, 5)) else draw(st.sampled_from(access))
    for _ in range(draw(_few)):
        found[draw(st.sampled_from(_headers))] = draw(st.sampled_from(_values))
    return found


class Sent(NamedTuple):
    """A request; its target is a path and a query."""

    method: str
    target: str
    body: bytes
    headers: dict[str, str]


@st.composite
def managing(draw: st.DrawFn, valid: Sequence[Given], access: Sequence[dict[str, str]]) -> Sent:
    """Draw a management request, which is damaged or one of *valid*."""
    given = draw(st.sampled_from(valid))
    method = given.method if draw(st.integers(0, 9)) else draw(st.sampled_from(METHODS))
    documents = [given.document] if given.document else [None, {}, {"properties": {}}]
    return Sent(
        method=method,
        target=f"{draw(paths(given.path))}?{draw(queries('2025-02-15'))}",
        body=draw(bodies(documents)) if method not in {"GET", "DELETE"} else b"",
        headers=draw(headers(access, "application/json")),
    )


@st.composite
def publishing(
    draw: st.DrawFn,
    path_and_version: tuple[str, str],
    documents: Sequence[Any],
    access: Sequence[dict[str, str]],
    content: str = "application/json",
) -> Sent:
    """Draw a publish request."""
    path, api_version = path_and_version
    return Sent(
        method=draw(st.sampled_from(("POST",) * 9 + METHODS)),
        target=f"{draw(paths(path))}?{draw(queries(api_version))}",
        body=draw(bodies(documents)),
        headers=draw(headers(access, content)),
    )


def _kept(value: Any) -> Any:
    return None if value is GONE else value


def _at(document: Any, place: Place) -> Any:
    for step in place:
        document = document[step]
    return document
