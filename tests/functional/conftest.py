from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from tests.blocking import blocking_calls
from tests.functional.deployment import Deployment
from tests.functional.namespace_shop import deploy_orders


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


@pytest.fixture(autouse=True, scope="session")
def _no_log_file(pytestconfig: pytest.Config) -> None:
    """Let pytest log to no file: it has one even where none is wanted, and writing to it blocks."""
    handler = pytestconfig.pluginmanager.get_plugin("logging-plugin").log_file_handler
    handler.setStream(_Nowhere()).close()


@pytest.fixture(autouse=True)
def _nothing_blocks() -> Iterator[None]:
    """Let no call keep an event loop waiting."""
    with blocking_calls() as made:
        yield
    assert made == []


@pytest.fixture
def app() -> Deployment:
    """A deployment with a topic and no subscriptions."""
    return Deployment()


@pytest.fixture
def shop(app: Deployment) -> Deployment:
    """A deployment with a topic of a namespace as well."""
    deploy_orders(app)
    return app
