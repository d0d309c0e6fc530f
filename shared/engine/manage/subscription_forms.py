"""Defines the forms in which clients address event subscriptions, each with its codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shared.arm.deployment_capabilities import DeploymentCapabilities, ParentTopic, ProfileLimits
from shared.arm.namespace_codec import to_namespace_parent_topic
from shared.arm.namespace_subscription_codec import (
    parse_namespace_subscription,
    patched_namespace_subscription,
    render_namespace_subscription,
)
from shared.arm.subscription_codec import SubscriptionRequest
from shared.arm.system_topic_codec import to_source_parent, to_system_parent_topic
from shared.arm.topic_codec import to_parent_topic
from shared.arm.topic_subscription_codec import (
    parse_subscription,
    patched_subscription,
    render_extension,
    render_of_source,
    render_of_system_topic,
    render_subscription,
)
from shared.engine.ports import Document


class SubscriptionForm(NamedTuple):
    """How event subscriptions are read and written: the functions of their codec."""

    parent_of: Callable[[Document, DeploymentCapabilities], ParentTopic]  # from a stored topic
    parse: Callable[[SubscriptionRequest], Document]
    patched: Callable[[Document, object], object]
    render: Callable[[Document, ParentTopic], Document]
    patch_status: int  # that clients expect
    has_links: bool = True  # by which an endpoint can be validated later


def _topic_form(
    parent_of: Callable[[Document, DeploymentCapabilities], ParentTopic],
    render: Callable[[Document, ProfileLimits], Document],
) -> SubscriptionForm:
    return SubscriptionForm(
        parent_of,
        parse_subscription,
        patched_subscription,
        lambda stored, topic: render(stored, topic.limits),
        patch_status=201,
    )


NESTED = _topic_form(to_parent_topic, render_subscription)
EXTENSION = _topic_form(to_parent_topic, render_extension)
OF_SOURCE = _topic_form(to_source_parent, render_of_source)
OF_SYSTEM_TOPIC = _topic_form(to_system_parent_topic, render_of_system_topic)
OF_NAMESPACE_TOPIC = SubscriptionForm(
    to_namespace_parent_topic,
    parse_namespace_subscription,
    patched_namespace_subscription,
    render_namespace_subscription,
    patch_status=200,
    has_links=False,
)
