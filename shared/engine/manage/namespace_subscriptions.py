"""Event subscriptions of topics of namespaces."""

from __future__ import annotations

from shared.arm.namespace_codec import to_namespace_parent_topic
from shared.arm.namespace_subscription_codec import (
    parse_namespace_subscription,
    patched_namespace_subscription,
    render_namespace_subscription,
)
from shared.engine.manage.namespaces import TOPICS
from shared.engine.manage.subscriptions import Subscriptions

SUBSCRIPTIONS = Subscriptions(
    topics=TOPICS,
    parent_of=to_namespace_parent_topic,
    parse=parse_namespace_subscription,
    patched=patched_namespace_subscription,
    render=render_namespace_subscription,
    patch_status=200,
    has_links=False,
)
