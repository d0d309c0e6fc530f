"""What a topic's delivery profile doesn't have is refused when a subscription is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.arm.deployment import profile_limits
from shared.arm.subscription_codec import to_subscription
from shared.arm.topic_subscription_codec import render_subscription
from shared.delivery.profiles import PROFILES
from shared.errors import InvalidDocument
from shared.subscriptions.subscription import RetryPolicy
from tests.unit.arm.documents import (
    DEPLOYMENT,
    dead_letter,
    only_fault,
    subscription,
    topic,
    webhook,
)

LIMITS = {name: profile_limits(profile) for name, profile in PROFILES.items()}
ALL = replace(DEPLOYMENT, profiles=LIMITS)
HEADER = {"name": "x-a", "type": "Static", "properties": {"value": "1"}}


def written(profile: str, **properties: Any) -> dict[str, Any]:
    """Write a subscription to a topic with the profile's tag."""
    tagged = topic() | {"tags": {"DeliveryProfile": profile}}
    return subscription(of=tagged, deployment=ALL, **properties)


@pytest.mark.parametrize(
    ("profile", "properties", "target", "message"),
    [
        pytest.param(
            "2017",
            {"retryPolicy": {"maxDeliveryAttempts": 30}},
            "retryPolicy.maxDeliveryAttempts",
            "The number of attempts is unlimited under the delivery profile 2017.",
            id="attempts where there is no number",
        ),
        pytest.param(
            "2017",
            {"retryPolicy": {"eventTimeToLiveInMinutes": 1440}},
            "retryPolicy.eventTimeToLiveInMinutes",
            "properties.retryPolicy.eventTimeToLiveInMinutes must be 120 under the delivery "
            "profile 2017.",
            id="minutes where they are fixed",
        ),
        pytest.param(
            "ns",
            {"retryPolicy": {"maxDeliveryAttempts": 11}},
            "retryPolicy.maxDeliveryAttempts",
            "properties.retryPolicy.maxDeliveryAttempts must be a whole number between 1 and 10 "
            "under the delivery profile ns.",
            id="attempts beyond the range",
        ),
        pytest.param(
            "ns",
            {"retryPolicy": {"eventTimeToLiveInMinutes": 10081}},
            "retryPolicy.eventTimeToLiveInMinutes",
            "properties.retryPolicy.eventTimeToLiveInMinutes must be a whole number between 1 and "
            "10080 under the delivery profile ns.",
            id="minutes beyond the range",
        ),
        pytest.param(
            "2017",
            {"deadLetterDestination": dead_letter()},
            "deadLetterDestination",
            "Dead-lettering is not available under the delivery profile 2017.",
            id="dead letters",
        ),
        pytest.param(
            "2019",
            {"destination": webhook(maxEventsPerBatch=2)},
            "destination.properties.maxEventsPerBatch",
            "Output batching is not available under the delivery profile 2019.",
            id="batching",
        ),
        pytest.param(
            "2019",
            {"destination": webhook(preferredBatchSizeInKilobytes=128)},
            "destination.properties.preferredBatchSizeInKilobytes",
            "Output batching is not available under the delivery profile 2019.",
            id="batching by size",
        ),
        pytest.param(
            "2017",
            {"destination": webhook(deliveryAttributeMappings=[HEADER])},
            "destination.properties.deliveryAttributeMappings",
            "Custom delivery headers are not available under the delivery profile 2017.",
            id="custom headers",
        ),
    ],
)
def test_what_the_profile_does_not_have_is_refused(
    profile: str, properties: Any, target: str, message: str
) -> None:
    with pytest.raises(InvalidDocument) as caught:
        written(profile, **properties)

    fault = only_fault(caught.value)
    assert (fault.target, fault.message) == (f"properties.{target}", message)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_means_nothing_is_accepted_everywhere(profile: str) -> None:
    """The official client always sends these values."""
    off = {"maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 64}
    destination = webhook(deliveryAttributeMappings=[], **off)

    assert written(profile, destination=destination) == written(profile)


@pytest.mark.parametrize(
    ("profile", "shown"),
    [("2017", (None, 120)), ("2019", (30, 1440)), ("latest", (30, 1440)), ("ns", (10, 10080))],
)
def test_an_absent_policy_is_the_profiles_default(profile: str, shown: Any) -> None:
    stored = written(profile)

    assert to_subscription(stored).retry_policy == RetryPolicy()
    policy = render_subscription(stored, LIMITS[profile])["properties"]["retryPolicy"]
    assert (policy["maxDeliveryAttempts"], policy["eventTimeToLiveInMinutes"]) == shown
    assert written(profile, retryPolicy=policy)  # what is shown can be sent back


def test_an_untagged_topic_has_the_profile_of_the_deployment() -> None:
    deployment = replace(ALL, default_profile="2017")

    with pytest.raises(InvalidDocument, match="profile 2017"):
        subscription(deployment=deployment, retryPolicy={"maxDeliveryAttempts": 3})


def test_a_profile_that_is_gone_is_the_one_of_the_deployment() -> None:
    assert written("1999", retryPolicy={"maxDeliveryAttempts": 30})


@pytest.mark.parametrize("name", PROFILES)
def test_the_limits_are_those_of_the_rows(name: str) -> None:
    profile, limits = PROFILES[name], LIMITS[name]

    minutes = tuple(each.total_seconds() / 60 for each in profile.limits.time_to_live)
    assert (limits.name, limits.attempts, limits.minutes) == (
        name,
        profile.limits.attempts,
        minutes,
    )
