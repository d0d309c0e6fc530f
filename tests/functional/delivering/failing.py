"""Making endpoints fail or answer late, and looking at what that does to their events."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

from pushgrid.testing.memory import ScriptedPusher, answered
from pushgrid.testing.memory.pushing import Sent
from shared.delivery.gate import Availability
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.in_hand import Attempted, PushRequest, Shortage
from shared.engine.ports import Queue
from shared.http import Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from shared.subscriptions.subscription import EventSubscription, RetryPolicy
from tests.builders import URL, a_delivery, a_message, a_topic
from tests.functional.deployment import SECOND, Deployment
from tests.unit.delivery.messages.wire import together

TIMEOUT = NotAnswered(Failure.TIMED_OUT, "no answer in time", 30)
ONE_ATTEMPT = RetryPolicy(max_delivery_attempts=1)


def fail(app: Deployment, status: int = 503, events: int = 1) -> None:
    """Let events fail, each in a message of its own, and forget what is stored for them."""
    if not app.directory.known:
        app.subscribe()
    app.pusher.script(URL, answered(status))
    for number in range(events):
        app.run(a_message([a_delivery(100 + number)]))
    forget(app)
    app.pusher.script(URL, answered(200))


def forget(app: Deployment) -> None:
    app.queues.stored.clear()
    app.pusher.sent.clear()


def time_out(
    app: Deployment, events: int = 1, profile: str = "2020", **subscription: object
) -> None:
    """Deliver a message whose every event meets a timeout: no probation keeps the later ones."""
    app.directory.topics["orders"] = a_topic(profile=profile)
    app.subscribe(**subscription)
    app.pusher.script(URL, TIMEOUT)
    app.run(a_message([a_delivery(number) for number in range(events)]))


def answer_late(app: Deployment, event: int = 0, status: int = 200) -> None:
    """Let the answer to the push of *event* come now."""
    late = app.pusher.sent[event].late
    assert late
    app.loop.call_soon(late.report, answered(status, seconds=35))
    app.loop.settle()


def answer_by(app: Deployment, answer: Callable[[Sent], Exchange]) -> None:
    """Let endpoints answer as a function says; it may raise."""

    class Answering(ScriptedPusher):
        async def send(
            self,
            request: OutboundRequest,
            timeout: timedelta,
            late: LateAnswerHandler | None = None,
        ) -> Exchange:
            await super().send(request, timeout, late)
            return answer(self.sent[-1])

    app.pusher = Answering(app.clock)
    app.push_with(app.pusher)


def another_process(app: Deployment) -> None:
    """Go on as a process that knows only what is stored."""
    vars(app).pop("health", None)  # with the rows that it keeps for a second
    app.deliver = app.new_process()


def availability(
    app: Deployment, subscription: EventSubscription, process: Deliver | None = None
) -> Availability:
    """Say what a process thinks of an endpoint."""
    process = process or app.deliver
    terms, health = process.judge.terms.of(subscription), process.endpoints.of(subscription).health
    app.loop.run(health.learn(terms))
    return health.availability(terms, app.watched.now())


def pushed(app: Deployment) -> int:
    return len(app.pusher.sent)


def groups(app: Deployment, queue: Queue = Queue.RETRIES) -> list[list[int]]:
    """Return the numbers of the events of each part on a queue."""
    return [events for _, events in app.waiting(queue)]


def requests(app: Deployment) -> list[list[int]]:
    """Return the numbers of the events of each request."""
    bodies = [json.loads(sent.request.body) for sent in app.pusher.sent]
    return [[int(event["id"].removeprefix("e-")) for event in body] for body in bodies]


def break_pushes(app: Deployment, error: BaseException, of: Callable[[PushRequest], bool]) -> None:
    """Let what pushes these requests raise, once they are under way."""
    push = app.push

    async def pushing(request: PushRequest) -> Attempted | Shortage:
        result = await push(request)
        if of(request):
            raise error
        return result

    app.push = pushing  # type: ignore[assignment]


def is_of(name: str) -> Callable[[PushRequest], bool]:
    """Choose the requests of a subscription."""
    return lambda request: request.part.subscription.name == name


def deliver_all(app: Deployment, queue: Queue = Queue.DELIVERIES) -> None:
    """Deliver everything on a queue, once."""
    texts = app.queues.texts(queue)
    app.queues.stored[queue].clear()
    for text in texts:
        app.work(text)


def url(name: str) -> str:
    return f"https://{name}.example/hook"


def subscribe(app: Deployment, *names: str, **choices: object) -> None:
    for name in names:
        app.subscribe(name=name, endpoint_url=url(name), **choices)


def fan_out(*names: str, events: int = 1, batch: int = 1) -> str:
    """Return the text of a message with events that each of these subscriptions gets."""
    deliveries = [a_delivery(number) for number in range(events)]
    return together(*(a_message(deliveries, subscription=name, batch_size=batch) for name in names))


def play(app: Deployment, lasts: timedelta, work: Callable[[str], object] | None = None) -> None:
    """Do what becomes due by storage's clock; *work* delivers a message."""
    until = app.clock.elsewhere.now() + lasts
    queues = (Queue.DELIVERIES, Queue.RETRIES, Queue.WAITING)
    while (due := app.queues.earliest(*queues)) and due[1].visible_at <= until:
        queue, message = due
        app.clock.advance(max(message.visible_at - app.clock.elsewhere.now(), timedelta()))
        if queue is Queue.WAITING:
            app.wake.run(app.in_a_minute())
        else:
            app.queues.stored[queue].remove(message)
            (work or app.work)(message.text)
    app.clock.advance(max(until - app.clock.elsewhere.now(), timedelta()))


def let_live(app: Deployment, lasts: timedelta) -> None:
    """Let time pass, and begin with each message that becomes visible; none waits for another."""
    now = app.clock.elsewhere.now
    until = now() + lasts
    while now() < until:
        app.loop.advance(SECOND / 2)
        for stored in (app.queues.stored[queue] for queue in (Queue.DELIVERIES, Queue.RETRIES)):
            for message in [each for each in stored if each.visible_at <= now()]:
                stored.remove(message)
                app.begin(message.text)
