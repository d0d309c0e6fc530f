"""What an attempt is called; contract §2.3 (success) and §3.7 (names)."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import answered
from shared.clip import clip
from shared.delivery.outcome import (
    MOST_BODY,
    MOST_HEADER,
    DeliveryOutcome,
    Outcome,
    classify,
    endpoint_answer,
)
from shared.delivery.profiles import PROFILES
from shared.http import Exchange, Failure, NotAnswered
from shared.subscriptions.secrecy import WITHHELD
from tests.builders import a_subscription

LATEST = PROFILES["latest"].success_codes
NAMED = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    408: "TimedOut",
    413: "PayloadTooLarge",
    429: "Busy",
    503: "Busy",
}
FAILURES = {
    Failure.TIMED_OUT: "TimedOut",
    Failure.RESOLUTION: "ResolutionError",
    Failure.SOCKET: "SocketError",
    Failure.TLS: "SocketError",
    Failure.NOT_ALLOWED: "GenericError",
    Failure.UNSENDABLE: "GenericError",
    Failure.MALFORMED: "GenericError",
    Failure.UNAUTHORIZED: "GenericError",
    Failure.NO_AUTHORITY: "GenericError",
    Failure.FAULT: "GenericError",
}


def test_every_status_has_its_name() -> None:
    """Redirects and 205 to 299 are failures: "only the following … as successful"."""
    expected = dict.fromkeys(range(100, 1000), "GenericError") | NAMED
    expected |= dict.fromkeys((200, 201, 202, 203, 204), "Delivered")

    outcomes = {status: classify(answered(status), LATEST) for status in expected}

    assert {status: each.outcome for status, each in outcomes.items()} == expected
    assert all(each.status == status for status, each in outcomes.items())


def test_an_answer_gives_its_time_and_its_retry_after_but_not_its_body() -> None:
    outcome = classify(answered(503, b'{"status":200}', {"retry-after": "45"}, 0.25), LATEST)

    assert outcome == DeliveryOutcome(
        outcome=Outcome.BUSY, status=503, seconds=0.25, retry_after="45"
    )


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_every_failure_has_a_name_and_no_status(failure: Failure) -> None:
    outcome = classify(NotAnswered(failure, "10.0.0.1 refused", 1.5), LATEST)

    assert (outcome.outcome, outcome.status) == (FAILURES[failure], None)
    assert outcome.failure is failure
    assert (outcome.seconds, outcome.detail) == (1.5, f"{failure}: 10.0.0.1 refused")


def test_every_failure_but_a_shortage_of_ours_has_an_outcome() -> None:
    """A shortage is no attempt."""
    assert set(Failure) - set(FAILURES) == {Failure.SHORTAGE}


@pytest.mark.parametrize(
    ("exchange", "cause"),
    [
        (answered(503), "503 Busy"),
        (
            NotAnswered(Failure.SOCKET, "connecting to 203.0.113.7: Connection refused", 0.0),
            "Connection refused",
        ),
        (NotAnswered(Failure.TIMED_OUT, "no answer in 30 s", 30.0), "timed out: no answer in 30 s"),
        (NotAnswered(Failure.FAULT, "x" * 999, 0.0), f"fault of the sender: {'x' * 78}…"),
    ],
)
def test_the_cause_is_named_in_a_few_words(exchange: Exchange, cause: str) -> None:
    assert classify(exchange, {200}).cause == cause


def test_selected_headers_and_the_beginning_of_the_body_are_kept() -> None:
    headers = {"content-type": "text/plain", "set-cookie": "session=1", "retry-after": "9" * 999}
    body = "ü".encode() * MOST_BODY

    kept = endpoint_answer(answered(503, body, headers), a_subscription(), "s-1")

    assert [*kept.headers] == ["content-type", "retry-after"]
    assert len(kept.headers["retry-after"]) == MOST_HEADER
    assert (kept.body, kept.is_truncated) == ("ü" * (MOST_BODY // 2), True)


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("https://me:pass@new.example/a;s=1?code=x", "https://new.example/a;s=1"),
        ("https://me@new.example?u=a@b", "https://new.example"),
        ("//me:pass@new.example/", "//new.example/"),
        ("/login%3Fcode=secret?x=1", "/login"),
        ("/a%23state@x", "/a"),
        ("/a/me@home", "/a/me@home"),
        ("https://new.example/hook?sig=of-another#x", "https://new.example/hook"),
        ("/login?next=%2F", "/login"),
        ("https://new.example/#access_token=1", "https://new.example/"),
        ("https://new.example/" + "x" * 999, "https://new.example/" + "x" * 235 + "…"),
        ("https://new.example/s3cret-of-the-url", WITHHELD),
    ],
)
def test_where_an_endpoint_redirects_to_is_kept_without_its_query(location: str, kept: str) -> None:
    """And it is the first that is said of the answer, in one line of a bounded length."""
    subscription = a_subscription(endpoint_url="https://crm.example/hook?code=s3cret-of-the-url")

    found = endpoint_answer(answered(301, b"moved", {"location": location}), subscription, "s-1")

    assert found.headers == {"location": kept}
    assert found.words == clip(f"Location: {kept}; moved", 200)


def test_of_html_the_text_is_kept_and_withheld_for_what_it_says_without_tags() -> None:
    subscription = a_subscription(endpoint_url="https://crm.example/hook?code=abcdefgh")
    html = {"content-type": "text/html; charset=utf-8"}
    page = "\ufeff<html><head><title>502 Bad Gateway</title></head>" + "<hr>" * MOST_BODY

    kept = endpoint_answer(answered(502, f"{page}nginx".encode(), html), subscription, "s-1")
    joined = endpoint_answer(answered(502, b"<b>abcd</b>efgh", html), subscription, "s-1")

    assert (kept.body, kept.is_truncated) == ("502 Bad Gateway\nnginx", False)
    assert kept.words == "502 Bad Gateway"
    assert joined.body == WITHHELD


@pytest.mark.parametrize(
    "echoed",
    [
        "no such code: s3cret-of-the-url",
        "code%3Ds3cret-of-the-url",
        "I know whsec_s3cret-to-sign-with",
    ],
)
def test_what_repeats_a_secret_is_withheld(echoed: str) -> None:
    """By the rule of the test of an endpoint, wherever in the answer it stands."""
    subscription = a_subscription(
        endpoint_url="https://crm.example/hook?code=s3cret-of-the-url",
        signing=("whsec_s3cret-to-sign-with",),
    )
    answer = answered(401, b"x" * 1000 + echoed.encode(), {"location": echoed, "server": "nginx"})

    kept = endpoint_answer(answer, subscription, "s-1")

    assert kept.body == WITHHELD
    assert kept.headers == {"location": WITHHELD, "server": "nginx"}
