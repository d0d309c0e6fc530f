"""Deliveries to endpoints that want a token of Entra ID."""

from __future__ import annotations

from shared.engine.ports import Queue
from shared.http import Audience, Failure, NotAnswered
from tests.builders import URL, a_message
from tests.functional.delivering.failing import pushed
from tests.functional.deployment import Deployment

AUDIENCE = Audience("contoso.example", "api://hook")


def test_a_request_says_for_whom_its_token_is(app: Deployment) -> None:
    app.subscribe(audience=AUDIENCE)
    app.subscribe(name="open", endpoint_url="https://open.example/")

    for name in ("crm", "open"):
        app.run(a_message(subscription=name))

    assert [sent.request.audience for sent in app.pusher.sent] == [AUDIENCE, None]


def test_no_token_is_the_outcome_of_an_attempt_and_is_tried_again(app: Deployment) -> None:
    app.subscribe(audience=AUDIENCE)
    app.pusher.script(URL, NotAnswered(Failure.UNAUTHORIZED, "AADSTS7000215", 0))

    app.run(a_message())

    assert pushed(app) == 1
    (message,) = app.on(Queue.RETRIES)
    (delivery,) = message.deliveries
    assert delivery.attempts == 1
    assert delivery.last is not None
    assert delivery.last.outcome == "GenericError"
