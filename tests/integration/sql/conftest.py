"""Where the stores of the tests are, and how tests that are coroutines run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.sql.postgres.store import PostgresStore
from testbed.postgres import PostgresServer
from tests.integration.sql.databases import Place, Schema

_LONGEST = 120  # seconds of a test that is a coroutine


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, _LONGEST))
    return True


@pytest.fixture(params=["sqlite", "postgresql"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return tmp_path / "data"
    return Schema(request.getfixturevalue("postgres"))


@pytest.fixture
def schema(postgres: PostgresServer) -> Schema:
    return Schema(postgres)


@pytest.fixture
def store(schema: Schema) -> Iterator[Callable[..., PostgresStore]]:
    """Start processes on one schema."""
    with ExitStack() as stack:

        def start(**options: Any) -> PostgresStore:
            return stack.enter_context(schema.store(**options))

        yield start
