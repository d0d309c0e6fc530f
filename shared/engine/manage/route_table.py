"""Composes the management API: each use case with the ports that it needs, and the paths to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.namespace_codec import TOPIC_TYPE as NAMESPACE_TOPIC_TYPE
from shared.arm.namespace_codec import TYPE as NAMESPACE_TYPE
from shared.arm.namespace_subscription_codec import TYPE as NAMESPACE_SUBSCRIPTION_TYPE
from shared.arm.system_topic_codec import TYPE as SYSTEM_TOPIC_TYPE
from shared.arm.topic_codec import TYPE as TOPIC_TYPE
from shared.arm.topic_subscription_codec import EXTENSION_TYPE, SYSTEM_TYPE
from shared.clock import Clock
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.manage import arm_stubs
from shared.engine.manage import subscription_forms as forms
from shared.engine.manage.deletion import Deletion
from shared.engine.manage.endpoint_tests import EndpointTests, RequestRate
from shared.engine.manage.endpoint_validation import Handshakes
from shared.engine.manage.event_history import EventHistory
from shared.engine.manage.event_predictions import Forecasts, Matches
from shared.engine.manage.metrics_api import MonitoredResources
from shared.engine.manage.replays_api import Replays
from shared.engine.manage.routes import Handler, Route, refuse_scope, route
from shared.engine.manage.scope_lists import ScopeLists
from shared.engine.manage.sources import Sources, SystemTopics
from shared.engine.manage.subscription_actions import SubscriptionActions
from shared.engine.manage.subscriptions import Subscriptions
from shared.engine.manage.topics import CustomTopics, Namespaces, NamespaceTopics
from shared.engine.manage.tracked_resources import Topics, TrackedResources
from shared.engine.operations import metric_names
from shared.engine.ports import (
    AttemptReader,
    BlockingPusher,
    CountReader,
    DeadLetterReader,
    Document,
    HealthStore,
    Metrics,
    Notifier,
    ResourceStore,
)
from shared.engine.replaying.jobs import ReplayJobs
from shared.events.topic import Topic
from shared.races import Backoff

T = TypeVar("T", bound=TrackedResources)

_INSIGHTS = "providers/Microsoft.Insights"
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
    health: HealthStore
    pusher: BlockingPusher
    notifier: Notifier
    clock: Clock
    deployment: DeploymentCapabilities
    terms: DeploymentTerms
    cache_for: timedelta  # for which processes go by what they have read
    metrics: Metrics
    replays: ReplayJobs
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]  # seconds
    backoff: Backoff  # waits after that many lost races for a document
    test_rate: RequestRate = field(default_factory=RequestRate)

    def routes(self) -> tuple[Route, ...]:
        """Return all routes, of which the first that fits a path is taken."""
        topics = self._kind(CustomTopics)
        namespaces = self._kind(Namespaces)
        namespace_topics = self._kind(NamespaceTopics, parent=namespaces)
        system_topics = self._kind(SystemTopics)
        accounts, deployment = (
            Sources(type=each, system_topics=system_topics, deployment=self.deployment)
            for each in ("Microsoft.Storage/storageAccounts", "Pushgrid/deployments")
        )
        extension = self._subscriptions(topics, forms.EXTENSION)
        of_accounts = self._subscriptions(accounts, forms.OF_SOURCE)
        of_deployment = self._subscriptions(deployment, forms.OF_SOURCE)
        lists = ScopeLists(
            custom_topics=topics,
            system_topics=system_topics,
            of_topics=extension,
            of_accounts=of_accounts,
            of_deployment=of_deployment,
            resources=self.resources,
            deployment=self.deployment,
            clock=self.clock,
        )
        return (
            *self._around(),
            *self._custom_topics(topics, extension),
            *self._namespaces(namespaces, namespace_topics),
            *self._system_topics(system_topics),
            *self._sources(_ACCOUNT, of_accounts),
            *self._sources(_DEPLOYMENT, of_deployment),
            route(f"{_GROUP}/{_PROVIDER}/holds", GET=lists.holds),
            *self._replays(),
            *_lists(_SUBSCRIPTION, lists),
            *_lists(_GROUP, lists),
            *_refused(f"{{*scope}}/{_PROVIDER}/eventSubscriptions"),
        )

    def _around(self) -> tuple[Route, ...]:
        """Return the routes of what ARM clients ask for on their way."""
        accounts = arm_stubs.StorageAccounts(self.deployment)
        types = f"{_PROVIDER}/topicTypes"
        return (
            route("subscriptions", GET=arm_stubs.list_subscriptions),
            route(_SUBSCRIPTION, GET=arm_stubs.get_subscription),
            route(_GROUP, GET=arm_stubs.get_group, PUT=arm_stubs.get_group),
            route(_STORAGE, GET=accounts.list),
            route(_ACCOUNT, GET=accounts.get),
            route(types, GET=arm_stubs.list_topic_types),
            route(f"{types}/{{topic_type}}", GET=arm_stubs.get_topic_type),
            route(f"{types}/{{topic_type}}/eventTypes", GET=arm_stubs.list_event_types),
            route(f"{_ACCOUNT}/{_PROVIDER}/eventTypes", GET=arm_stubs.list_account_event_types),
            route(
                f"{_DEPLOYMENT}/{_PROVIDER}/eventTypes", GET=arm_stubs.list_deployment_event_types
            ),
            route(f"{_SUBSCRIPTION}/{_PROVIDER}", GET=arm_stubs.get_provider),
            route(f"{_SUBSCRIPTION}/{_PROVIDER}/register", POST=arm_stubs.get_provider),
        )

    def _custom_topics(self, topics: CustomTopics, extension: Subscriptions) -> tuple[Route, ...]:
        nested = self._subscriptions(topics, forms.NESTED)
        of_topic = self._monitored(TOPIC_TYPE, metric_names.TOPIC_METRICS, topics)
        of_one = self._monitored(EXTENSION_TYPE, metric_names.SUBSCRIPTION_METRICS, topics)
        extensions = f"{_TOPIC}/{_PROVIDER}/eventSubscriptions"
        return (
            route(f"{_SUBSCRIPTION}/{_PROVIDER}/topics", GET=topics.list),
            *_tracked(_TOPIC, topics),
            route(f"{_TOPIC}/matches", POST=self._matches(nested, topics.check)),
            *_metrics(_TOPIC, of_topic),
            *_metrics(f"{_TOPIC}/eventSubscriptions/{{name}}", of_one),
            *_metrics(f"{extensions}/{{name}}", of_one),
            *self._of_subscriptions(f"{_TOPIC}/eventSubscriptions", nested),
            *self._of_subscriptions(extensions, extension),
        )

    def _namespaces(self, namespaces: Namespaces, topics: NamespaceTopics) -> tuple[Route, ...]:
        subscriptions = self._subscriptions(topics, forms.OF_NAMESPACE_TOPIC)
        of_namespace = self._monitored(
            NAMESPACE_TYPE, metric_names.NAMESPACE_METRICS, namespaces, members=topics
        )
        of_topic = self._monitored(
            NAMESPACE_TOPIC_TYPE, metric_names.NAMESPACE_TOPIC_METRICS, topics
        )
        of_one = self._monitored(
            NAMESPACE_SUBSCRIPTION_TYPE, metric_names.NAMESPACE_SUBSCRIPTION_METRICS, topics
        )
        return (
            route(f"{_SUBSCRIPTION}/{_PROVIDER}/namespaces", GET=namespaces.list),
            *_tracked(_NAMESPACE, namespaces),
            *_metrics(_NAMESPACE, of_namespace),
            *_tracked(_NAMESPACE_TOPIC, topics),
            route(f"{_NAMESPACE_TOPIC}/matches", POST=self._matches(subscriptions, topics.check)),
            *_metrics(_NAMESPACE_TOPIC, of_topic),
            *_metrics(f"{_NAMESPACE_TOPIC}/eventSubscriptions/{{name}}", of_one),
            *self._of_subscriptions(f"{_NAMESPACE_TOPIC}/eventSubscriptions", subscriptions),
        )

    def _system_topics(self, topics: SystemTopics) -> tuple[Route, ...]:
        of_topic = self._monitored(SYSTEM_TOPIC_TYPE, metric_names.TOPIC_METRICS, topics)
        of_one = self._monitored(SYSTEM_TYPE, metric_names.SUBSCRIPTION_METRICS, topics)
        subscriptions = self._subscriptions(topics, forms.OF_SYSTEM_TOPIC)
        return (
            route(f"{_SUBSCRIPTION}/{_PROVIDER}/systemTopics", GET=topics.list),
            *_tracked(_SYSTEM_TOPIC, topics),
            *_metrics(_SYSTEM_TOPIC, of_topic),
            *_metrics(f"{_SYSTEM_TOPIC}/eventSubscriptions/{{name}}", of_one),
            *self._of_subscriptions(f"{_SYSTEM_TOPIC}/eventSubscriptions", subscriptions),
        )

    def _sources(self, path: str, subscriptions: Subscriptions) -> tuple[Route, ...]:
        sources = subscriptions.topics
        of_topic = self._monitored(SYSTEM_TOPIC_TYPE, metric_names.TOPIC_METRICS, sources)
        of_one = self._monitored(EXTENSION_TYPE, metric_names.SUBSCRIPTION_METRICS, sources)
        below = f"{path}/{_PROVIDER}/eventSubscriptions"
        return (
            *_metrics(path, of_topic),
            *_metrics(f"{below}/{{name}}", of_one),
            *self._of_subscriptions(below, subscriptions),
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
            route(path, GET=replays.list, POST=replays.start),
            route(f"{path}/{{replay}}", GET=replays.get),
            route(f"{path}/{{replay}}/cancel", POST=replays.cancel),
        )

    def _of_subscriptions(self, path: str, subscriptions: Subscriptions) -> tuple[Route, ...]:
        """Return the routes of event subscriptions in one form."""
        history = EventHistory(
            subscriptions=subscriptions,
            resources=self.resources,
            attempt_records=self.attempts,
            dead_letter_blobs=self.dead_letters,
            health=self.health,
            counts=self.counts,
            clock=self.clock,
            account=self.deployment.account,
        )
        tests = EndpointTests(
            subscriptions=subscriptions,
            pusher=self.pusher,
            terms=self.terms,
            clock=self.clock,
            new_id=self.new_id,
            rate=self.test_rate,
        )
        actions = SubscriptionActions(
            subscriptions=subscriptions,
            health=self.health,
            metrics=self.metrics,
            terms=self.terms,
            cache_for=self.cache_for,
            clock=self.clock,
            new_key=self.new_key,
            backoff=self.backoff,
        )
        forecasts = Forecasts(subscriptions=subscriptions, terms=self.terms)
        one = f"{path}/{{name}}"
        return (
            route(path, GET=subscriptions.list),
            route(
                one,
                GET=subscriptions.get,
                PUT=subscriptions.put,
                PATCH=subscriptions.patch,
                DELETE=subscriptions.delete,
            ),
            route(f"{one}/attempts", GET=history.attempts),
            route(f"{one}/failures", GET=history.failures),
            route(f"{one}/forecast", GET=forecasts.answer),
            route(f"{one}/test", POST=tests.test),
            route(f"{one}/pause", POST=actions.pause),
            route(f"{one}/resume", POST=actions.resume),
            route(f"{one}/release", POST=actions.release),
            route(f"{one}/deadLetters", GET=history.dead_letters),
            route(f"{one}/deadLetters/records", has_payloads=True, GET=history.dead_letter_records),
            route(f"{one}/getFullUrl", POST=subscriptions.full_url),
            route(f"{one}/getDeliveryAttributes", POST=subscriptions.delivery_attributes),
            route(f"{one}/rotateSecret", POST=actions.rotate_secret),
            route(f"{one}/whatIf", POST=subscriptions.what_if),
        )

    def _kind(self, of: type[T], **own: Any) -> T:
        return of(
            resources=self.resources,
            deployment=self.deployment,
            deletion=self._deletion(),
            new_key=self.new_key,
            new_id=self.new_id,
            backoff=self.backoff,
            **own,
        )

    def _subscriptions(self, topics: Topics, form: forms.SubscriptionForm) -> Subscriptions:
        return Subscriptions(
            topics=topics,
            form=form,
            resources=self.resources,
            deployment=self.deployment,
            handshakes=Handshakes(
                pusher=self.pusher,
                clock=self.clock,
                new_key=self.new_key,
                new_id=self.new_id,
                sleep=self.sleep,
            ),
            deletion=self._deletion(),
            clock=self.clock,
            new_key=self.new_key,
            new_id=self.new_id,
            backoff=self.backoff,
        )

    def _deletion(self) -> Deletion:
        return Deletion(
            resources=self.resources, notifier=self.notifier, new_id=self.new_id, clock=self.clock
        )

    def _matches(
        self, subscriptions: Subscriptions, to_topic: Callable[[Document], Topic]
    ) -> Handler:
        return Matches(
            subscriptions=subscriptions,
            to_topic=to_topic,
            resources=self.resources,
            clock=self.clock,
            new_id=self.new_id,
        ).answer

    def _monitored(
        self,
        resource_type: str,
        definitions: Sequence[metric_names.MetricDefinition],
        topics: Topics,
        members: NamespaceTopics | None = None,
    ) -> MonitoredResources:
        return MonitoredResources(
            type=resource_type,
            definitions=definitions,
            topics=topics,
            members=members,
            resources=self.resources,
            counts=self.counts,
            clock=self.clock,
        )


def _tracked(path: str, kind: TrackedResources) -> tuple[Route, ...]:
    """Return the routes of one kind of resource; *path* is that of a single one."""
    routes = (
        route(path.rpartition("/")[0], GET=kind.list),
        route(path, GET=kind.get, PUT=kind.put, PATCH=kind.patch, DELETE=kind.delete),
        route(f"{path}/whatIf", POST=kind.what_if),
    )
    if not kind.has_keys:
        return routes
    return (
        *routes,
        route(f"{path}/listKeys", POST=kind.list_keys),
        route(f"{path}/regenerateKey", POST=kind.regenerate_key),
    )


def _metrics(path: str, monitored: MonitoredResources) -> tuple[Route, ...]:
    return (
        route(f"{path}/{_INSIGHTS}/metrics", GET=monitored.list_metrics),
        route(f"{path}/{_INSIGHTS}/metricDefinitions", GET=monitored.list_definitions),
    )


def _lists(scope: str, lists: ScopeLists) -> tuple[Route, ...]:
    """Return the routes of the lists over all topics of a scope."""
    return tuple(
        route(f"{scope}/{_PROVIDER}/{narrowed}eventSubscriptions", GET=lists.subscriptions)
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
        route(path + tail, GET=no, PUT=no, PATCH=no, DELETE=no, POST=no)
        for tail in ("", "/{name}", "/{name}/{action}")
    )
