from __future__ import annotations

import pytest

from tests.functional.deployment import Deployment


@pytest.fixture
def app() -> Deployment:
    """A deployment with a topic and no subscriptions."""
    return Deployment()
