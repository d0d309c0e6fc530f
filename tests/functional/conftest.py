from __future__ import annotations

import json
import logging

import pytest

from tests.functional.deployment import Deployment, Logged


@pytest.fixture
def app() -> Deployment:
    """A deployment with a topic and no subscriptions."""
    return Deployment()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    """Give what was logged under a name."""
    caplog.set_level(logging.INFO, "pushgrid")

    def lines(event: str) -> list[dict[str, object]]:
        found = [json.loads(record.getMessage()) for record in caplog.records]
        return [line for line in found if line["event"] == event]

    return lines
