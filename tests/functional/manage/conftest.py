from __future__ import annotations

import pytest

from tests.functional.manage.world import ORDERS, SHOP, SHOP_ORDERS, World


@pytest.fixture
def world() -> World:
    """A deployment without topics."""
    return World()


@pytest.fixture
def orders(world: World) -> World:
    """A deployment with the topic ``orders``."""
    world.json("PUT", ORDERS, {"location": "westeurope"}, status=201)
    return world


@pytest.fixture
def shop(world: World) -> World:
    """A deployment with the namespace ``shop``."""
    world.json("PUT", SHOP, {"location": "westeurope"}, status=201)
    return world


@pytest.fixture
def shop_orders(shop: World) -> World:
    """A deployment with the topic ``orders`` of the namespace ``shop``."""
    shop.json("PUT", SHOP_ORDERS, {"properties": {"eventRetentionInDays": 2}}, status=201)
    return shop
