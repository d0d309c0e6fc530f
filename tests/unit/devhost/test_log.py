"""The lines that are printed, and a reader that goes away."""

import io
import logging
import re

import pytest

from devhost import log

pytestmark = pytest.mark.usefixtures("untouched_logging")


class ClosedPipe(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, _text):
        raise BrokenPipeError

    def fileno(self):
        raise OSError


def test_lines_carry_the_time_of_day():
    out = io.StringIO()

    log.LineOutput(out, io.StringIO()).line("hello")

    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d\d\d hello\n", out.getvalue())


def test_a_reader_who_goes_away_does_not_end_the_host():
    console = log.LineOutput(ClosedPipe(), ClosedPipe())

    console.line("one")
    console.line("two")
    console.error("three")


def test_the_apps_log_becomes_lines_at_host_jsons_levels():
    out, err = io.StringIO(), io.StringIO()
    log.configure(
        log.LineOutput(out, err), {"default": logging.INFO, "azure.core": logging.WARNING}
    )

    logging.getLogger("app").info("seen")
    logging.getLogger("app").debug("hidden")
    logging.getLogger("azure.core.x").info("hidden")
    logging.getLogger("azure.functions.x").warning("hidden")
    logging.getLogger("app").error("failed", exc_info=ValueError("boom"))

    assert [line[13:] for line in out.getvalue().splitlines()] == [
        "INFO    app  seen",
        "ERROR   app  failed",
    ]
    assert err.getvalue().endswith("ValueError: boom\n")


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        ({}, True),
        ({"default": logging.WARNING}, False),
        ({"default": logging.WARNING, "function": logging.INFO}, True),
        ({"function": logging.WARNING}, False),
        ({"function": logging.WARNING, "function.web": logging.INFO}, True),
    ],
)
def test_successes_are_shown_unless_host_json_says_otherwise(levels, shown):
    assert log.shows_successes("Web", levels) is shown
