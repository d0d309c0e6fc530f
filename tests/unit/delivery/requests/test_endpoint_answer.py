"""What is kept of an endpoint's answer: bounded, and without our secrets."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.requests.failed_attempt import MOST_BODY, MOST_HEADER, endpoint_answer
from shared.subscriptions.secrecy import WITHHELD
from tests.builders import a_subscription


def test_selected_headers_and_the_beginning_of_the_body_are_kept() -> None:
    headers = {"content-type": "text/plain", "set-cookie": "session=1", "retry-after": "9" * 999}
    body = "ü".encode() * MOST_BODY

    kept = endpoint_answer(answered(503, body, headers), a_subscription(), "s-1")

    assert [*kept.headers] == ["content-type", "retry-after"]
    assert len(kept.headers["retry-after"]) == MOST_HEADER
    assert (kept.body, kept.is_truncated) == ("ü" * (MOST_BODY // 2), True)


@pytest.mark.parametrize("echoed", ["no such code: s3cret-of-the-url", "code%3Ds3cret-of-the-url"])
def test_what_repeats_a_secret_is_withheld(echoed: str) -> None:
    """By the rule of the test of an endpoint, wherever in the answer it stands."""
    subscription = a_subscription(endpoint_url="https://crm.example/hook?code=s3cret-of-the-url")
    answer = answered(401, b"x" * 1000 + echoed.encode(), {"location": echoed, "server": "nginx"})

    kept = endpoint_answer(answer, subscription, "s-1")

    assert kept.body == WITHHELD
    assert kept.headers == {"location": WITHHELD, "server": "nginx"}
