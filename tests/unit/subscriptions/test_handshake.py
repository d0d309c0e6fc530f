"""The validation handshake: the challenge, and the answers that prove consent."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.clip import LONGEST
from shared.http import MAX_ANSWER, Answered, Exchange, Failure, NotAnswered
from shared.settings import NAMES
from shared.subscriptions.diagnosis import AWAITED, Diagnosis, Reason, diagnosis, while_awaited
from shared.subscriptions.handshake import (
    Challenge,
    Granted,
    build_challenge,
    judge_answer,
    may_follow,
    parse_allowed_rate,
    refusal,
    should_retry,
)
from tests.unit.arm.documents import subscription, webhook

NOW = datetime(2025, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
CODE = "5120A7-CODE"
URL = "https://crm.example/hook?code=s3cret"
LINK = "https://pushgrid.example/validate/orders.crm.secret"


def asked(
    schema: str = "EventGridSchema", *, link: str | None = LINK, **properties: Any
) -> Challenge:
    wanted = to_subscription(subscription(eventDeliverySchema=schema, **properties))
    return build_challenge(wanted, code=CODE, event_id="event-1", now=NOW, link=link)


def answered(status: int = 200, body: bytes | str = b"", **headers: str) -> Answered:
    raw = body.encode() if isinstance(body, str) else body
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answered(status=status, headers=names, body=raw, seconds=0.1)


def found(challenge: Challenge, exchange: Exchange) -> Diagnosis:
    judged = judge_answer(challenge, exchange)
    assert isinstance(judged, Diagnosis)
    return judged


def refused(challenge: Challenge, exchange: Exchange) -> str:
    """Return what whoever subscribes is told."""
    return refusal(challenge, found(challenge, exchange), "", NOW, "activity-1").message


def test_the_event_grid_schema_is_asked_by_a_post_with_a_code() -> None:
    """Source: Event Grid "Endpoint validation with Event Grid event schema" (2024-09-25)."""
    request = asked().request

    assert (request.method, request.url, request.wants_body) == ("POST", URL, True)
    assert request.headers == {
        "Content-Type": "application/json; charset=utf-8",
        "aeg-event-type": "SubscriptionValidation",
        "aeg-subscription-name": "CRM",
        "aeg-delivery-count": "0",
        "aeg-data-version": "1",
        "aeg-metadata-version": "1",
    }
    assert json.loads(request.body) == [
        {
            "id": "event-1",
            "topic": "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid"
            "/topics/orders",
            "subject": "",
            "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
            "eventTime": "2025-01-02T03:04:05.1234560Z",
            "metadataVersion": "1",
            "dataVersion": "1",
            "data": {"validationCode": CODE, "validationUrl": LINK},
        }
    ]


def test_cloud_events_are_asked_by_options_with_our_origin() -> None:
    """Source: CloudEvents "HTTP 1.1 Web Hooks for Event Delivery", section 4.1."""
    request = asked("CloudEventSchemaV1_0").request

    assert (request.method, request.url, request.body) == ("OPTIONS", URL, b"")
    assert request.wants_body
    assert request.headers == {
        "WebHook-Request-Origin": "eventgrid.azure.net",
        "WebHook-Request-Callback": LINK,
    }


def test_without_a_validation_link_none_is_sent() -> None:
    """Source: "Endpoint validation" for namespaces (2024-05-08): no callback, and no rate."""
    options = asked("CloudEventSchemaV1_0", link=None).request
    post = asked(link=None).request

    assert options.headers == {"WebHook-Request-Origin": "eventgrid.azure.net"}
    assert json.loads(post.body)[0]["data"] == {"validationCode": CODE}


@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
def test_static_headers_go_along_and_dynamic_ones_have_no_event(schema: str) -> None:
    mappings = [
        {"name": "Authorization", "type": "Static", "properties": {"value": "k", "isSecret": True}},
        {"name": "x-kind", "type": "Dynamic", "properties": {"sourceField": "subject"}},
    ]

    request = asked(schema, destination=webhook(deliveryAttributeMappings=mappings)).request

    assert request.headers == {**asked(schema).request.headers, "Authorization": "k"}


@pytest.mark.parametrize(
    "body",
    [
        f'{{"validationResponse":"{CODE}"}}',
        f'{{"ValidationResponse":"{CODE}", "more": 1}}',  # as in an early sample
        f'{{"validationResponse":"{CODE.lower()}"}}',
        f'\ufeff{{"validationResponse":"{CODE}"}}',
    ],
)
def test_200_with_the_code_proves_consent(body: str) -> None:
    assert judge_answer(asked(), answered(200, body)) == Granted()


RESPONSE = f'{{"validationResponse":"{CODE}"}}'
PADDED = f'{{"validationResponse":"{CODE}","more":"{"x" * MAX_ANSWER}"}}'[:MAX_ANSWER]


@pytest.mark.parametrize(
    ("exchange", "reason", "words"),
    [
        (answered(), Reason.NO_CODE, "200 without the validation code"),
        (answered(body="{"), Reason.NO_CODE, "200 without the validation code"),
        (answered(body=b"\xff"), Reason.NO_CODE, "200 without the validation code"),
        (answered(body="[" * 60_000), Reason.NO_CODE, "200 without the validation code"),
        (answered(body='{"validationResponse":1}'), Reason.NO_CODE, "200 without the"),
        (answered(body=f'["{CODE}"]'), Reason.IN_ARRAY, "in an array"),
        (answered(body=f"[{RESPONSE}]"), Reason.IN_ARRAY, "in an array"),
        # the request itself
        (answered(body=f'[{{"data": {{"validationCode": "{CODE}"}}}}]'), Reason.NO_CODE, "without"),
        (answered(body=f'"{CODE}"'), Reason.BARE, "as bare text"),
        (answered(body=CODE.lower()), Reason.BARE, "as bare text"),
        (answered(body=f"{{validationResponse: '{CODE}'}}"), Reason.BARE, "as bare text"),
        (answered(body=f'{{"code":"{CODE}"}}'), Reason.OTHER_MEMBER, "member validationResponse"),
        (answered(body=f'{{"body":{RESPONSE}}}'), Reason.OTHER_MEMBER, "member validationResponse"),
        (answered(body=gzip.compress(RESPONSE.encode())), Reason.COMPRESSED, "Content-Encoding"),
        (answered(body=b"\x0b\x01", content_encoding="br"), Reason.COMPRESSED, "Content-Encoding"),
        (answered(body=PADDED), Reason.TOO_LARGE, "64 KiB or more"),
    ],
    ids=map(str, count()),
)
def test_after_200_without_the_code_consent_is_pending_and_the_reason_is_named(
    exchange: Answered, reason: Reason, words: str
) -> None:
    diagnosed = found(asked(), exchange)

    assert (diagnosed.reason, words in diagnosed.why) == (reason, True)
    assert '200 with {"validationResponse": "<data.validationCode>"}' in diagnosed.remedy
    assert "https://aka.ms/esvalidation)" in diagnosed.remedy
    assert "pushgrid listen --forward-to URL" in diagnosed.remedy
    assert may_follow(asked(), diagnosed)
    assert not may_follow(asked(link=None), diagnosed)
    assert diagnosed.why in refused(asked(link=None), exchange)
    assert CODE.lower() not in str(diagnosed).lower()


def test_a_header_of_a_coding_that_was_not_used_is_no_matter() -> None:
    exchange = answered(200, RESPONSE, content_encoding="br")

    assert judge_answer(asked(), exchange) == Granted()
    assert found(asked(), answered(200, "{}", content_encoding="br")).reason is Reason.NO_CODE


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (answered(202, f'{{"validationResponse":"{CODE}"}}'), "response code Accepted."),
        (answered(404), "Http POST request failed with response code NotFound."),
        (answered(799), "response code 799."),
        (NotAnswered(Failure.TIMED_OUT, "secret detail", 30), "response code Unknown (timed out)."),
        (answered(200, '{"validationResponse":"x"}'), "that is not the validationCode"),
    ],
)
def test_other_answers_are_refused_with_the_reason(exchange: Exchange, reason: str) -> None:
    message = refused(asked(), exchange)

    assert not may_follow(asked(), found(asked(), exchange))
    assert message.startswith("Webhook validation handshake failed for https://crm.example/hook. ")
    assert reason in message
    assert message.endswith(
        " For troubleshooting, visit https://aka.ms/esvalidation. "
        "Activity id:activity-1, timestamp: 1/2/2025 3:04:05 AM (UTC)."
    )
    assert "s3cret" not in message
    assert "secret detail" not in message
    assert CODE not in message


FUNCTION = "https://app.example/runtime/webhooks/{}?functionName=Order&code=s3cret"


@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "no key, or a wrong one. End the URL with &code=KEY: the app's system key {}."),
        (
            403,
            "kind, or is stopped. End the URL with &code=KEY: the app's system key {}.",
        ),
        (
            404,
            "or it is disabled. An app that is still starting answers so, too.",
        ),
    ],
)
def test_what_a_functions_host_means_by_its_status(schema: str, status: int, words: str) -> None:
    for extension in ("EventGrid", "blobs"):
        its = asked(schema, destination=webhook(endpointUrl=FUNCTION.format(extension)))

        remedy = found(its, answered(status)).remedy

        assert remedy.endswith(words.format(f"{extension.lower()}_extension"))
        assert "listen" not in remedy
    elsewhere = asked(schema, destination=webhook(endpointUrl="https://app.example/api/Order"))
    assert "It has to answer" in found(elsewhere, answered(status)).remedy
    assert "It has to answer" in found(its, answered(500)).remedy


@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
@pytest.mark.parametrize("failure", [Failure.SOCKET, Failure.TIMED_OUT])
def test_only_of_an_endpoint_that_answered_nothing_it_is_asked_whether_it_runs(
    schema: str, failure: Failure
) -> None:
    silence = NotAnswered(failure, "", 0)

    hint = "Is the endpoint running? 'pushgrid listen' runs one that answers."
    assert hint in refused(asked(schema), silence)
    assert "running" not in refused(asked(schema), silence._replace(status=500))
    assert "running" not in refused(asked(schema), answered(500))


@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
@pytest.mark.parametrize("failure", Failure)
def test_only_a_refusal_by_the_outbound_guard_names_the_settings(
    schema: str, failure: Failure
) -> None:
    message = refused(asked(schema), NotAnswered(failure, "", 0))

    named = {"PUSHGRID_ALLOWED_NETWORKS", "PUSHGRID_ALLOW_HTTP"}
    assert named < set(NAMES.values())
    expected = named if failure is Failure.NOT_ALLOWED else set()
    assert set(re.findall(r"PUSHGRID_\w+", message)) == expected
    assert ("169.254.0.0/16" in message) == bool(expected)


@pytest.mark.parametrize("status", [200, 204, 405, 500])
@pytest.mark.parametrize("origin", ["eventgrid.azure.net", "EventGrid.Azure.Net", " * "])
def test_the_origin_proves_consent_with_any_status(status: int, origin: str) -> None:
    """Source: CloudEvents web hooks, section 4.2: consent lies in the header."""
    exchange = answered(status, webhook_allowed_origin=origin)

    assert judge_answer(asked("CloudEventSchemaV1_0"), exchange) == Granted()


@pytest.mark.parametrize("status", [200, 202, 204, 299])
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, Reason.NO_ORIGIN),
        ({"webhook_allowed_origin": " "}, Reason.NO_ORIGIN),
        ({"access_control_allow_origin": "*"}, Reason.CORS),
    ],
    ids=["none", "empty", "CORS"],
)
def test_without_an_origin_consent_is_pending(
    status: int, headers: dict[str, str], reason: Reason
) -> None:
    exchange, cloud = answered(status, **headers), asked("CloudEventSchemaV1_0")

    diagnosed = found(cloud, exchange)

    assert diagnosed.reason is reason
    assert "without the header WebHook-Allowed-Origin" in diagnosed.why
    assert "WebHook-Allowed-Origin: eventgrid.azure.net" in diagnosed.remedy
    assert "https://aka.ms/esvalidationcloudevent)" in diagnosed.remedy
    assert may_follow(cloud, diagnosed)
    assert diagnosed.why in refused(asked("CloudEventSchemaV1_0", link=None), exchange)


@pytest.mark.parametrize(
    "origin",
    [
        *("eventgrid.azure.net.evil.example", "evil.eventgrid.azure.net", "**", "*.azure.net"),
        *("https://eventgrid.azure.net", "other.example,eventgrid.azure.net", "eventgrid.azure.ne"),
        "eventgr\u0131d.azure.net",
    ],
)
def test_a_similar_origin_proves_nothing(origin: str) -> None:
    """Source: CloudEvents web hooks, section 4.2: the origin that asked, or the asterisk; one."""
    exchange = answered(200, webhook_allowed_origin=origin)

    diagnosed = found(asked("CloudEventSchemaV1_0"), exchange)

    assert diagnosed.reason is Reason.OTHER_ORIGIN
    assert "is neither eventgrid.azure.net nor *" in diagnosed.why
    assert not may_follow(asked("CloudEventSchemaV1_0"), diagnosed)


@pytest.mark.parametrize(
    ("header", "rate"),
    [
        *(("120", 120), (" 1 ", 1), ("007", 7), (None, None), ("*", None), ("0", None)),
        *(("1.5", None), ("\u0663", None), ("9" * 5000, None)),
    ],
    ids=map(str, count()),
)
def test_the_rate_that_is_granted_with_the_origin(header: str | None, rate: int | None) -> None:
    """Source: CloudEvents web hooks, section 4.2; what is no rate sets no limit."""
    headers = {} if header is None else {"webhook_allowed_rate": header}
    exchange = answered(200, webhook_allowed_origin="*", **headers)

    assert parse_allowed_rate(header) == rate
    assert judge_answer(asked("CloudEventSchemaV1_0"), exchange) == Granted(rate)


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (answered(200, webhook_allowed_origin="azure.net"), "is neither"),
        (answered(300), "response code MultipleChoices"),
        (answered(404), "Http OPTIONS request failed with response code NotFound."),
        (NotAnswered(Failure.RESOLUTION, "", 0), "response code Unknown (name not resolved)."),
    ],
)
def test_another_origin_is_refused_with_the_reason(exchange: Exchange, reason: str) -> None:
    message = refused(asked("CloudEventSchemaV1_0"), exchange)

    assert reason in message
    assert "visit https://aka.ms/esvalidationcloudevent." in message


def test_only_a_timeout_and_a_shortage_of_ours_are_retried() -> None:
    retried = [each for each in Failure if should_retry(NotAnswered(each, "", 0))]

    assert retried == [Failure.TIMED_OUT, Failure.SHORTAGE]
    assert not should_retry(answered(500))
    assert not should_retry(answered(200))


@pytest.mark.parametrize("reason", [*sorted(AWAITED), None, "ofALaterVersion", 7])
@pytest.mark.parametrize("schema", ["EventGridSchema", "CloudEventSchemaV1_0"])
def test_while_consent_is_awaited_a_new_handshake_is_the_way_on(reason: Any, schema: str) -> None:
    """The link helps while it works only; of a reason that is not known the remedy is usual."""
    wanted = to_subscription(subscription(eventDeliverySchema=schema))

    awaited, over = (while_awaited(reason, wanted, is_over=each) for each in (False, True))

    expected = diagnosis(reason if reason in AWAITED else Reason.NOT_KNOWN)
    assert awaited.why == over.why == expected.why
    again = "'pushgrid subscription update crm --topic orders --endpoint URL' asks it again"
    assert again in awaited.remedy
    assert again in over.remedy
    link = "the validation link in the request that the endpoint received"
    assert (link in awaited.remedy, "anew" in awaited.remedy) == (True, False)
    assert (link in over.remedy, "anew" in over.remedy) == (False, True)
    if reason not in AWAITED:
        assert ("OPTIONS" in awaited.remedy) == (schema == "CloudEventSchemaV1_0")
    for each in (awaited, over):
        assert len(each.remedy) <= LONGEST  # the log clips longer ones


def test_the_former_endpoint_is_named_as_long_as_it_gets_the_events() -> None:
    wanted = to_subscription(subscription())

    assert "former endpoint" in while_awaited(Reason.NO_CODE, wanted, has_former=True).why
    assert "former" not in while_awaited(Reason.NO_CODE, wanted).why
