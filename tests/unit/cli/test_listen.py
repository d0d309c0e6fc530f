"""The options of `listen`, and its answers."""

import pytest

from cli.listen import Script
from cli.program import main


@pytest.mark.parametrize(
    ("option", "words"),
    [(f"--port={port}", "'--port'") for port in ("65536", "-1", "x")]
    + [
        (f"--answers={answers}", f"{wrong!r} is not a final status code")
        for answers, wrong in (("x", "x"), ("199", "199"), ("200,600", "600"), ("200,", ""))
    ],
)
def test_an_invalid_option_is_refused(capsys, option, words):
    assert main(["listen", option]) == 2

    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err


def test_each_subscription_gets_the_answers_in_order_and_the_last_for_ever():
    script = Script("503, reset,200")

    answers = [script.next(name).text for name in ("crm", "crm", "erp", "crm", "crm")]

    assert answers == ["503", "reset", "503", "200", "200"]
