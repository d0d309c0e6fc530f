"""Reads configuration files as a command does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.configuration import Configuration, read_configuration
from cli.failure import CommandFailed


def read(folder: Path, text: str, name: str = "pushgrid.json") -> Configuration:
    path = folder / name
    path.write_text(text)
    return read_configuration(path)


def faults(folder: Path, text: str, name: str = "pushgrid.json") -> list[str]:
    with pytest.raises(CommandFailed) as caught:
        read(folder, text, name)
    assert caught.value.code == 2
    return [line.removeprefix(f"{folder}/") for line in caught.value.message.splitlines()]


def shown(value: object) -> str | None:
    """Name a case of a test by how its long texts begin and end."""
    return f"{value[:30]}…{value[-9:]}" if isinstance(value, str) else None
