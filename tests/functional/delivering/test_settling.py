"""What follows a part passes through one place, which answers for each; every end is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, Counted, answered
from shared.delivery.delivery import Delivery
from shared.delivery.gate import NotNow
from shared.delivery.messages.message import MessagePart
from shared.delivery.policy import EndReason, EndState
from shared.engine.delivering.in_hand import MessageInHand, MessagesInHand, Part
from shared.engine.delivering.settle import GATHER_FOR
from shared.engine.ports import Queue
from shared.engine.ports.settling import Answer, Ended, Settled, Settlement
from shared.errors import StorageUnavailable
from shared.settings import AttemptLogging
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    EventSubscription,
    SubscriptionKey,
)
from tests.builders import CRM, DEAD, ORIGIN, PARKED, a_delivery, a_message, a_subscription, encode
from tests.functional.delivering.failing import (
    ONE_ATTEMPT,
    TIMEOUT,
    answer_late,
    fan_out,
    groups,
    subscribe,
    url,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged


@dataclass
class Settling:
    """Implements the port of that name, as a store with transactions would."""

    answers: dict[str, Answer] = field(default_factory=dict)  # by subscription
    calls: list[Sequence[Settlement]] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)  # subscriptions since they were re-read
    metrics: Counted = field(default_factory=Counted)

    async def settle(self, parts: Sequence[Settlement], repeat_for: timedelta) -> list[Settled]:
        del repeat_for
        self.calls.append(parts)
        return [
            Settled(
                Answer.CHANGED
                if each.ends and each.part.subscription in self.changed
                else self.answers.get(each.part.subscription, Answer.SETTLED)
            )
            for each in parts
        ]

    def comes_again(self, keys: Iterable[SubscriptionKey]) -> None:
        raise AssertionError(list(keys))

    def take_back(
        self, key: SubscriptionKey, deliveries: Iterable[Delivery]
    ) -> Coroutine[Any, Any, bool]:
        raise AssertionError((key, list(deliveries)))

    @property
    def wholes(self) -> list[str]:
        """The parts that were settled as a whole, in this order."""
        return [each.part.subscription for call in self.calls for each in call if each.is_whole]


def deliver(app: Deployment, text: str, settling: Settling) -> asyncio.Task[None]:
    run = app.deliver.run(text.encode(), Queue.DELIVERIES, settling)
    task = app.loop.create_task(run)
    app.loop.settle()
    return task


def test_each_part_is_settled_as_a_whole_once(app: Deployment) -> None:
    """Delivered, to be retried and given up: with the last part, the store ends the message."""
    subscribe(app, "good", "bad", "gone", "slow")
    held = app.hold("slow")
    subscribe(app, "final", dead_letter=DEAD)
    app.pusher.script(url("bad"), answered(503))
    app.pusher.script(url("final"), answered(400))
    del app.directory.stored[SubscriptionKey("orders", "gone")]
    del app.directory.known[SubscriptionKey("orders", "gone")]
    settling = Settling()

    task = deliver(app, fan_out("good", "bad", "final", "gone", "slow", events=2), settling)
    app.loop.advance(3 * SECOND)
    before = settling.wholes
    held.let_go()
    app.loop.settle()

    assert sorted(before) == ["bad", "final", "gone", "good"]
    assert settling.wholes == [*before, "slow"]
    assert task.exception() is None
    assert app.all_stored() == {}


def test_what_was_delivered_is_settled_soon_though_another_part_hangs(app: Deployment) -> None:
    """Killed then, a store with transactions repeats only what is open; it is one call."""
    subscribe(app, "one", "slow", "two")
    held = app.hold("slow")
    settling = Settling()

    task = deliver(app, fan_out("one", "slow", "two", events=2), settling)
    at_once = len(settling.calls)
    app.loop.advance(timedelta(seconds=GATHER_FOR))
    soon = settling.wholes
    app.loop.advance(10 * SECOND)
    calls = len(settling.calls)
    held.let_go()
    app.loop.settle()

    assert (at_once, soon, calls) == (0, ["one", "two"], 1)
    assert settling.wholes == ["one", "two", "slow"]
    assert len(settling.calls) == 2
    assert task.exception() is None


def test_where_all_is_delivered_nothing_waits_to_be_gathered(app: Deployment) -> None:
    subscribe(app, "one", "two")
    settling = Settling()

    task = deliver(app, fan_out("one", "two"), settling)

    assert [len(each) for each in settling.calls] == [2]
    assert task.done()


@pytest.mark.parametrize(("status", "puts"), [(200, 0), (503, 1)])
def test_without_transactions_what_was_delivered_asks_nothing_of_storage(
    app: Deployment, status: int, puts: int
) -> None:
    subscribe(app, "one", "slow")
    app.pusher.script(url("one"), answered(status))
    held = app.hold("slow")
    asked: list[None] = []
    app.queues.answered = lambda: asked.append(None)

    task = app.begin(fan_out("one", "slow"))
    app.loop.advance(2 * SECOND)
    held.let_go()
    app.loop.settle()

    assert len(asked) == puts
    assert task.exception() is None


def test_what_ends_names_the_subscription_that_was_re_read(app: Deployment) -> None:
    """A store with transactions settles an end only while that is what it has."""
    subscription = app.subscribe(dead_letter=DEAD, retry_policy=ONE_ATTEMPT)
    app.pusher.script(subscription.endpoint_url, answered(503))
    settling = Settling()

    deliver(app, encode(a_message())[0], settling)
    app.loop.advance(2 * SECOND)

    ((settled,),) = settling.calls
    assert settled.subscription == subscription
    ((follow_up),) = settled.follow_ups
    assert follow_up.part.dead_letter is not None
    assert [each.reason for each in settled.ends] == [EndReason.MAX_ATTEMPTS]


def test_what_ends_by_terms_of_before_is_judged_again(app: Deployment, logged: Logged) -> None:
    """It comes back at once, as an attempt that has no end; the other part has ended."""
    subscribe(app, "crm", "other", dead_letter=DEAD, retry_policy=ONE_ATTEMPT)
    for name in ("crm", "other"):
        app.pusher.script(url(name), answered(503))
    settling = Settling(changed={"crm"})

    task = deliver(app, fan_out("crm", "other"), settling)
    app.loop.advance(2 * SECOND)

    assert task.exception() is None
    (again,) = settling.calls[-1]
    assert again.part.subscription == "crm"
    assert again.ends == ()
    ((follow_up),) = again.follow_ups
    assert (follow_up.blob_due_at, follow_up.part.due) == (None, START)
    assert [each.attempts for each in follow_up.part.deliveries] == [1]
    assert [(each.state, each.next_at) for each in again.attempts] == [(None, follow_up.part.due)]
    runs = {line["subscription"]: line for line in logged("delivery.run")}
    assert (runs["crm"]["retried"], runs["crm"].get("dead_lettered", 0)) == (1, 0)
    assert runs["other"]["dead_lettered"] == 1


def test_what_is_dropped_by_a_subscription_of_before_is_judged_again(app: Deployment) -> None:
    """It was recreated meanwhile; nothing has been judged of it."""
    subscribe(app, "crm")
    del app.directory.stored[SubscriptionKey("orders", "crm")]
    del app.directory.known[SubscriptionKey("orders", "crm")]
    settling = Settling(changed={"crm"})

    deliver(app, fan_out("crm", events=2), settling)

    (again,) = settling.calls[-1]
    assert [len(each.part.deliveries) for each in again.follow_ups] == [2]


@pytest.mark.parametrize(
    ("answer", "heard", "logs"),
    [(Answer.SETTLED, 1, 0), (Answer.SETTLED_ALREADY, 1, 0), (Answer.NOT_OURS, 0, 1)],
)
def test_what_is_another_process_s_by_now_is_not_ended_here(
    app: Deployment, logged: Logged, answer: Answer, heard: int, logs: int
) -> None:
    """The other part of the message is."""
    subscribe(app, "crm", "other", retry_policy=ONE_ATTEMPT)
    for name in ("crm", "other"):
        app.pusher.script(url(name), answered(503))
    ends = hear(app)

    task = deliver(app, fan_out("crm", "other"), Settling({"crm": answer}))
    app.loop.advance(2 * SECOND)

    assert task.exception() is None
    found = [each.key.subscription for each in ends]
    assert (found.count("crm"), found.count("other")) == (heard, 1)
    assert len(logged("delivery.not_ours")) == logs


def hear(app: Deployment) -> list[Ended]:
    """Hear of ends, as whoever runs an app may."""
    ends: list[Ended] = []
    app.ended = ends.append
    return ends


def expired(app: Deployment) -> EventSubscription:
    return app.subscribe(expires_at=START - SECOND)


def deleted(app: Deployment) -> EventSubscription:
    subscription = app.subscribe()
    del app.directory.known[CRM.folded], app.directory.stored[CRM.folded]
    return subscription


OLD = ORIGIN._replace(published_at=START - timedelta(days=2))
_Begin = Callable[[Deployment], EventSubscription]


@pytest.mark.parametrize(
    ("begin", "message", "status", "reason", "state"),
    [
        (deleted, a_message(), 200, EndReason.SUBSCRIPTION_DELETED, EndState.DROPPED),
        (expired, a_message(), 200, EndReason.SUBSCRIPTION_EXPIRED, EndState.DROPPED),
        (
            lambda app: app.subscribe(),
            a_message([a_delivery(origin=OLD)]),
            200,
            EndReason.TIME_TO_LIVE,
            EndState.DROPPED,
        ),
        (
            lambda app: app.subscribe(dead_letter=DEAD),
            a_message([a_delivery(text=None, origin=PARKED)]),
            200,
            EndReason.PAYLOAD_MISSING,
            EndState.DROPPED,
        ),
        (
            lambda app: app.subscribe(dead_letter=DEAD),
            a_message(),
            413,
            EndReason.PAYLOAD_TOO_LARGE,
            EndState.DEAD_LETTERED,
        ),
        (
            lambda app: app.subscribe(retry_policy=ONE_ATTEMPT),
            a_message(),
            503,
            EndReason.MAX_ATTEMPTS,
            EndState.DROPPED,
        ),
    ],
    ids=["deleted", "expired", "old", "payload missing", "dead-lettered", "out of attempts"],
)
def test_every_end_is_heard_with_its_grounds(
    app: Deployment,
    begin: _Begin,
    message: MessagePart,
    status: int,
    reason: EndReason,
    state: EndState,
) -> None:
    subscription = begin(app)
    app.pusher.script(subscription.endpoint_url, answered(status))
    ends = hear(app)

    app.run(message)

    (ended,) = ends
    assert (ended.key.folded, ended.reason, ended.state) == (CRM.folded, reason, state)
    assert ended.delivery.key == message.deliveries[0].key
    in_force = begin not in (deleted, expired)
    terms = app.deliver.judge.terms.of(subscription)
    assert ended.terms == (terms if in_force else None)


def test_each_of_many_is_heard_and_none_before_it_is_stored(app: Deployment) -> None:
    """The log names the first few of those that a deleted subscription leaves."""
    deleted(app)
    ends = hear(app)

    app.run(a_message([a_delivery(number) for number in range(60)]))

    assert [each.delivery.position for each in ends] == list(range(60))


def test_an_end_that_can_t_be_stored_is_not_heard(app: Deployment) -> None:
    """The message comes again, and with it the end."""
    subscription = app.subscribe(dead_letter=DEAD)
    app.pusher.script(subscription.endpoint_url, answered(413))
    app.queues.fail_next("put", 1000)
    ends = hear(app)

    task = app.begin(a_message())
    app.loop.advance(5 * MINUTE)

    assert isinstance(task.exception(), StorageUnavailable)
    assert ends == []


def test_what_succeeds_late_before_it_is_stored_has_no_end(app: Deployment) -> None:
    app.subscribe(retry_policy=ONE_ATTEMPT, dead_letter=DEAD)
    app.pusher.script(app.directory.known[CRM.folded].endpoint_url, TIMEOUT)
    held = app.hold("e-1")
    ends = hear(app)
    task = app.begin(a_message([a_delivery(0), a_delivery(1)]))
    answer_late(app)  # what followed for e-0 is not stored yet
    held.let_go()
    app.loop.advance(2 * SECOND)

    assert task.exception() is None
    assert [each.delivery.position for each in ends] == [1]
    assert groups(app, Queue.DEADLETTERS) == [[1]]


def test_a_dead_letter_without_a_container_is_heard_as_well(app: Deployment) -> None:
    subscription = app.subscribe(dead_letter=DEAD)
    app.pusher.script(subscription.endpoint_url, answered(413))
    ends = hear(app)
    app.run(a_message())
    app.dead_letters.missing.add(DEAD.container)
    app.clock.advance(10 * MINUTE)

    app.write_dead_letters.run(app.in_a_minute())

    found = [(each.reason, each.state) for each in ends]
    assert found == [
        (EndReason.PAYLOAD_TOO_LARGE, EndState.DEAD_LETTERED),
        (EndReason.CONTAINER_NOT_FOUND, EndState.DROPPED),
    ]


def test_a_success_while_its_end_is_being_stored_leaves_what_can_t_be_taken_back(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead letter is stored, so its end is heard."""
    app.subscribe(retry_policy=ONE_ATTEMPT, dead_letter=DEAD)
    app.pusher.script(app.directory.known[CRM.folded].endpoint_url, TIMEOUT)
    ends, answered_late = hear(app), asyncio.Event()
    sender = type(app.deliver.requeue.sender)
    put_all = sender.put_all

    async def put_slowly(*args: Any, **options: Any) -> Any:
        found = await put_all(*args, **options)
        await answered_late.wait()
        return found

    async def fail(*_: object) -> None:
        raise StorageUnavailable

    monkeypatch.setattr(sender, "put_all", put_slowly)
    monkeypatch.setattr(sender, "take_back", fail)
    task = app.begin(a_message())
    app.loop.advance(2 * SECOND)
    answer_late(app)
    app.loop.call_soon(answered_late.set)
    app.loop.settle()

    assert task.exception() is None
    assert groups(app, Queue.DEADLETTERS) == [[0]]
    assert [each.state for each in ends] == [EndState.DEAD_LETTERED]


