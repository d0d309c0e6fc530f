"""Tables of test cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def named(rows: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    """Return the rows of a parametrized test, each with its name as id."""
    return [pytest.param(*row, id=name) for name, row in rows.items()]
