from __future__ import annotations

import pytest

from tests.functional.deployment import Deployment
from tests.functional.namespace_shop import deploy_orders


@pytest.fixture
def app() -> Deployment:
    """A deployment with a topic and no subscriptions."""
    return Deployment()


@pytest.fixture
def shop(app: Deployment) -> Deployment:
    """A deployment with a topic of a namespace as well."""
    deploy_orders(app)
    return app