@pytest.mark.parametrize("dead_letter", [DEAD, None], ids=["dead-lettered", "dropped"])
def test_a_sink_that_raises_repeats_nothing(
    app: Deployment, logged: Logged, dead_letter: DeadLetterDestination | None
) -> None:
    subscription = app.subscribe(dead_letter=dead_letter)
    app.pusher.script(subscription.endpoint_url, answered(413))
    heard: list[Ended] = []

    def sink(ended: Ended) -> None:
        heard.append(ended)
        raise ValueError("a sink's fault")

    app.ended = sink
    task = app.begin(a_message([a_delivery(0), a_delivery(1)]))
    app.loop.advance(2 * SECOND)

    assert task.exception() is None
    assert [each.delivery.position for each in heard] == [0, 1]
    assert len(logged("end.unheard")) == 2


def test_a_sink_hears_from_when_it_is_set(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(413))
    app.run(a_message())
    ends = hear(app)

    app.run(a_message([a_delivery(1)]))

    assert [each.delivery.position for each in ends] == [1]


def test_a_part_with_something_open_is_not_whole(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(503))
    held, settling = app.hold('"e-1"'), Settling()

    deliver(app, encode(a_message([a_delivery(0), a_delivery(1)]))[0], settling)
    app.loop.advance(2 * SECOND)
    held.let_go()
    app.loop.advance(2 * SECOND)

    assert [each.is_whole for call in settling.calls for each in call] == [False, True]


