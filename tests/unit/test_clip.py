"""What others have written is clipped in the log: 512 characters, and marked."""

from __future__ import annotations

import json

import pytest

from shared import telemetry
from shared.clip import as_text, clip, clip_ascii, first_line, without_markup


@pytest.mark.parametrize(
    ("text", "clipped"),
    [("", ""), ("x" * 512, "x" * 512), ("x" * 513, "x" * 511 + "…")],
    ids=["empty", "longest", "too long"],
)
def test_a_text_is_clipped_and_marked(text: str, clipped: str) -> None:
    assert clip(text) == clip(clip(text)) == clipped


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        ("grün\r\n".encode(), "grün\r\n"),
        ("grün, doch in Latin-1".encode("latin-1"), "gr\ufffdn, doch in Latin-1"),
        ("a text that is cut off: ü".encode()[:-1], "a text that is cut off: \ufffd"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "(what is no text)"),
        (bytes(range(256)), "(what is no text)"),
    ],
)
def test_what_is_no_text_is_not_shown(body: bytes, text: str) -> None:
    assert as_text(body) == text


PAGE = """\ufeff<!DOCTYPE html>
<!-- <p>not seen</p> -->
<html><head><title>Runtime &amp; Error</title><style>h1 > a {}</style>
<script>if (1 < 2) document.write("<p>");</script></head>
<body bgcolor=white><h1><i>Server</i> Error<br/>in '/'</h1>
  <table><tr><td>a</td><td>b < 1</td></tr></table><a href="cut off"""


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/html", "<b>ab</b>cd <EM\nclass=x>ef</EM>", "abcd ef"),
        ("Text/HTML; charset=utf-8", "no tags\n\n  here", "no tags\nhere"),
        ("", PAGE, "Runtime &amp; Error\nServer Error\nin '/'\na\nb < 1"),
        ("text/plain", "\n<html lang=en>shown as a page<script>", "shown as a page"),
        ("application/json", "\ufeff{}", "{}"),
        ("application/json", '{"a": "<html>"}', '{"a": "<html>"}'),
        ("text/plain", "a <b> of <htmlx>", "a <b> of <htmlx>"),
        ("text/html", "", ""),
    ],
)
def test_html_is_shown_without_its_tags(content_type: str, body: str, text: str) -> None:
    assert without_markup(body.encode(), content_type).decode() == text


def test_the_first_line_that_says_something() -> None:
    assert first_line("\n \n  no such customer  \nat line 7", 10) == "no such c…"
    assert first_line(" \n", 10) == ""


def test_no_text_of_a_log_line_is_longer(caplog: pytest.LogCaptureFixture) -> None:
    longest = "x" * 100_000

    telemetry.error("storage.failed", detail=longest, event_ids=[longest, "a"], count=7)

    (record,) = caplog.records
    assert json.loads(record.getMessage()) == {
        "event": "storage.failed",
        "detail": clip(longest),
        "event_ids": [clip(longest), "a"],
        "count": 7,
    }


@pytest.mark.parametrize(
    ("text", "clipped"),
    [
        ("", ""),
        ("x" * 24, "x" * 24),
        ("x" * 25, "x" * 18 + "…"),
        ("ж" * 4, "ж" * 4),
        ("ж" * 5, "ж" * 3 + "…"),
        ("😀" * 3, "😀" + "…"),
        ('"' * 13, '"' * 9 + "…"),
        ("\ud800" * 5, "\ud800" * 3 + "…"),
    ],
)
def test_a_text_is_clipped_by_its_size_in_a_row(text: str, clipped: str) -> None:
    assert clip_ascii(text, 24) == clip_ascii(clipped, 24) == clipped
