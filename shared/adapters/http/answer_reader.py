"""
Reads one answer from the bytes of a connection.

Grammar and framing are llhttp's, the parser of Node.js. The rules on top of it are ours: limits,
what counts as an answer, and after which answers a connection is used again.
"""

from __future__ import annotations

import re

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from httptools.parser.errors import HttpParserInvalidStatusError

from shared.adapters.http.no_answer import NoAnswer
from shared.http import MAX_ANSWER, Failure

MAX_HEAD = 64 * 1024
_MAX_RAW_BODY = 4 * MAX_ANSWER  # tiny chunks cost more than they carry
_BEGINNING = b"HTTP/1."
_KEEP_FOR = re.compile(r"timeout\s*=\s*([0-9]{1,6})")
_FIRST_STATUS = 100
_FIRST_FINAL = 200
_NO_CONTENT = 204
_RESET_CONTENT = 205


class AnswerReader:
    """
    One answer, as far as it has arrived. Informational responses before it are skipped.

    *status* is 0 until the head of the final response is complete. A fault after a valid status
    line ends the reading: the status counts. *headers* have lower-case names; values of a repeated
    name are joined with commas. *body* has at most 64 KiB. *is_over*: nothing more is to be read.
    *is_reusable*: the connection may carry another request.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_over = False
        self.is_reusable = False
        self._begun = b""
        self._left = MAX_HEAD  # bytes that the head may still take, then the body
        self._keeps = False
        self._length: int | None = None  # of a body whose framing is the end of the connection
        self._parser = HttpResponseParser(self)
        # RFC 9112 lets a bare LF end a line of the head (2.2), and ignores a length beside a coding
        # (6.3). Padded chunk sizes are widespread. An informational response may be HTTP/1.0.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,
            lenient_keep_alive=True,
            lenient_version=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    @property
    def keep_for(self) -> float | None:
        """Seconds for which the peer keeps an idle connection; ``None``: it does not say."""
        named = self.headers.get("keep-alive")
        said = _KEEP_FOR.search(named) if named else None
        return float(said[1]) if said else None

    @property
    def keeps(self) -> bool:
        """Whether the peer keeps the connection open, as far as its head says."""
        return self.is_reusable if self.is_over else self._keeps

    @property
    def begun_status(self) -> int:
        """The final status as far as the head has come; 0: not so far."""
        status: int = self._parser.get_status_code()
        return status if status >= _FIRST_FINAL else 0

    def feed(self, data: bytes) -> bool:
        """
        Take bytes that have arrived; return whether the status is known.

        Raises:
            NoAnswer: they are not HTTP/1, or there is a fault before the final status.
        """
        if not self.status:
            self._check_beginning(data)
            head, data = data[: self._left], data[self._left :]
            self._left -= len(head)
            self._parse(head)
            if not self.status and not self._left:
                self._end("head too large")
        if data and self.status and not self.is_over:
            self._left -= len(data)
            self._parse(data)
            if self._left < 0:
                self._end("far more framing than content")
        if self.is_over:
            del self._parser  # which refers to this object
        return self.status > 0

    def _check_beginning(self, data: bytes) -> None:
        """Refuse other protocols, some of which llhttp reads as well."""
        if (missing := len(_BEGINNING) - len(self._begun)) > 0:
            self._begun += data[:missing]
            if not _BEGINNING.startswith(self._begun):
                raise _malformed("does not begin with HTTP/1")

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserInvalidStatusError as fault:
            self._end(str(fault), has_status=False)
        except (HttpParserError, HttpParserUpgrade) as fault:
            self._end(str(fault))

    def _end(self, fault: str, *, has_status: bool = True) -> None:
        """End the reading for a fault: the answer counts if its status line was valid."""
        if not self.status:
            status = self._parser.get_status_code()
            if status < _FIRST_FINAL or not has_status:
                raise _malformed(fault)
            self.status = status
        self.is_over = True
        self.is_reusable = False

    # What llhttp calls while it parses.

    def on_message_begin(self) -> None:
        if self.is_over:
            raise ValueError("an unsolicited second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # Trailers are not used.
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        headers = self.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        parser = self._parser
        status = parser.get_status_code()
        if status < _FIRST_FINAL:
            if status < _FIRST_STATUS:
                raise ValueError(f"status {status}")
            self.headers.clear()
            return
        self.status = status
        self._left = _MAX_RAW_BODY
        self._keeps = parser.should_keep_alive()
        if "transfer-encoding" in self.headers:
            self._read_coding(self.headers["transfer-encoding"])
        elif status == _RESET_CONTENT and not self._keeps:  # without content, whatever its framing
            self.is_over = True

    def _read_coding(self, value: str) -> None:
        """Keep no connection after a doubtful coding (RFC 9112, 6.1 and 6.3)."""
        parser = self._parser
        # A bare LF was right in the head only.
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=False)
        codings = [each.strip().lower() for each in value.split(",")]
        length = self.headers.get("content-length")
        if (
            length is not None
            or codings.count("chunked") != 1
            or self.status == _NO_CONTENT
            or parser.get_http_version() == "1.0"
        ):
            self._keeps = False
        if length is not None and codings[-1] != "chunked":
            self._length = int(length)
            self.is_over = self._length == 0

    def on_body(self, data: bytes) -> None:
        if self.is_over:
            return
        self.body += data
        most = MAX_ANSWER if self._length is None else min(self._length, MAX_ANSWER)
        if len(self.body) > most:
            del self.body[most:]
            self.is_over, self._keeps = True, False
        elif len(self.body) == self._length:
            self.is_over = True

    def on_message_complete(self) -> None:
        if self.status:
            self.is_over, self.is_reusable = True, self._keeps


def _malformed(detail: str) -> NoAnswer:
    return NoAnswer(Failure.MALFORMED, detail)
