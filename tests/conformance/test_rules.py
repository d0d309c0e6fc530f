"""Every conformance case on the pure rules; contract §3, one file per edition."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.delivery.forecast import forecast
from shared.delivery.policy import DeliveryTerms
from shared.delivery.profile import EndpointType
from shared.delivery.profiles import PROFILES
from tests.builders import DEAD

FILES = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("*.json")}
CASES = [
    pytest.param(name, case, id=f"{name}: {case['name']}")
    for name, document in sorted(FILES.items())
    for case in document["cases"]
]


def terms_of(profile_name: str, case: dict[str, Any]) -> DeliveryTerms:
    """Read a case's policy; what it does not say is the profile's default."""
    profile = PROFILES[profile_name]
    policy = case["policy"]
    minutes = policy.get("eventTimeToLiveInMinutes")
    attempts = profile.limits.attempts
    return DeliveryTerms(
        profile=profile,
        max_attempts=policy.get("maxDeliveryAttempts", attempts[0] if attempts else None),
        time_to_live=timedelta(minutes=minutes) if minutes else profile.limits.time_to_live[0],
        dead_letter=DEAD if case["deadLetter"] else None,
        endpoint=EndpointType(case["endpoint"]),
    )


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_rules_conform(name: str, case: dict[str, Any]):
    told = forecast(case["answers"], terms_of(name, case))

    expected = case["expect"]
    assert [each.at.total_seconds() for each in told.attempts] == expected["attempts"]
    assert {
        "state": told.state,
        "reason": told.reason,
        "at": told.at.total_seconds(),
        "blobAt": None if told.blob_at is None else told.blob_at.total_seconds(),
    } == expected["end"]


def test_every_edition_has_its_file():
    assert set(FILES) == set(PROFILES)
    assert all(document["profile"] == name for name, document in FILES.items())


def test_every_case_cites_its_sentence():
    assert all(case["source"] for document in FILES.values() for case in document["cases"])
