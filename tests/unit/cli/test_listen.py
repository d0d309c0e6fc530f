"""The options of `listen`."""

import pytest

from cli.__main__ import main


@pytest.mark.parametrize("port", ["70000", "-1", "x"])
def test_what_is_no_port_is_told(capsys, port):
    with pytest.raises(SystemExit) as ended:
        main(["listen", f"--port={port}"])

    assert ended.value.code == 2
    assert f"{port!r} is no port" in capsys.readouterr().err
