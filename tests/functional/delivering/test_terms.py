"""Which rules hold for a subscription: its topic's profile, and what that makes of its wishes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.delivery.profiles import PROFILES
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.events.topic import Topic
from shared.subscriptions.subscription import Batching, RetryPolicy, StaticHeader
from tests.builders import DEAD, a_subscription, a_topic
from tests.functional.deployment import MINUTE, Directory


@pytest.mark.parametrize(
    ("tagged", "profile"),
    [
        pytest.param(None, "quick", id="default"),
        pytest.param("latest", "latest", id="the tag wins"),
        pytest.param("1999", "quick", id="an unknown tag"),
    ],
)
def test_the_topics_tag_wins_over_the_default(
    tagged: str | None, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(PROFILES["latest"], name="quick")
    monkeypatch.setattr(
        "shared.engine.delivering.deployment_terms.PROFILES", {**PROFILES, "quick": quick}
    )
    directory = Directory()
    directory.topics["orders"] = a_topic(profile=tagged)
    deployment = DeploymentTerms(topics=directory, default_profile="quick", time_scale=1)

    assert deployment.of(a_subscription()).profile.name == profile


def test_terms_are_the_policy_within_the_profile() -> None:
    deployment = DeploymentTerms(topics=Directory(), default_profile="latest", time_scale=60)
    policy = RetryPolicy(max_delivery_attempts=7, event_time_to_live_minutes=30)

    terms = deployment.of(a_subscription(retry_policy=policy, dead_letter=DEAD))

    assert (terms.max_attempts, terms.time_to_live) == (7, 30 * MINUTE)
    assert (terms.profile.name, terms.time_scale) == ("latest", 60)
    assert terms.dead_letter == DEAD


@pytest.mark.parametrize(("named", "seen"), [("acct", ""), ("archive1", "archive1"), ("", "")])
def test_the_app_s_own_account_is_not_named_in_messages(named: str, seen: str) -> None:
    """Only what names another account needs the latest version of messages."""
    deployment = DeploymentTerms(
        topics=Directory(), default_profile="latest", time_scale=1, account="acct"
    )

    terms = deployment.of(a_subscription(dead_letter=replace(DEAD, account=named)))

    assert terms.dead_letter == replace(DEAD, account=seen)


@pytest.mark.parametrize(("minutes", "expected"), [(None, 2880), (1.5, 1.5), (5000, 2880)])
def test_no_event_lives_longer_than_its_topic_keeps_it(
    minutes: float | None, expected: float
) -> None:
    directory = Directory()
    directory.topics["orders"] = a_topic(profile="ns", retention=2880 * MINUTE)
    deployment = DeploymentTerms(topics=directory, default_profile="latest", time_scale=1)

    terms = deployment.of(
        a_subscription(retry_policy=RetryPolicy(event_time_to_live_minutes=minutes))
    )

    assert terms.time_to_live == expected * MINUTE


@pytest.mark.parametrize(
    ("topic", "default", "days"),
    [
        pytest.param(a_topic(), "latest", 4, id="24 h + 12 h + 4 h + 5 min + 4 h"),
        pytest.param(a_topic(profile="ns"), "latest", 14, id="7 days and 2 for the dead letter"),
        pytest.param(a_topic(), "ns", 14, id="by default"),
        pytest.param(a_topic(profile="2017"), "ns", 4, id="2 h"),
    ],
)
def test_events_are_kept_longer_than_any_message_of_theirs(
    topic: Topic, default: str, days: int
) -> None:
    """Design §2, order of writes 5."""
    deployment = DeploymentTerms(topics=Directory(), default_profile=default, time_scale=60)

    assert deployment.payloads_kept_for(topic) == days * 1440 * MINUTE


def test_what_the_profile_does_not_have_is_ignored() -> None:
    """2017 has neither a retry policy nor dead letters."""
    deployment = DeploymentTerms(topics=Directory(), default_profile="2017", time_scale=1)
    policy = RetryPolicy(max_delivery_attempts=7, event_time_to_live_minutes=30)

    terms = deployment.of(a_subscription(retry_policy=policy, dead_letter=DEAD))

    assert (terms.max_attempts, terms.time_to_live) == (None, 120 * MINUTE)
    assert terms.dead_letter is None


def test_a_limit_beyond_the_profile_is_its_default() -> None:
    """A basic topic's 30 attempts under the rules of namespaces, which have at most 10."""
    deployment = DeploymentTerms(topics=Directory(), default_profile="ns", time_scale=1)
    policy = RetryPolicy(max_delivery_attempts=30, event_time_to_live_minutes=1440)

    terms = deployment.of(a_subscription(retry_policy=policy))

    assert (terms.max_attempts, terms.time_to_live) == (10, 1440 * MINUTE)


@pytest.mark.parametrize(
    ("profile", "limits"),
    [("2017", (None, 120)), ("latest", (30, 1440)), ("ns", (10, 7 * 1440))],
)
def test_without_a_policy_the_profile_decides(profile: str, limits: Any) -> None:
    deployment = DeploymentTerms(topics=Directory(), default_profile=profile, time_scale=1)

    terms = deployment.of(a_subscription())

    assert (terms.max_attempts, terms.time_to_live / MINUTE) == limits


@pytest.mark.parametrize(
    ("profile", "has_both"), [("2017", False), ("2019", False), ("2020", True), ("ns", True)]
)
def test_batching_and_headers_are_the_profiles(profile: str, *, has_both: bool) -> None:
    deployment = DeploymentTerms(topics=Directory(), default_profile=profile, time_scale=1)
    wished = a_subscription(
        batching=Batching(max_events=10, preferred_kilobytes=64),
        headers=(StaticHeader(name="x-team", value="a"),),
    )

    terms = deployment.of(wished)

    expected = (wished.batching, wished.headers) if has_both else (Batching(), ())
    assert (terms.batching, terms.headers) == expected
