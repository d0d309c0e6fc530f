"""What operators read about tests of endpoints, and about holds."""

from __future__ import annotations

from typing import Any

import pytest

from cli.status import hold_text
from cli.subscription.actions import lines_of_test
from cli.timeline import state_text
from pushgrid.testing.memory import START

PAUSED = {"since": "2026-02-09T12:00:00.0000000Z", "by": "Entra ID principal \x1b[31m"}
HELD = {"until": "2026-02-09T12:05:00.0000000Z", "why": "probation for NotFound: 5 min"}
COUNTED = "PublishSuccess MatchedEvent UnmatchedEvent DeliverySuccess DeadLettered DroppedEvent"
COUNTS = {f"{name}Count": 0 for name in COUNTED.split()}
HELD_TEXT = "held until 2026-02-09 12:05:00: probation for NotFound: 5 min"
CERTIFICATE = {
    "subject": "CN=other.test",
    "issuer": "CN=Test",
    "validUntil": "2026-05-10T12:00:00.0000000Z",
    "names": ["other.test"],
    "matchesHost": False,
}


def found(**members: Any) -> dict[str, Any]:
    request = {"method": "POST", "url": "https://a.test/", "headers": {"x-a": "Hidden"}, "body": ""}
    nothing = {"answer": None, "failure": None, "peer": None, "outcome": None, "seconds": 0.25}
    return {"request": request, **nothing, **members}


def test_a_refused_certificate_is_shown_with_the_reason() -> None:
    failure = {"reason": "TLS failed", "detail": "Hostname mismatch"}
    peer = {"address": "203.0.113.7", "certificate": CERTIFICATE}

    assert list(lines_of_test(found(failure=failure, peer=peer))) == [
        "POST https://a.test/",
        "  x-a: Hidden",
        "",
        "no answer after 0.25 s: TLS failed (Hostname mismatch)",
        "address: 203.0.113.7",
        "certificate: CN=other.test, for other.test; it is not for this host",
        "  issued by CN=Test",
        "  valid until 2026-05-10 12:00:00 (UTC)",
    ]


def test_what_an_endpoint_answers_can_not_move_the_cursor() -> None:
    said = {
        "status": 500,
        "headers": {"x": "\x1b[2J"},
        "body": "\x1b[31mred\r\nblue",
        "isTruncated": True,
    }

    lines = list(lines_of_test(found(answer=said, outcome="InternalServerError")))

    assert lines[-4:] == [
        "500 (InternalServerError) after 0.25 s",
        "  x: \N{REPLACEMENT CHARACTER}[2J",
        "  \N{REPLACEMENT CHARACTER}[31mred",
        "  blue",
    ]


@pytest.mark.parametrize(
    ("paused", "held", "text"),
    [
        (None, None, ""),
        (None, HELD, HELD_TEXT),
        (None, {"until": None, "why": "a probe is due"}, "held: a probe is due"),
        (
            {**PAUSED, "by": "the admin key"},
            HELD,
            f"paused since 2026-02-09 12:00:00 by the admin key; {HELD_TEXT}",
        ),
    ],
)
def test_a_hold_is_told_in_one_line(paused: object, held: object, text: str) -> None:
    assert hold_text({"paused": paused, "held": held}) == text


def test_what_is_shown_has_been_matched_although_the_counts_are_late() -> None:
    state = {"hasConsented": True, "held": None, "counts": COUNTS | {"PublishSuccessCount": 2}}

    assert state_text(state, START, START).endswith("Its filters matched none of them.")
    assert "Its filters" not in state_text(state, START, START, shows_events=True)


def test_the_timeline_tells_of_a_pause() -> None:
    state = {"hasConsented": True, "paused": PAUSED, "held": None, "counts": COUNTS}

    first, _ = state_text(state, START, START).splitlines()

    who = "Entra ID principal \N{REPLACEMENT CHARACTER}[31m: its events wait until it is resumed."
    assert first == f"Paused since 2026-02-09 12:00:00 by {who}"
