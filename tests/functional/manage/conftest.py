from __future__ import annotations

import pytest

from tests.functional.manage.world import ORDERS, World


@pytest.fixture
def world() -> World:
    """A deployment without topics."""
    return World()


@pytest.fixture
def orders(world: World) -> World:
    """A deployment with the topic ``orders``."""
    world.json("PUT", ORDERS, {"location": "westeurope"}, status=201)
    return world
