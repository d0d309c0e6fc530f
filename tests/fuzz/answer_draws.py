"""Draws answers: most are right, some have faults, some are damaged afterwards."""

from __future__ import annotations

from random import Random


class Draw:
    """Draws one answer after the other from *random*."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def answer(self) -> bytes:
        interim = b"HTTP/1.1 %d Interim%s" * self._random.choice((0, 0, 0, 0, 0, 1, 2))
        numbers = [
            self._random.choice((100, 100, 102, 103, 103, 103, 103, 103, 101))
            for _ in range(interim.count(b"%d"))
        ]
        arguments = [each for number in numbers for each in (number, self._end() + self._end())]
        whole = interim % tuple(arguments) + self._final()
        return self._damaged(whole) if self._chance(0.1) else whole

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _end(self) -> bytes:
        return (
            self._random.choice((b"\n", b"\r", b"\r\r\n", b"")) if self._chance(0.01) else b"\r\n"
        )

    def _final(self) -> bytes:
        one = self._random.choice
        version = one(_VERSIONS) if self._chance(0.05) else b"HTTP/1.1"
        status = one(_STATUSES) if self._chance(0.5) else b"200"
        if self._chance(0.03):
            status = one(_NO_STATUSES)
        reason = one(_REASONS) if self._chance(0.1) else b" OK"
        framing, body = self._framing()
        lines = [one(_LINES) for _ in range(self._random.randrange(4))] + framing
        lines += [one(_DOUBTFUL)] if self._chance(0.1) else []
        self._random.shuffle(lines)
        head = b"".join(line + self._end() for line in [version + b" " + status + reason, *lines])
        stray = one(_STRAY) if self._chance(0.05) else b""
        return head + self._end() + body + stray

    def _framing(self) -> tuple[list[bytes], bytes]:
        content = self._random.randbytes(self._random.choice((0, 0, 1, 2, 30, 300)))
        if self._chance(0.01):
            content = content * 300
        kind = self._random.randrange(10)
        if kind < 5:
            length = b"%d" % len(content)
            if self._chance(0.1):
                length = self._random.choice(_LENGTHS).replace(b"%d", length)
            return [b"Content-Length: " + length], content
        if kind < 9:
            coding = self._random.choice(_CODINGS) if self._chance(0.15) else b"chunked"
            both = [b"Content-Length: %d" % len(content)] if self._chance(0.05) else []
            chunked = content if self._chance(0.05) else self._chunks(content)
            return [b"Transfer-Encoding: " + coding, *both], chunked
        return [], content

    def _chunks(self, content: bytes) -> bytes:
        parts = []
        while content:
            size = self._random.randint(1, len(content))
            number = self._random.choice(_SIZES) % size if self._chance(0.05) else b"%x" % size
            parts.append(number + self._end() + content[:size] + self._end())
            content = content[size:]
        trailer = b"Trailer: x" + self._end() if self._chance(0.1) else b""
        return b"".join([*parts, b"0" + self._end(), trailer, self._end()])

    def _damaged(self, whole: bytes) -> bytes:
        start = self._random.randrange(len(whole))
        end = min(len(whole), start + self._random.choice((0, 1, 1, 2, 20)))
        insert = self._random.choice(
            (b"", b"", b"\r\n", b" ", b"\0", b":", b"\n", b"0", whole[start:end] * 2)
        )
        return whole[:start] if self._chance(0.3) else whole[:start] + insert + whole[end:]


_VERSIONS = b"HTTP/1.0 HTTP/1.0 HTTP/1.7 HTTP/2.0 http/1.1 HTTP/0.9 HTTP/2 ICY RTSP/1.0".split()
_STATUSES = b"201 202 204 204 205 304 400 413 429 500 503 999".split()
_NO_STATUSES = b"101 099 20 2000 x".split()
_REASONS = (b"", b" ", b" Not\tso bad", b" \xe9", b"OK", b" O\0K")
_LINES = (
    *(b"Date: Sun, 22 Nov 2026 18:00:00 GMT", b"Server: x", b"Retry-After:7", b"X: \xff", b"x:y"),
    *(b"X-Empty:", b"Connection: close", b"Connection: keep-alive", b"Connection: x, CLOSE"),
    *(b"Keep-Alive: timeout=5", b"Upgrade: h2c"),
)
_DOUBTFUL = (
    *(b"X: a\0b", b"X: a\x01b", b"no colon", b"bad name: x", b"name : x", b" folded: x"),
    *(b"X: a\r\n folded", b": no name", b"X: a\rb"),
)
_LENGTHS = (
    *(b"%d, 2", b"%d\r\nContent-Length: 1", b"-%d", b"+%d", b"%d ", b" %d", b"0%d", b"1%d"),
    *(b"%dx", b"99999999999999999999%d", b" "),
)
_CODINGS = (
    *(b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"Chunked", b"chunked, chunked"),
    *(b"chunked;q=1", b"x-chunked", b"", b"chunked ", b",chunked"),
)
_SIZES = (
    *(b"%X", b"0%x", b"%x;e", b'%x;e="v"', b"%x  ", b" %x", b"0x%x", b"-%x", b"+%x", b"%x;\0"),
    *(b"ffffffffffffffff%x", b"%x ;e"),
)
_STRAY = (
    *(b"\r\n", b"\n", b"HTTP/1.1 500 Stray\r\n\r\n", b"x", b"\0"),
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
)
