"""The options of `listen`."""

import pytest

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
