"""The limits that a topic's delivery profile sets for its subscriptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.delivery.profiles import PROFILES
from shared.subscriptions.subscription import RetryPolicy
from tests.unit.arm.documents import (
    DEPLOYMENT,
    dead_letter,
    refusal,
    rendered,
    subscription,
    topic,
    webhook,
    with_member,
)

ALL = replace(DEPLOYMENT, profiles=PROFILES)
HEADER = {"name": "x-a", "type": "Static", "properties": {"value": "1"}}
WEBHOOK = "destination.properties"
ATTEMPTS, MINUTES = "retryPolicy.maxDeliveryAttempts", "retryPolicy.eventTimeToLiveInMinutes"
BATCHING = "Output batching is not available"
HEADERS = "Custom delivery headers are not available"


def written(profile: str, **properties: Any) -> dict[str, Any]:
    """Write a subscription to a topic with the profile's tag."""
    tagged = topic() | {"tags": {"DeliveryProfile": profile}}
    return subscription(of=tagged, deployment=ALL, **properties)


@pytest.mark.parametrize(
    ("profile", "path", "value", "message"),
    [
        ("2017", ATTEMPTS, 30, "The number of attempts is unlimited"),
        ("2017", MINUTES, 1440, f"properties.{MINUTES} must be 120"),
        ("ns", ATTEMPTS, 11, f"properties.{ATTEMPTS} must be a whole number between 1 and 10"),
        ("ns", MINUTES, 10081, f"properties.{MINUTES} must be a whole number between 1 and 10080"),
        ("2017", "deadLetterDestination", dead_letter(), "Dead-lettering is not available"),
        ("2019", f"{WEBHOOK}.maxEventsPerBatch", 2, BATCHING),
        ("2019", f"{WEBHOOK}.preferredBatchSizeInKilobytes", 128, BATCHING),
        ("2017", f"{WEBHOOK}.deliveryAttributeMappings", [HEADER], HEADERS),
    ],
)
def test_features_that_the_profile_lacks_are_refused(
    profile: str, path: str, value: object, message: str
) -> None:
    assert refusal(written, profile, **with_member(path, value)) == (
        f"properties.{path}",
        f"{message} under the delivery profile {profile}.",
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_values_that_mean_nothing_are_accepted_everywhere(profile: str) -> None:
    """The official client always sends them."""
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
    policy = rendered(stored, PROFILES[profile])["retryPolicy"]
    assert (policy["maxDeliveryAttempts"], policy["eventTimeToLiveInMinutes"]) == shown
    assert written(profile, retryPolicy=policy)  # an answer can be sent back


def test_without_a_known_tag_the_profile_of_the_deployment_applies() -> None:
    deployment = replace(ALL, default_profile="2017")

    found = refusal(subscription, deployment=deployment, retryPolicy={"maxDeliveryAttempts": 3})

    assert found[1].endswith("under the delivery profile 2017.")
    assert written("1999", retryPolicy={"maxDeliveryAttempts": 30})
