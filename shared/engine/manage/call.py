"""Defines what every management handler receives: the ports, and the parsed request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.clock import Clock
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.manage.request_rate import RequestRate
from shared.engine.operations.operator_authorization import Operators
from shared.engine.ports import (
    AttemptReader,
    BlockingPusher,
    CountReader,
    DeadLetterReader,
    HealthStore,
    Metrics,
    Notifier,
    ResourceStore,
)
from shared.engine.replaying.jobs import ReplayJobs
from shared.errors import NotFound
from shared.races import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagePorts:
    """
    The ports of the management API.

    *operators* authorizes callers. *public_url* ``None`` means: taken from each request.
    *has_local_shortcuts*: callers can choose keys, and assume the consent of endpoints on loopback.
    *new_key* makes an access key, *new_id* a unique id; *sleep* takes seconds, *backoff* waits
    after that many lost races for a document. *test_rate* limits the tests of endpoints.
    """

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
    metrics: Metrics
    replays: ReplayJobs
    operators: Operators
    public_url: str | None
    has_local_shortcuts: bool = False
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]
    backoff: Backoff
    test_rate: RequestRate = field(default_factory=RequestRate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    One request.

    *names* are the decoded segments of the path by their names in the route. *path* is as the
    client sent it. *query* has lower-case names. *asked_at* is the app's URL as this client
    addressed it, *public_url* the one to publish. *by* names the operator, without any secret.
    *is_reader*: the caller may not see payloads. *assumes_consent*: endpoints are not asked.
    """

    names: Mapping[str, str]
    path: str
    query: Mapping[str, str]
    body: bytes
    asked_at: str
    public_url: str
    by: str
    is_reader: bool = False
    assumes_consent: bool = False

    def covers(self, arm_id: str) -> bool:
        """Tell whether a resource is in the subscription or resource group of the path."""
        scope = f"/subscriptions/{self.names['subscription']}/"
        if "group" in self.names:
            scope += f"resourceGroups/{self.names['group']}/"
        return arm_id.casefold().startswith(scope.casefold())


def not_found(call: Call, arm_id: str) -> NotFound:
    """Build ARM's error for a resource that is not there."""
    what, group = arm_id.partition("/providers/")[2], call.names["group"]
    return NotFound(f"The Resource '{what}' under resource group '{group}' was not found.")