def test_a_part_has_ended_when_its_last_result_was_taken(app: Deployment) -> None:
    """Not when it was reported: what follows is not decided then."""
    app.subscribe()
    message = MessageInHand(of_queue=MessagesInHand(most=2), since=0, jitter=0)
    part = app.deliver.judge.from_cache(a_message())
    assert isinstance(part, Part)
    part.begin(message)

    message.report(part, part.to_push, NotNow(START, "not now"))
    assert not message.has_ended(part)

    app.loop.run(message.results(None))
    assert message.has_ended(part)


def test_an_end_is_confirmed_anew_after_a_second(app: Deployment) -> None:
    """What has changed by then gets its retry, whatever was confirmed for others of its part."""
    app.subscribe(retry_policy=ONE_ATTEMPT)
    app.pusher.script(app.directory.known[CRM.folded].endpoint_url, answered(503))
    held, ends = app.hold('"e-1"'), hear(app)
    app.begin(a_message([a_delivery(0), a_delivery(1)]))
    app.loop.advance(2 * SECOND)
    app.directory.change(a_subscription())

    held.let_go()
    app.loop.advance(2 * SECOND)

    assert [each.delivery.position for each in ends] == [0]
    assert groups(app) == [[1]]


def test_nothing_more_is_pushed_of_what_is_another_process_s(app: Deployment) -> None:
    app.limit_pushes(1)
    subscription = app.subscribe()
    app.pusher.takes = 2 * SECOND
    app.pusher.script(subscription.endpoint_url, answered(413), answered(200))
    settling = Settling({"crm": Answer.NOT_OURS})

    task = deliver(app, encode(a_message([a_delivery(n) for n in range(4)]))[0], settling)
    app.loop.advance(MINUTE / 2)

    assert task.exception() is None
    assert len(app.pusher.sent) == 2
    assert app.leftovers() == []


