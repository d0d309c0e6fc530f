"""The lines that are printed; tests/integration has a reader that goes away."""

import io
import logging

import pytest

from devhost import log

pytestmark = pytest.mark.usefixtures("untouched_logging")


def test_the_apps_log_becomes_lines_at_host_jsons_levels():
    out, err = io.StringIO(), io.StringIO()
    log.configure(
        log.LineOutput(out, err), {"default": logging.WARNING, "azure.core": logging.ERROR}
    )

    logging.getLogger("app").warning("seen")
    logging.getLogger("app").info("hidden")
    logging.getLogger("azure.core.x").warning("hidden")
    logging.getLogger("azure.functions.x").error("hidden")
    logging.getLogger("app").error("failed", exc_info=ValueError("boom"))

    assert [line[13:] for line in out.getvalue().splitlines()] == [
        "WARNING app  seen",
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
