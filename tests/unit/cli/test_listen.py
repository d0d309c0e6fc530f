"""The options of `listen`."""

import pytest

from cli.__main__ import main


@pytest.mark.parametrize("port", ["70000", "-1", "x"])
def test_what_is_no_port_is_told(capsys, port):
    with pytest.raises(SystemExit) as ended:
        main(["listen", f"--port={port}"])

    assert ended.value.code == 2
    assert f"{port!r} is no port" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["x", "42", "600"])
def test_what_is_no_status_is_told(capsys, status):
    with pytest.raises(SystemExit) as ended:
        main(["listen", f"--answer={status}"])

    assert ended.value.code == 2
    assert f"{status!r} is no status" in capsys.readouterr().err
