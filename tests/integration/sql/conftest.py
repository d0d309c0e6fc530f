"""Where the stores of the tests are: in a folder, or in a schema of PostgreSQL's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.sql.databases import Place, Schema


@pytest.fixture(params=["sqlite", "postgresql"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path / "data"
    return Schema(request.getfixturevalue("postgres"))
