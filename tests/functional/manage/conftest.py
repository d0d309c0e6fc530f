from __future__ import annotations

import pytest

from tests.functional.manage.arm_api import BODIES, CRM, ORDERS, SHOP, SHOP_ORDERS, ArmApi, hook


@pytest.fixture
def api() -> ArmApi:
    """A deployment without topics."""
    return ArmApi()


@pytest.fixture
def orders(api: ArmApi) -> ArmApi:
    """A deployment with the topic ``orders``."""
    api.json("PUT", ORDERS, {"location": "westeurope"}, status=201)
    return api


@pytest.fixture
def crm(orders: ArmApi) -> ArmApi:
    """A deployment with the subscription ``crm`` of the topic ``orders``."""
    orders.json("PUT", CRM, hook(), status=201)
    return orders


@pytest.fixture
def full(api: ArmApi) -> ArmApi:
    """A deployment with one resource of each kind."""
    for path, body in BODIES.items():
        api.json("PUT", path, body, status=201)
    return api


@pytest.fixture
def shop(api: ArmApi) -> ArmApi:
    """A deployment with the namespace ``shop``."""
    api.json("PUT", SHOP, {"location": "westeurope"}, status=201)
    return api


@pytest.fixture
def shop_orders(shop: ArmApi) -> ArmApi:
    """A deployment with the topic ``orders`` of the namespace ``shop``."""
    shop.json("PUT", SHOP_ORDERS, {"properties": {"eventRetentionInDays": 2}}, status=201)
    return shop
