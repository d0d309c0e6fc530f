"""The options of `listen`."""

import pytest

from cli.__main__ import main


@pytest.mark.parametrize(
    ("option", "words"),
    [(f"--port={port}", f"{port!r} is not a port") for port in ("65536", "-1", "x")]
    + [(f"--answer={status}", f"{status!r} is not a final") for status in ("x", "199", "600")],
)
def test_an_invalid_option_is_refused(capsys, option, words):
    with pytest.raises(SystemExit) as ended:
        main(["listen", option])

    assert ended.value.code == 2
    assert words in capsys.readouterr().err
