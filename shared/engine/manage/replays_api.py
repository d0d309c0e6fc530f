"""Starts replays of dead letters, shows how far they are, and cancels them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from shared.arm.arm_json import answer, read_json
from shared.arm.dead_letter_codec import check_container
from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.document_names import REPLAY
from shared.arm.sections import Section, raise_faults, root_section
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import Clock
from shared.deadletter.paths import MAX_PATH, dead_letter_folder
from shared.deadletter.selection import Selection
from shared.delivery.attempt_record import KEPT_FOR
from shared.engine.manage.call import Call, names_of
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    AttemptChoice,
    AttemptReader,
    Resource,
    ResourceStore,
    Table,
)
from shared.engine.replaying.job import ReplayFault, ReplayJob, ReplaySource, shown
from shared.engine.replaying.jobs import ReplayJobs
from shared.errors import UNREADABLE, InvalidDocument, NotFound, UnreadableDocument
from shared.events.topic import SourceTopic
from shared.http import HttpAnswer
from shared.nearest import did_you_mean
from shared.subscriptions.subscription import (
    DeadLetterDestination,
    EventSubscription,
    SubscriptionKey,
)

DEFAULT_RATE, MAX_RATE = 50, 1000  # events a second
MAX_SOURCES = 200
MOST_FOLLOWED = 5  # jobs of a list, and subscriptions of a job, whose attempts are read
_WHICH = ("prefix", "since", "until", "reason", "event")
_HOW = ("to", "rate", "dryRun", "again", "unproven")


class _Where(NamedTuple):
    """Where a request looks for dead letters; what it does not give is empty."""

    topic: str
    subscription: str
    container: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replays:
    """Handles the requests for replays."""

    jobs: ReplayJobs
    resources: ResourceStore
    attempts: AttemptReader
    deployment: DeploymentCapabilities
    clock: Clock
    new_id: Callable[[], str]

    def start(self, call: Call) -> HttpAnswer:
        """Store a replay, and answer with it; the app carries it out."""
        body = root_section(read_json(call.body or b"{}", REPLAY))
        body.refuse_others(*_Where._fields, *_WHICH, *_HOW)
        where = _Where(*(body.text(each) or "" for each in _Where._fields))
        now = self.clock.now()
        job = ReplayJob(
            id=f"{now:%Y%m%d%H%M%S}-{self.new_id().replace('-', '')[:8]}",
            by=call.by,
            started_at=now,
            sources=(),
            selection=_selection(body),
            to=_to(body, where.topic),
            rate=body.number("rate", 1, MAX_RATE) or DEFAULT_RATE,
            is_dry_run=bool(body.flag("dryRun")),
            again=bool(body.flag("again")),
            unproven=bool(body.flag("unproven")),
        )
        self._check_account(body, where)
        raise_faults(body.faults)
        if job.to and self.resources.get(Table.EVENT_SUBSCRIPTIONS, *job.to) is None:
            topic, name = job.to
            known = self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
            near = did_you_mean(name, names_of(known))
            raise NotFound(f"There is no event subscription '{name}' of '{topic}'{near}")
        sources, faults = self._sources(call, where)
        job = replace(job, sources=tuple(sources)).with_faults(*faults)
        return answer(202, self._followed(call, self.jobs.start(job)))

    def list(self, call: Call) -> HttpAnswer:
        jobs = self.jobs.list()
        followed = [self._followed(call, each) for each in jobs[:MOST_FOLLOWED]]
        others = [shown(each, is_reader=call.is_reader) for each in jobs[MOST_FOLLOWED:]]
        return answer(200, {"value": followed + others})

    def get(self, call: Call) -> HttpAnswer:
        stored = self.jobs.find(call.names["replay"])
        if stored is None:
            raise NotFound(f"There is no replay '{call.names['replay']}'.")
        return answer(200, self._followed(call, stored.job))

    def cancel(self, call: Call) -> HttpAnswer:
        """Cancel a replay; events that it has put by then are delivered."""
        return answer(200, self._followed(call, self.jobs.cancel(call.names["replay"], call.by)))

    def _followed(self, call: Call, job: ReplayJob) -> dict[str, Any]:
        """
        Return a job as the caller sees it, with how many of its events have failed again.

        That is read from the recorded attempts: ``None`` if there are too many subscriptions, or if
        the attempts are gone.
        """
        targets = {job.to} if job.to else {each.key for each in job.sources}
        is_old = self.clock.now() - job.started_at > KEPT_FOR
        if is_old or len(targets) > MOST_FOLLOWED:
            return shown(job, is_reader=call.is_reader)
        latest = {
            (key, each.system_id): each
            for key in (targets if job.progress.put and not job.is_dry_run else ())
            for day in self.attempts.read(*key, job.started_at, AttemptChoice(replay_of=job.id))
            for each in day
        }
        failed = [each for each in latest.values() if not each.is_delivered]
        return shown(job, failed_again=len(failed), is_reader=call.is_reader)

    def _check_account(self, body: Section, wanted: _Where) -> None:
        if not wanted.container:
            if wanted.account:
                body.refuse("account", "'account' needs 'container'.")
            return
        own = self.deployment
        if wanted.account not in {"", *own.known_accounts}:
            message = f"Storage account '{wanted.account}' is not in PUSHGRID_DEADLETTER_ACCOUNTS."
            body.refuse("account", message)
        is_own = wanted.account in {"", own.account}
        check_container(body, "container", wanted.container, is_own=is_own)
        if not body.has("to"):
            body.refuse("to", "'to' is required with 'container'.")
        if wanted.subscription:
            message = "'subscription' can't select in a 'container'; use 'prefix'."
            body.refuse("subscription", message)

    def _sources(
        self, call: Call, wanted: _Where
    ) -> tuple[Sequence[ReplaySource], Sequence[ReplayFault]]:
        """Return where to look: a given container, or where wanted subscriptions dead-letter."""
        if wanted.container:
            account = wanted.account or self.deployment.account  # as subscriptions name it
            return [ReplaySource(wanted.topic, "", wanted.container, account, "")], ()
        subscriptions, faults = self._subscriptions(call, wanted)
        found = [_source(each, each.dead_letter) for each in subscriptions if each.dead_letter]
        if faults and not found:
            raise UnreadableDocument
        if not found:
            raise NotFound(self._nothing(wanted, are_found=bool(subscriptions)))
        if len(found) > MAX_SOURCES:
            member = "subscription" if wanted.topic else "topic"
            message = f"There are more than {MAX_SOURCES} event subscriptions; give '{member}'."
            raise InvalidDocument(message, target=member)
        return found, faults

    def _nothing(self, wanted: _Where, *, are_found: bool) -> str:
        """Return why there is no source; *are_found*: subscriptions, but without destination."""
        topic, name = wanted.topic, wanted.subscription
        partition = NAMESPACE_TOPICS if "." in topic else CUSTOM_TOPICS
        has_row = topic and not SourceTopic.parse(topic)
        if has_row and self.resources.get(Table.TOPICS, partition, topic) is None:
            known = self.resources.list(Table.TOPICS, partition)
            return f"There is no topic '{topic}'{did_you_mean(topic, names_of(known))}"
        what = "event subscription" + (f" '{name}'" if name else "")
        what += f" of topic '{topic}'" if topic else ""
        if not are_found:
            known = self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic) if topic and name else ()
            return f"There is no {what}{did_you_mean(name, names_of(known))}"
        lacks = f"The {what} has no" if name else f"No {what} has a"
        return f"{lacks} dead-letter destination: events that are given up are dropped."

    def _subscriptions(
        self, call: Call, wanted: _Where
    ) -> tuple[Sequence[EventSubscription], Sequence[ReplayFault]]:
        """Return the wanted subscriptions, and a fault for each whose row can't be read."""
        found, faults = [], []
        for row in self._rows(wanted.topic):
            if wanted.subscription.casefold() not in {"", row.name.casefold()}:
                continue
            try:
                found.append(to_subscription_in_force(row.document))
            except UNREADABLE:
                topic = wanted.topic or row.document.get("topicName", "")
                faults.append(ReplayFault(f"{topic}/{row.name}", "Its row can't be read."))
        return [each for each in found if call.covers(each.topic_id)], faults

    def _rows(self, topic: str) -> Sequence[Resource]:
        if topic:
            return self.resources.list(Table.EVENT_SUBSCRIPTIONS, topic)
        return self.resources.list_all(Table.EVENT_SUBSCRIPTIONS)


