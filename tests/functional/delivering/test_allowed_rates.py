"""What endpoints ask for: an allowed rate, and ``Retry-After``."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Queue
from shared.http import Failure, NotAnswered
from tests.builders import URL, a_delivery, a_message
from tests.functional.delivering.failing import play, pushed
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged


def test_what_is_beyond_the_rate_goes_back_paced_and_uncounted(app: Deployment) -> None:
    app.subscribe(rate=20)

    app.run(a_message([a_delivery(number) for number in range(6)]))

    assert pushed(app) == 3
    waiting = app.on(Queue.RETRIES)
    rest = [each for message in waiting for each in message.deliveries]
    assert sorted(each.position for each in rest) == [3, 4, 5]
    assert {each.attempts for each in rest} == {0}
    step = 61 / 18
    dues = sorted((m.due - app.clock.now()) / SECOND for m in waiting if m.due)
    assert dues[-1] == round(3 * step, 6)


def test_no_minute_sees_more_than_the_allowed_rate(app: Deployment) -> None:
    app.subscribe(rate=120)
    for group in range(6):
        app.run(a_message([a_delivery(group * 64 + number) for number in range(64)]))
    play(app, 5 * MINUTE)

    times = [sent.at for sent in app.pusher.sent]
    assert len(times) == 384
    assert max(sum(t <= each < t + MINUTE for each in times) for t in times) <= 120
    assert times[-1] - times[0] < timedelta(minutes=4)


def test_another_subscription_has_a_rate_of_its_own(app: Deployment) -> None:
    app.subscribe(rate=1)
    app.subscribe(rate=1, name="billing")

    app.run(a_message([a_delivery(1)]))
    app.run(a_message([a_delivery(1)], subscription="billing"))
    app.run(a_message([a_delivery(2)]))

    assert pushed(app) == 2


def test_a_probe_beyond_the_rate_is_returned(app: Deployment) -> None:
    app.subscribe(rate=1)
    app.pusher.script(URL, NotAnswered(Failure.SOCKET, "refused", 0), answered(200))
    app.run(a_message([a_delivery(1)]))
    app.clock.advance(31 * SECOND)

    app.run(a_message([a_delivery(2)]))
    assert pushed(app) == 1
    app.clock.advance(31 * SECOND)
    app.run(a_message([a_delivery(2)]))

    assert pushed(app) == 2


@pytest.mark.parametrize(
    ("honored", "waits"), [(True, 45), (False, 30)], ids=["honored", "the default"]
)
def test_a_busy_endpoint_is_left_alone_for_as_long_as_it_asks(
    app: Deployment, logged: Logged, *, honored: bool, waits: int
) -> None:
    app.subscribe()
    app.set_terms(honor_retry_after=honored)
    app.pusher.script(URL, answered(503, headers={"retry-after": "45"}))

    app.run(a_message())

    (message,) = app.on(Queue.RETRIES)
    assert message.due == START + waits * SECOND
    (line,) = logged("delivery.attempted")
    expected = "Retry-After of the endpoint: 45 s" if honored else "minimum for 503: 30 s"
    assert line["why"] == expected
