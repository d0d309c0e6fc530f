"""
Draws answers and compares how we read them with how h11 does, as a complete client.

Status, body and whether the connection is used again must be the same, but for the differences
that `DIFFERENCES` lists. As a program: ``python -m tests.fuzz.answers --count 100000 --seed 1``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import NamedTuple

import h11

from shared.adapters.http.answer_reader import AnswerReader
from shared.adapters.http.no_answer import NoAnswer
from shared.http import MAX_ANSWER
from tests.fuzz.answer_draws import Draw


class Read(NamedTuple):
    """What a client makes of an answer; status 0: it is none."""

    status: int
    body: bytes
    is_reusable: bool


def read_ours(data: bytes, cuts: Random) -> Read:
    """Read *data* in pieces as we do, up to the end of the connection."""
    answer = AnswerReader()
    try:
        while data and not answer.is_over:
            size = cuts.choice((1, 7, 40, len(data)))
            answer.feed(data[:size])
            data = data[size:]
    except NoAnswer:
        return Read(0, b"", is_reusable=False)
    return Read(answer.status, bytes(answer.body), answer.is_reusable and not data)


def read_theirs(data: bytes) -> Read:
    """Read *data* with h11, up to the end of the connection."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ANSWER)
    client.send(h11.Request(method="POST", target="/", headers=_HEADERS))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    status, body = 0, b""
    with suppress(h11.RemoteProtocolError):
        for event in iter(client.next_event, h11.PAUSED):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif event is h11.NEED_DATA:
                client.receive_data(b"")
            elif not isinstance(event, h11.InformationalResponse):
                break
    is_done = client.their_state is h11.DONE and client.trailing_data == (b"", False)
    return Read(status, body[:MAX_ANSWER], is_done)


_HEADERS = [("Host", "a"), ("Content-Length", "0")]


class Comparison(NamedTuple):
    """One answer, and what either client makes of it."""

    data: bytes
    ours: Read
    theirs: Read


def _holds(pattern: bytes) -> Callable[[bytes], bool]:
    found = re.compile(pattern).search
    return lambda data: found(data) is not None


_IS_FOLDED = _holds(rb"\n[ \t]")
_HAS_CONTROL = _holds(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HAS_CONTROL_IN_REASON = _holds(rb"HTTP/1\.[0-9] [0-9]{3}[^\r\n]*[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HAS_CODING = _holds(rb"(?i)\ntransfer-encoding:")
_HAS_OTHER_CODING = _holds(rb"(?i)\ntransfer-encoding:(?![ \t]*chunked[ \t]*\r?\n)")
_HAS_LENGTH = _holds(rb"(?i)\ncontent-length:")
_REPEATS_LENGTH = _holds(
    rb"(?is)\ncontent-length:[^\n]*(,|\ncontent-length:|\n.*\ncontent-length:)"
)
_HAS_ODD_NUMBER = _holds(rb"[0-9a-fA-F]{17}|\n[0-9a-fA-F]+;")
_HAS_PADDED_SIZE = _holds(rb"\n[0-9A-Fa-f]+[ \t]+;")
_HAS_BARE_LF = _holds(rb"[^\r]\n")
_HAS_EMPTY_LINE_BETWEEN = _holds(rb"\n\r?\n[\r\n]+HTTP")
_IS_OTHER = _holds(rb"\AHTTP/(?!1\.)|\n(HTTP/(?!1\.)|RTSP)")

#: By name: whether a comparison differs for this reason.
DIFFERENCES: Mapping[str, Callable[[Comparison], bool]] = {
    "a fault after the status line costs us the connection, h11 the answer": (
        lambda each: (
            not each.theirs.status
            and not each.ours.is_reusable
            and _holds(rb"(\A|\n)HTTP/1\.[0-9] %d(?![0-9])" % each.ours.status)(each.data)
        )
    ),
    "h11 reads folded lines and control characters in headers, llhttp takes them for faults": (
        lambda each: _is_our_fault(each) and (_IS_FOLDED(each.data) or _HAS_CONTROL(each.data))
    ),
    "h11 reads equal lengths as one, llhttp takes them for faults": (
        lambda each: _is_our_fault(each) and _REPEATS_LENGTH(each.data)
    ),
    "llhttp takes numbers of more than 64 bits and odd chunk extensions for faults": (
        lambda each: _is_our_fault(each) and _HAS_ODD_NUMBER(each.data)
    ),
    "h11 reads bare LF in the last lines of chunks": (
        lambda each: (
            _only_keeps(each.theirs, each.ours)
            and _HAS_CODING(each.data)
            and _HAS_BARE_LF(each.data)
        )
    ),
    "llhttp reads control characters in the reason": (
        lambda each: not each.theirs.status and _HAS_CONTROL_IN_REASON(each.data)
    ),
    "llhttp skips empty lines before and after an answer": (
        lambda each: (
            (not each.theirs.status and _HAS_EMPTY_LINE_BETWEEN(each.data))
            or (_only_keeps(each.ours, each.theirs) and each.data.endswith((b"\r", b"\n")))
        )
    ),
    "llhttp reads blanks after a chunk size": (
        lambda each: each.ours.status == each.theirs.status and _HAS_PADDED_SIZE(each.data)
    ),
    "h11 reads other versions, llhttp other protocols behind an informational response": (
        lambda each: _IS_OTHER(each.data)
    ),
    "h11 knows no coding but chunked": lambda each: _HAS_OTHER_CODING(each.data),
    "205 has no content": (
        lambda each: each.theirs.status == 205 and each.ours == Read(205, b"", is_reusable=False)
    ),
    "h11 keeps no connection of HTTP/1.0": (
        lambda each: _only_keeps(each.ours, each.theirs) and b"HTTP/1.0 " in each.data
    ),
    "we keep no connection after a length beside a coding, or a coding without content": (
        lambda each: (
            _only_keeps(each.theirs, each.ours)
            and _HAS_CODING(each.data)
            and (_HAS_LENGTH(each.data) or each.ours.status == 204)
        )
    ),
}


def _only_keeps(keeping: Read, closing: Read) -> bool:
    return keeping.is_reusable and closing == keeping._replace(is_reusable=False)


def _is_our_fault(each: Comparison) -> bool:
    """Tell whether only we have seen a fault: then we know the status, and keep no connection."""
    return (
        each.ours.status == each.theirs.status
        and not each.ours.is_reusable
        and each.theirs.body.startswith(each.ours.body)
    )


def compare(random: Random, count: int) -> tuple[Counter[str], list[Comparison]]:
    """Draw *count* answers; return how often they were read how, and what is not listed."""
    draw, found, unlisted = Draw(random), Counter[str](), []
    for _ in range(count):
        data = draw.answer()
        each = Comparison(data, read_ours(data, random), read_theirs(data))
        if each.ours == each.theirs:
            found["alike"] += 1
        elif name := next((name for name, is_it in DIFFERENCES.items() if is_it(each)), None):
            found[name] += 1
        else:
            unlisted.append(each)
    return found, unlisted


def main(arguments: list[str]) -> int:
    """Compare, and print a table; return 1 if there is a difference that is not listed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.answers", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="answers to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    options = parser.parse_args(arguments)
    found, unlisted = compare(Random(options.seed), options.count)
    lines = [f"{number:8}  {name}" for name, number in found.most_common()]
    lines += [f"{len(unlisted):8}  differences that are not listed", *map(str, unlisted[:20])]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
