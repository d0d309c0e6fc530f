"""Our reading of answers against that of h11, a client with a grammar of its own."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.http.answer_reader import AnswerReader
from tests.fuzz.answers import DIFFERENCES, compare, main


@given(seed=st.integers(0, 2**32))
def test_answers_are_read_as_h11_reads_them(seed: int) -> None:
    """`python -m tests.fuzz.answers` tries many more."""
    _, unlisted = compare(Random(seed), 50)

    assert unlisted == []


@pytest.mark.slow
def test_every_listed_difference_occurs_and_no_other() -> None:
    found, unlisted = compare(Random(1), 20_000)

    assert found.keys() >= DIFFERENCES.keys()
    assert unlisted == []


def test_a_reader_that_keeps_too_much_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end = AnswerReader.on_message_complete

    def keeping(answer: AnswerReader) -> None:
        answer._keeps = True
        end(answer)

    monkeypatch.setattr(AnswerReader, "on_message_complete", keeping)

    assert main(["--count", "1000"]) == 1
    assert "is_reusable=True" in capsys.readouterr().out
