"""Deliveries to endpoints that want a token of Entra ID."""

from __future__ import annotations

from shared.engine.ports import Queue
from shared.http import Audience, Failure, NotAnswered
from tests.builders import URL, a_delivery, a_message
from tests.functional.delivering.failing import pushed
from tests.functional.deployment import Deployment

AUDIENCE = Audience("contoso.example", "api://hook")


def test_a_token_is_fetched_before_any_push_needs_it(app: Deployment) -> None:
    app.subscribe(audience=AUDIENCE)

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert app.tokens.fetched == [AUDIENCE]
    assert [sent.request.audience for sent in app.pusher.sent] == [AUDIENCE] * 3


def test_who_wants_none_has_none_fetched(app: Deployment) -> None:
    app.subscribe()

    app.run(a_message())

    assert app.tokens.fetched == []
    assert app.pusher.sent[0].request.audience is None


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
