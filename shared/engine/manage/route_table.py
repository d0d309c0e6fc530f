"""Composes the management API: each use case with the ports that it needs, and the paths to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeVar

from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.namespace_subscription_codec import OF_NAMESPACE_TOPIC
from shared.arm.subscription_codec import SubscriptionForm
from shared.arm.system_topic_codec import DEPLOYMENT_TYPE, SOURCE_TYPE
from shared.arm.topic_subscription_codec import EXTENSION, NESTED, OF_SOURCE, OF_SYSTEM_TOPIC
from shared.clock import Clock
from shared.engine.caching.health_table import TableHealth
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.manage import arm_stubs
from shared.engine.manage.api import Route, to_route
from shared.engine.manage.deletion import Deletion
from shared.engine.manage.endpoint_tests import RequestRate, send_test_event
from shared.engine.manage.endpoint_validation import Handshakes
from shared.engine.manage.event_history import EventHistory
from shared.engine.manage.event_predictions import forecast_event, match_events
from shared.engine.manage.kinds import (
    CustomTopics,
    Namespaces,
    NamespaceTopics,
    Sources,
    SystemTopics,
    TopicKind,
)
from shared.engine.manage.metrics_api import MonitoredResources
from shared.engine.manage.notifier import ParallelNotifier
from shared.engine.manage.replays_api import Replays
from shared.engine.manage.scope_lists import ScopeLists, refuse_scope
from shared.engine.manage.subscription_actions import SubscriptionActions
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.manage.tracked_resources import TrackedResources
from shared.engine.ports import (
    AttemptReader,
    CountReader,
    DeadLetterReader,
    Metrics,
    Pusher,
    ResourceStore,
    Threads,
)
from shared.engine.replaying.jobs import ReplayJobs
from shared.http import Exchange, OutboundRequest
from shared.races import Backoff
from shared.tasks import Tasks

T = TypeVar("T", bound=TrackedResources)

_PROVIDER = "providers/Microsoft.EventGrid"
_SUBSCRIPTION = "subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_TOPIC = f"{_GROUP}/{_PROVIDER}/topics/{{topic}}"
_NAMESPACE = f"{_GROUP}/{_PROVIDER}/namespaces/{{namespace}}"
_NAMESPACE_TOPIC = f"{_NAMESPACE}/topics/{{topic}}"
_SYSTEM_TOPIC = f"{_GROUP}/{_PROVIDER}/systemTopics/{{topic}}"
_STORAGE = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts"
_ACCOUNT = f"{_STORAGE}/{{account}}"
_DEPLOYMENT = f"{_GROUP}/providers/Pushgrid/deployments/{{account}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """The routes, and all ports behind them; no use case gets more than its own."""

    resources: ResourceStore
    counts: CountReader
    attempts: AttemptReader
    dead_letters: DeadLetterReader
    health: TableHealth
    pusher: Pusher
    threads: Threads
    tasks: Tasks
    clock: Clock
    deployment: DeploymentCapabilities
    terms: DeploymentTerms
    known_for: timedelta  # for which processes go, at most, by what they have read
    metrics: Metrics
    replays: ReplayJobs
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    keeps_answers: bool  # the log has what an endpoint says that refuses its handshake
    backoff: Backoff  # waits after that many lost races for a document
    test_rate: RequestRate = field(default_factory=RequestRate)

    def routes(self) -> tuple[Route, ...]:
        """Return all routes, of which the first that fits a path is taken."""
        topics = self._kind(CustomTopics)
        nested, extension = (self._subscriptions(topics, each) for each in (NESTED, EXTENSION))
        namespaces = self._kind(Namespaces)
        of_namespaces = self._kind(NamespaceTopics, parent=namespaces)
        namespaced = self._subscriptions(of_namespaces, OF_NAMESPACE_TOPIC)
        system_topics = self._kind(SystemTopics)
        of_system_topics = self._subscriptions(system_topics, OF_SYSTEM_TOPIC)
        of_accounts, of_deployment = (
            self._subscriptions(Sources(each, system_topics), OF_SOURCE)
            for each in ("Microsoft.Storage/storageAccounts", "Pushgrid/deployments")
        )
        lists = ScopeLists(
            custom_topics=topics,
            system_topics=system_topics,
            of_topics=extension,
            of_accounts=of_accounts,
            of_deployment=of_deployment,
            clock=self.clock,
        )
        below, extensions = "eventSubscriptions", f"{_PROVIDER}/eventSubscriptions"
        return (
            *_stubs(self.deployment),
            *self._tracked(_TOPIC, topics),
            to_route(f"{_TOPIC}/matches", POST=partial(match_events, nested, topics.read)),
            *self._of_subscriptions(f"{_TOPIC}/{below}", nested),
            *self._of_subscriptions(f"{_TOPIC}/{extensions}", extension),
            *self._tracked(_NAMESPACE, namespaces, members=of_namespaces),
            *self._tracked(_NAMESPACE_TOPIC, of_namespaces),
            to_route(
                f"{_NAMESPACE_TOPIC}/matches",
                POST=partial(match_events, namespaced, of_namespaces.read),
            ),
            *self._of_subscriptions(f"{_NAMESPACE_TOPIC}/{below}", namespaced),
            *self._tracked(_SYSTEM_TOPIC, system_topics),
            *self._of_subscriptions(f"{_SYSTEM_TOPIC}/{below}", of_system_topics),
            *self._metrics(_ACCOUNT, of_accounts.topics),
            *self._of_subscriptions(f"{_ACCOUNT}/{extensions}", of_accounts),
            *self._metrics(_DEPLOYMENT, of_deployment.topics),
            *self._of_subscriptions(f"{_DEPLOYMENT}/{extensions}", of_deployment),
            *self._replays(),
            to_route(f"{_GROUP}/{_PROVIDER}/holds", GET=lists.holds),
            *_lists(_SUBSCRIPTION, lists),
            *_lists(_GROUP, lists),
            *_refused(f"{{*scope}}/{extensions}"),
        )

    def _tracked(
        self, path: str, kind: TrackedResources, members: NamespaceTopics | None = None
    ) -> Iterator[Route]:
        yield from _documents(path, kind)
        if kind.parent is None:
            of_all_groups = path.rpartition("/")[0].replace(_GROUP, _SUBSCRIPTION)
            yield to_route(of_all_groups, GET=kind.list)
        if kind.has_keys:
            yield to_route(f"{path}/listKeys", POST=kind.list_keys)
            yield to_route(f"{path}/regenerateKey", POST=kind.regenerate_key)
        yield from self._metrics(path, kind, members=members)

    def _of_subscriptions(self, path: str, subscriptions: Subscriptions) -> tuple[Route, ...]:
        """Return the routes of event subscriptions in one form."""
        history = EventHistory(
            subscriptions=subscriptions,
            attempt_records=self.attempts,
            dead_letter_blobs=self.dead_letters,
            health=self.health,
            counts=self.counts,
        )
        actions = SubscriptionActions(
            subscriptions=subscriptions,
            health=self.health,
            metrics=self.metrics,
            terms=self.terms,
            known_for=self.known_for,
        )
        test = partial(send_test_event, subscriptions, self._send, self.terms, self.test_rate)
        one = f"{path}/{{name}}"
        return (
            *_documents(one, subscriptions),
            *self._metrics(one, subscriptions.topics, subscriptions.form),
            to_route(f"{one}/attempts", GET=history.attempts),
            to_route(f"{one}/failures", GET=history.failures),
            to_route(f"{one}/forecast", GET=partial(forecast_event, subscriptions, self.terms)),
            to_route(f"{one}/test", POST=test),
            to_route(f"{one}/pause", POST=actions.pause),
            to_route(f"{one}/resume", POST=actions.resume),
            to_route(f"{one}/release", POST=actions.release),
            to_route(f"{one}/deadLetters", GET=history.dead_letters),
            to_route(
                f"{one}/deadLetters/records", has_payloads=True, GET=history.dead_letter_records
            ),
            to_route(f"{one}/getFullUrl", POST=subscriptions.full_url),
            to_route(f"{one}/getDeliveryAttributes", POST=subscriptions.delivery_attributes),
            to_route(f"{one}/rotateSecret", POST=actions.rotate_secret),
        )

    def _metrics(
        self,
        path: str,
        topics: TopicKind,
        form: SubscriptionForm | None = None,
        members: NamespaceTopics | None = None,
    ) -> tuple[Route, ...]:
        monitored = MonitoredResources(
            type=form.monitored_type if form else topics.monitored_type,
            topics=topics,
            members=members,
            resources=self.resources,
            counts=self.counts,
            clock=self.clock,
        )
        insights = f"{path}/providers/Microsoft.Insights"
        return (
            to_route(f"{insights}/metrics", GET=monitored.list_metrics),
            to_route(f"{insights}/metricDefinitions", GET=monitored.list_definitions),
        )

    def _replays(self) -> tuple[Route, ...]:
        replays = Replays(
            jobs=self.replays,
            resources=self.resources,
            attempts=self.attempts,
            deployment=self.deployment,
            clock=self.clock,
            new_id=self.new_id,
        )
        path = f"{_GROUP}/{_PROVIDER}/replays"
        return (
            to_route(path, GET=replays.list, POST=replays.start),
            to_route(f"{path}/{{replay}}", GET=replays.get),
            to_route(f"{path}/{{replay}}/cancel", POST=replays.cancel),
        )

    def _kind(self, of: type[T], parent: TrackedResources | None = None) -> T:
        return of(
            resources=self.resources,
            deployment=self.deployment,
            deletion=self._deletion(),
            new_key=self.new_key,
            new_id=self.new_id,
            backoff=self.backoff,
            parent=parent,
        )

    def _subscriptions(self, topics: TopicKind, form: SubscriptionForm) -> Subscriptions:
        return Subscriptions(
            topics=topics,
            form=form,
            resources=self.resources,
            deployment=self.deployment,
            handshakes=Handshakes(
                send=self._send,
                clock=self.clock,
                new_key=self.new_key,
                new_id=self.new_id,
                sleep=self.threads.sleep,
                keeps_answers=self.keeps_answers,
            ),
            deletion=self._deletion(),
            clock=self.clock,
            new_key=self.new_key,
            new_id=self.new_id,
            backoff=self.backoff,
        )

    def _deletion(self) -> Deletion:
        return Deletion(
            resources=self.resources,
            notifier=ParallelNotifier(self.pusher, self.threads.on_loop, self.tasks),
            new_id=self.new_id,
            clock=self.clock,
        )

    def _send(self, request: OutboundRequest, timeout: timedelta) -> Exchange:
        return self.threads.on_loop(self.pusher.send(request, timeout))


def _stubs(deployment: DeploymentCapabilities) -> tuple[Route, ...]:
    """Return the routes of what ARM clients read first."""
    types, list_event_types = f"{_PROVIDER}/topicTypes", arm_stubs.list_event_types
    of_accounts = partial(list_event_types, topic_type=SOURCE_TYPE)
    of_deployment = partial(list_event_types, topic_type=DEPLOYMENT_TYPE)
    return (
        to_route("subscriptions", GET=arm_stubs.list_subscriptions),
        to_route(_SUBSCRIPTION, GET=arm_stubs.get_subscription),
        to_route(_GROUP, GET=arm_stubs.get_group, PUT=arm_stubs.get_group),
        to_route(_STORAGE, GET=partial(arm_stubs.list_accounts, deployment)),
        to_route(_ACCOUNT, GET=partial(arm_stubs.get_account, deployment)),
        to_route(types, GET=arm_stubs.list_topic_types),
        to_route(f"{types}/{{topic_type}}", GET=arm_stubs.get_topic_type),
        to_route(f"{types}/{{topic_type}}/eventTypes", GET=list_event_types),
        to_route(f"{_ACCOUNT}/{_PROVIDER}/eventTypes", GET=of_accounts),
        to_route(f"{_DEPLOYMENT}/{_PROVIDER}/eventTypes", GET=of_deployment),
        to_route(f"{_SUBSCRIPTION}/{_PROVIDER}", GET=arm_stubs.get_provider),
        to_route(f"{_SUBSCRIPTION}/{_PROVIDER}/register", POST=arm_stubs.get_provider),
    )


def _documents(path: str, of: TrackedResources | Subscriptions) -> Iterator[Route]:
    yield to_route(path.rpartition("/")[0], GET=of.list)
    yield to_route(path, GET=of.get, PUT=of.put, PATCH=of.patch, DELETE=of.delete)
    yield to_route(f"{path}/whatIf", POST=of.what_if)


def _lists(scope: str, lists: ScopeLists) -> tuple[Route, ...]:
    return tuple(
        to_route(f"{scope}/{_PROVIDER}/{narrowed}eventSubscriptions", GET=lists.subscriptions)
        for narrowed in (
            "",
            "locations/{location}/",
            "topicTypes/{topic_type}/",
            "locations/{location}/topicTypes/{topic_type}/",
        )
    )


def _refused(path: str) -> tuple[Route, ...]:
    no = refuse_scope
    return tuple(
        to_route(path + tail, GET=no, PUT=no, PATCH=no, DELETE=no, POST=no)
        for tail in ("", "/{name}", "/{name}/{action}")
    )
