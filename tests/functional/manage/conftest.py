from __future__ import annotations

import pytest

from tests.functional.manage.arm_api import ORDERS, SHOP, SHOP_ORDERS, ArmApi


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
def shop(api: ArmApi) -> ArmApi:
    """A deployment with the namespace ``shop``."""
    api.json("PUT", SHOP, {"location": "westeurope"}, status=201)
    return api


@pytest.fixture
def shop_orders(shop: ArmApi) -> ArmApi:
    """A deployment with the topic ``orders`` of the namespace ``shop``."""
    shop.json("PUT", SHOP_ORDERS, {"properties": {"eventRetentionInDays": 2}}, status=201)
    return shop