def _selection(body: Section) -> Selection:
    selection = Selection(
        prefix=body.text("prefix") or "",
        since=body.moment("since"),
        until=body.moment("until"),
        reason=body.text("reason") or None,
        event=body.text("event") or None,
    )
    if any(each < " " for each in selection.prefix):
        body.refuse("prefix", "prefix can't have control characters.")
    for name in ("prefix", "reason", "event"):  # The row of the job must have room for them.
        if len(getattr(selection, name) or "") > MAX_PATH:
            body.refuse(name, f"{name} can't have more than {MAX_PATH} characters.")
    if selection.since and selection.until and selection.since > selection.until:
        body.refuse("until", "until must not be before since.")
    return selection


def _to(body: Section, topic: str) -> SubscriptionKey | None:
    """Return the subscription that gets all events, if one is given; a topic may be left out."""
    if not body.has("to"):
        return None
    to = body.section("to")
    to.refuse_others("topic", "subscription")
    name, of_topic = to.required_text("subscription") or "", to.text("topic") or topic
    if not of_topic:
        to.refuse("topic", f"{to.target('topic')} is missing.")
    return SubscriptionKey(of_topic, name)


def _source(subscription: EventSubscription, destination: DeadLetterDestination) -> ReplaySource:
    folder = dead_letter_folder(subscription.topic, subscription.name)
    return ReplaySource(*subscription.key, destination.container, destination.account, folder)
