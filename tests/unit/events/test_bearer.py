"""Authorization by access token, and topics that require one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.events.authorization import authorize, bearer_token
from shared.events.token_claims import Claims, TokenFault
from tests.builders import KEY, TOPIC_ID, a_topic
from tests.unit.events.publishing import NOW, a_request, refusal
from tests.unit.events.signing import sign

_BEARER = {"authorization": "Bearer t"}
_SENDER = Claims.from_token({"roles": ["EventGrid Data Sender"]})
_REFUSED = (
    "The request authorization token is not authorized for ORDERS.LOCAL-1.EVENTGRID.AZURE.NET."
    " This is due to the reason: "
)
_LOCAL = (
    "Publishing to Topic orders with an access key or a shared access signature is rejected"
    " because local authentication is disabled."
)


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"authorization": "Bearer t"}, "t"),
        ({"authorization": " bearer   t "}, "t"),
        ({"authorization": "BEARER a b"}, "a b"),
        ({"authorization": "Bearer"}, ""),
        ({"authorization": "Bearer t", "aeg-sas-key": ""}, None),
        ({"authorization": "Bearer t", "aeg-sas-token": ""}, None),
        ({"authorization": "SharedAccessSignature t"}, None),
        ({"authorization": ""}, None),
        ({}, None),
    ],
)
def test_the_token_decides_unless_another_credential_comes_first(headers, token):
    assert bearer_token(a_request(headers=headers)) == token


def test_namespace_topics_ignore_other_carriers():
    request = replace(
        a_request(headers=_BEARER | {"aeg-sas-key": KEY}),
        params={"namespace": "shop", "action": "orders:publish"},
    )

    assert bearer_token(request) == "t"
    authorize(request, a_topic(), NOW, _SENDER)
    assert refusal(authorize, request, a_topic(), NOW)[3] == TokenFault.UNREADABLE


@pytest.mark.parametrize("disabled", [True, False])
def test_a_token_with_the_role_passes(disabled: bool):  # noqa: FBT001 - a row
    authorize(a_request(headers=_BEARER), a_topic(disable_local_auth=disabled), NOW, _SENDER)


@pytest.mark.parametrize("fault", [None, *TokenFault])
def test_a_faulty_token_is_refused_with_the_reason(fault):
    refused = refusal(authorize, a_request(headers=_BEARER), a_topic(), NOW, fault)

    is_unreadable = fault in (None, TokenFault.UNREADABLE)
    message = "Unable to read access token." if is_unreadable else _REFUSED + fault.value
    assert refused == (401, "Unauthorized", "Unauthorized", message)


@pytest.mark.parametrize("roles", [[], ["EventGrid Contributor"], ["EventGrid Data"]])
def test_a_token_without_the_role_is_forbidden(roles):
    claims = Claims.from_token({"roles": roles})

    refused = refusal(authorize, a_request(headers=_BEARER), a_topic(), NOW, claims)

    assert refused[:3] == (403, "Forbidden", "Forbidden")
    assert refused[3] == (
        "The principal associated with access token presented with the incoming request"
        f" does not have permission to send data to {TOPIC_ID}."
    )


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"aeg-sas-key": KEY}, {}),
        ({"aeg-sas-key": "wrong"}, {}),
        ({"aeg-sas-key": ""}, {}),
        ({"aeg-sas-token": sign()}, {}),
        ({"aeg-sas-token": "r=a"}, {}),
        ({"authorization": f"SharedAccessSignature {sign()}"}, {}),
        ({}, {"aeg-sas-key": KEY}),
        ({}, {"aeg-sas-token": sign()}),
        ({"aeg-sas-key": KEY, **_BEARER}, {}),
    ],
)
def test_without_local_auth_keys_and_signatures_are_forbidden(headers, query):
    """Contract §1.7: and no answer tells whether they would have been right."""
    topic = a_topic(disable_local_auth=True)

    refused = refusal(authorize, a_request(headers=headers, query=query), topic, NOW, _SENDER)

    assert refused == (403, "Forbidden", "Forbidden", _LOCAL)


@pytest.mark.parametrize(
    ("headers", "words"), [({}, "must contain one of"), ({"authorization": "Basic x"}, "scheme")]
)
def test_without_local_auth_a_missing_credential_is_reported_as_such(headers, words):
    topic = a_topic(disable_local_auth=True)

    status, *_, message = refusal(authorize, a_request(headers=headers), topic, NOW)

    assert status == 401
    assert words in message
