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
    """The ports of the management API."""

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
    operators: Operators  # authorizes callers
    public_url: str | None  # ``None``: taken from each request
    # Callers can choose keys, and assume the consent of endpoints on loopback.
    has_local_shortcuts: bool = False
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]  # seconds
    backoff: Backoff  # waits after that many lost races for a document
    test_rate: RequestRate = field(default_factory=RequestRate)  # of endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    names: Mapping[str, str]  # decoded segments of the path by their names in the route
    path: str  # as the client sent it
    query: Mapping[str, str]  # names in lower case
    body: bytes
    asked_at: str  # the app's URL as this client addressed it
    public_url: str  # the one to publish
    by: str  # the operator, without any secret
    is_reader: bool = False  # may not see payloads
    assumes_consent: bool = False  # endpoints are not asked

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
