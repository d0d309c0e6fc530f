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


FORM = "must be a secret, or 2 with a space between them; each is 'whsec_' and 24 to 64 bytes in"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("", FORM, id="empty"),
        pytest.param("whsec_", FORM, id="nothing after the prefix"),
        pytest.param(OLD.removeprefix("whsec_"), FORM, id="no prefix"),
        pytest.param(OLD.replace("whsec_", "WHSEC_"), FORM, id="prefix in upper case"),
        pytest.param(OLD.replace("whsec_", "whsk_"), FORM, id="another kind of key"),
        pytest.param(f"whsec_{b64encode(b'x' * 23).decode()}", FORM, id="too short"),
        pytest.param(f"whsec_{b64encode(b'x' * 65).decode()}", FORM, id="too long"),
        pytest.param(OLD.rstrip("="), FORM, id="no padding"),
        pytest.param(OLD.replace("q", "_"), FORM, id="Base64 for URLs"),
        pytest.param(f"{OLD}\n", FORM, id="line break"),
        pytest.param(f"{OLD}  {NEW}", FORM, id="two spaces"),
        pytest.param(f"{OLD},{NEW}", FORM, id="comma"),
        pytest.param(f"whsec_{'é' * 32}", FORM, id="no ASCII"),
        pytest.param(f"{OLD} {NEW} {FOREIGN}", "must have at most 2 secrets", id="three"),
        pytest.param(f"{OLD} {OLD}", "must not have the same secret twice", id="the same twice"),
    ],
)
def test_what_is_no_secret_is_refused_without_quoting_it(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^must") as refused:
        parse_secrets(text)

    assert str(refused.value).startswith(fault)
    assert len(text) < 10 or text[6:] not in str(refused.value)


@pytest.mark.parametrize("new", [f"{OLD} {NEW}", OLD, "x"], ids=["two", "the same", "none"])
def test_a_rotation_to_what_is_no_new_secret_is_refused(new: str) -> None:
    with pytest.raises(ValueError, match="must"):
        rotated((OLD,), new)
