from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.blocking import blocking_calls
from tests.functional.deployment import Deployment
from tests.functional.namespace_shop import deploy_orders


@pytest.fixture(scope="module")
def _blocking_calls() -> Iterator[list[str]]:
    with blocking_calls() as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_blocks(_blocking_calls: list[str]) -> Iterator[None]:
    """Let no call keep an event loop waiting."""
    yield
    made = _blocking_calls.copy()
    _blocking_calls.clear()
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
