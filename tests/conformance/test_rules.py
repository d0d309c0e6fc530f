"""Every conformance case on the pure rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.delivery.forecast import forecast
from shared.delivery.policy import DeliveryTerms, default_terms
from shared.delivery.profiles import PROFILES
from shared.delivery.requests.push_request import push_request
from shared.subscriptions.destination import EndpointType
from tests.builders import DEAD, a_delivery, a_subscription, text
from tests.conformance.editions import CASES, FILES, Case


def terms_of(case: Case) -> DeliveryTerms:
    """Read a case's policy; what it does not say is the profile's default."""
    minutes = case.policy.get("eventTimeToLiveInMinutes")
    defaults = default_terms(PROFILES[case.profile])
    return replace(
        defaults,
        max_attempts=case.policy.get("maxDeliveryAttempts", defaults.max_attempts),
        time_to_live=timedelta(minutes=minutes) if minutes else defaults.time_to_live,
        dead_letter=DEAD if case.has_dead_letter else None,
        endpoint=EndpointType(case.endpoint),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rules_conform(case: Case):
    predicted = forecast(case.answers, terms_of(case))

    assert [each.at.total_seconds() for each in predicted.attempts] == list(case.attempts)
    assert (predicted.state, predicted.reason) == (case.end.state, case.end.reason)
    assert predicted.at.total_seconds() == case.end.at
    assert (predicted.blob_at.total_seconds() if predicted.blob_at else None) == case.end.blob_at
    if case.end.last_outcome:
        assert predicted.attempts[-1].outcome == case.end.last_outcome


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_headers_conform(case: Case):
    """``aeg-delivery-count`` says how many attempts there were before."""
    terms = terms_of(case)
    made = [each.number - 1 for each in forecast(case.answers, terms).attempts]

    sent = [
        push_request(a_subscription(), terms, (a_delivery(attempts=each, text=text()),), START)
        for each in made
    ]

    for name, values in case.headers.items():
        assert tuple(request.headers[name] for request in sent) == values


def test_every_edition_has_its_file():
    assert set(FILES) == set(PROFILES)
    assert all(document["profile"] == name for name, document in FILES.items())


@pytest.mark.parametrize("name", FILES)
def test_a_timeout_takes_the_edition_s_time(name: str):
    allowed = PROFILES[name].acknowledgement_timeout.total_seconds()

    assert FILES[name]["acknowledgementTimeout"] == allowed
