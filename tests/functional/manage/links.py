"""What tests of validation links look at."""

from __future__ import annotations

import json

from shared.arm.subscription_codec import to_subscription_in_force
from shared.engine.ports import Table
from shared.subscriptions.subscription import EventSubscription
from tests.functional.manage.arm_api import CRM, ArmApi


def link(api: ArmApi) -> str:
    """Return the link that was sent with the latest handshake."""
    request = api.pusher.sent[-1].request
    if request.method == "OPTIONS":
        return request.headers["WebHook-Request-Callback"]
    return str(json.loads(request.body)[0]["data"]["validationUrl"])


def state(api: ArmApi, path: str = CRM) -> str:
    return str(api.json("GET", path)["properties"]["provisioningState"])


def delivered(api: ArmApi) -> EventSubscription:
    """Return what delivering sees."""
    stored = api.resources.get(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")
    assert stored is not None
    return to_subscription_in_force(stored.document)
