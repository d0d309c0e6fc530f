"""Signatures of requests, as Standard Webhooks has them; its own package verifies them."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from shared.http import OutboundRequest
from shared.subscriptions.signing import parse_secrets, rotated, sign

OLD, NEW, FOREIGN = (f"whsec_{b64encode(bytes([n]) * 32).decode()}" for n in (0xAB, 0xCD, 0xEF))
BODY = '[{"id":"grüße ☃"}]'.encode()


def signed(*secrets: str, at: datetime | None = None) -> OutboundRequest:
    request = OutboundRequest("POST", "https://h/", {"x": "y"}, BODY)
    return sign(request, secrets, "msg-1", at or datetime.now(UTC))


def verify(secret: str, request: OutboundRequest, body: bytes | None = None) -> object:
    return Webhook(secret).verify(body or request.body, dict(request.headers))


def test_a_signature_is_that_of_the_specifications_example() -> None:
    request = OutboundRequest("POST", "https://h/", {"x": "y"}, b'{"test": 2432232314}')
    at = datetime.fromtimestamp(1614265330.9, UTC)

    found = sign(
        request, ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",), "msg_p5jXN8AQM9LWM0D4loKWxJek", at
    )

    assert found.headers == {
        "x": "y",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert found._replace(headers=request.headers) == request


def test_whoever_has_one_of_two_secrets_can_verify() -> None:
    request = signed(NEW, OLD)

    assert verify(NEW, request) == verify(OLD, request) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        verify(FOREIGN, request)
    with pytest.raises(WebhookVerificationError):
        verify(NEW, request, BODY.replace(b"id", b"iD"))
    with pytest.raises(WebhookVerificationError):
        verify(NEW, signed(NEW, at=datetime.now(UTC) - timedelta(minutes=6)))


def test_a_rotation_keeps_the_newest_secret_and_no_older_one() -> None:
    assert rotated((), NEW) == NEW
    assert rotated((OLD,), NEW) == f"{NEW} {OLD}"
    assert rotated((NEW, OLD), FOREIGN) == f"{FOREIGN} {NEW}"


def secret_of(size: int) -> str:
    return f"whsec_{b64encode(b'x' * size).decode()}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("", "is empty: give 'whsec_' and 24 to 64 bytes", id="empty"),
        pytest.param("whsec_", "has nothing after 'whsec_'", id="nothing after the prefix"),
        pytest.param(OLD.removeprefix("whsec_"), "must begin with 'whsec_': write", id="no prefix"),
        pytest.param(OLD.upper(), "must begin with 'whsec_' in small letters", id="upper case"),
        pytest.param(f"v1,{OLD}", "begins with 'v1,': leave that out", id="prefix of a scheme"),
        pytest.param("v1,g0hM9SsE+OTP", "begins with 'v1,', so it is a signature", id="signature"),
        pytest.param(OLD.replace("whsec", "whsk"), "is a key for signatures of", id="another kind"),
        pytest.param(secret_of(23), "has 23 bytes in Base64: there must be 24 to 64", id="short"),
        pytest.param(secret_of(65), "has 65 bytes in Base64: there must be 24 to 64", id="long"),
        pytest.param(OLD.rstrip("="), "has wrong padding: its Base64 must end with '='", id="bare"),
        pytest.param(secret_of(24) + "=", "has wrong padding: its Base64 must end with no '='"),
        pytest.param(OLD[:-3], "has a character too few or too many", id="cut"),
        pytest.param(OLD.replace("q", "_"), "is Base64 for URLs: write '+'", id="for URLs"),
        pytest.param(OLD + NEW, "has another secret inside", id="two in one"),
        pytest.param(OLD + "abcd", "has '=' before its end", id="text behind the padding"),
        pytest.param("whsec_====", "has '=' before its end", id="padding alone"),
        pytest.param(f"{OLD[:40]}\n{OLD[40:]}", "has a line break or a tab inside", id="broken"),
        pytest.param(f'"{OLD}"', "has quotation marks: leave them out", id="quoted"),
        pytest.param(f"{OLD}  {NEW}", "has a space too many", id="two spaces"),
        pytest.param(f" {OLD}", "has a space too many", id="space before it"),
        pytest.param(f"{OLD} ", "has a space too many", id="space after it"),
        pytest.param(f"{OLD},{NEW}", "has a comma or semicolon: write a space", id="comma"),
        pytest.param(f"whsec_{'é' * 32}", "has a character that is not of Base64", id="no ASCII"),
        pytest.param(f"{OLD} {NEW} {FOREIGN}", "must have at most 2 secrets", id="three"),
        pytest.param(f"{OLD} {OLD}", "must not have the same secret twice", id="the same twice"),
        pytest.param(
            f"{OLD} {NEW[:-1]}",
            "is wrong in secret 2 of 2, which has wrong padding",
            id="the second",
        ),
    ],
)
def test_what_is_no_secret_is_refused_by_what_is_wrong_without_quoting_it(
    text: str, fault: str
) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|begins|must) ") as refused:
        parse_secrets(text)

    assert str(refused.value).startswith(fault)
    assert len(text) < 11 or text[6:16] not in str(refused.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_break_at_the_end_of_a_file_is_no_part_of_its_secret(end: str) -> None:
    assert parse_secrets(OLD + end) == (OLD,)
    assert parse_secrets(f"{OLD} {NEW}{end}") == (OLD, NEW)
    assert rotated((OLD,), NEW + end) == f"{NEW} {OLD}"


@pytest.mark.parametrize("new", [f"{OLD} {NEW}", OLD, "x"], ids=["two", "the same", "none"])
def test_a_rotation_to_what_is_no_new_secret_is_refused(new: str) -> None:
    with pytest.raises(ValueError, match="must"):
        rotated((OLD,), new)