def test_the_drop_of_another_process_s_part_is_not_heard(app: Deployment) -> None:
    """Also of one that needs no judging: its subscription is deleted."""
    deleted(app)
    ends = hear(app)

    task = deliver(app, encode(a_message())[0], Settling({"crm": Answer.NOT_OURS}))

    assert task.exception() is None
    assert ends == []


@pytest.mark.parametrize(("status", "kept"), [(200, [EndState.DELIVERED]), (413, []), (503, [])])
def test_of_another_process_s_part_what_was_delivered_alone_is_recorded(
    app: Deployment, status: int, kept: Sequence[EndState]
) -> None:
    """Its ends have not come about: the other process decides, and records what it does."""
    app.keep_attempts(AttemptLogging.ALL, logs_successes=False)
    subscription = app.subscribe(dead_letter=None)
    app.pusher.script(subscription.endpoint_url, answered(status))

    deliver(app, encode(a_message())[0], Settling({"crm": Answer.NOT_OURS}))

    assert [each.state for each in app.attempts.records] == kept


def test_what_becomes_a_poison_record_is_heard(app: Deployment) -> None:
    ends = hear(app)
    app.put(Queue.RETRIES_POISON, replace(a_message([a_delivery(0), a_delivery(1)]), rounds=3))

    app.return_poison.run(app.in_a_minute())

    assert len(app.dead_letters.poison) == 1
    found = [(each.key, each.delivery.position, each.reason, each.state) for each in ends]
    key = SubscriptionKey("orders", "crm")
    assert found == [(key, n, EndReason.POISON, EndState.RECORDED) for n in (0, 1)]


def test_what_is_another_process_s_is_not_counted_as_stored(
    app: Deployment, logged: Logged
) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(503))

    deliver(app, encode(a_message())[0], Settling({"crm": Answer.NOT_OURS}))

    assert [line["retried"] for line in logged("delivery.run")] == [0]
