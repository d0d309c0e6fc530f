"""Which rules hold for a subscription: its topic's profile, and what that makes of its wishes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.delivery.profiles import PROFILES
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.events.topic import Topic
from shared.subscriptions.subscription import Batching, RetryPolicy, StaticHeader
from tests.builders import DEAD, a_subscription, a_topic
from tests.functional.deployment import MINUTE, Directory

DAY = timedelta(days=1)
BATCHES = Batching(max_events=10, preferred_kilobytes=64)
TEAM = StaticHeader(name="x-team", value="a")


def deployment(default: str = "latest", topic: Topic | None = None, **choices: Any) -> Any:
    """Return the terms of a deployment with this default profile, and a topic ``orders``."""
    directory = Directory()
    if topic:
        directory.topics["orders"] = topic
    values: dict[str, Any] = {"topics": directory, "default_profile": default, "time_scale": 1}
    return DeploymentTerms(**values | choices)


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
        "shared.engine.keeping.deployment_terms.PROFILES", {**PROFILES, "quick": quick}
    )

    found = deployment("quick", a_topic(profile=tagged)).of(a_subscription())

    assert found.profile.name == profile


@pytest.mark.parametrize(
    ("default", "attempts", "minutes", "expected"),
    [
        pytest.param("latest", 7, 30, (7, 30), id="the policy"),
        pytest.param("2017", 7, 30, (None, 120), id="the profile has none"),
        pytest.param("ns", 30, 1440, (10, 1440), id="beyond the profile"),
        pytest.param("2017", None, None, (None, 120), id="2017"),
        pytest.param("latest", None, None, (30, 1440), id="latest"),
        pytest.param("ns", None, None, (10, 7 * 1440), id="ns"),
    ],
)
def test_the_policy_counts_within_the_profile(
    default: str, attempts: int | None, minutes: float | None, expected: tuple[int | None, float]
) -> None:
    policy = RetryPolicy(max_delivery_attempts=attempts, event_time_to_live_minutes=minutes)

    terms = deployment(default, time_scale=60).of(a_subscription(retry_policy=policy))

    assert (terms.max_attempts, terms.time_to_live / MINUTE) == expected
    assert (terms.profile.name, terms.time_scale) == (default, 60)


@pytest.mark.parametrize(
    ("profile", "kept"),
    [
        ("2017", (Batching(), (), None)),
        ("2019", (Batching(), (), DEAD)),
        ("2020", (BATCHES, (TEAM,), DEAD)),
        ("ns", (BATCHES, (TEAM,), DEAD)),
    ],
)
def test_what_the_profile_does_not_have_is_ignored(profile: str, kept: tuple[object, ...]) -> None:
    wished = a_subscription(batching=BATCHES, headers=(TEAM,), dead_letter=DEAD)

    terms = deployment(profile).of(wished)

    assert (terms.batching, terms.headers, terms.dead_letter) == kept


@pytest.mark.parametrize(("named", "seen"), [("acct", ""), ("archive1", "archive1"), ("", "")])
def test_the_app_s_own_account_is_not_named_in_messages(named: str, seen: str) -> None:
    """Only what names another account needs the latest version of messages."""
    wished = a_subscription(dead_letter=replace(DEAD, account=named))

    assert deployment(account="acct").of(wished).dead_letter == replace(DEAD, account=seen)


@pytest.mark.parametrize(("minutes", "expected"), [(None, 2880), (1.5, 1.5), (5000, 2880)])
def test_no_event_lives_longer_than_its_topic_keeps_it(
    minutes: float | None, expected: float
) -> None:
    kept = deployment(topic=a_topic(profile="ns", retention=2880 * MINUTE))
    policy = RetryPolicy(event_time_to_live_minutes=minutes)

    assert kept.of(a_subscription(retry_policy=policy)).time_to_live == expected * MINUTE


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
    assert deployment(default, time_scale=60).payloads_kept_for(topic) == days * DAY
