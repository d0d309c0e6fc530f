"""What every handler of the management API is given: the ports, and the request taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.arm.deployment import Deployment
from shared.clock import Clock
from shared.engine.ports import (
    CountReader,
    Notifier,
    Pusher,
    ResourceStore,
    TokenVerifier,
)
from shared.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagePorts:
    """
    What managing needs of the world.

    *admin_key* and *tokens* let the operator in; with neither the API is closed. *public_url*
    ``None`` means: from each request. *new_key* makes an access key, *new_id* an id nobody has;
    *sleep* takes seconds, *rest* waits after so many lost races for a document.
    """

    resources: ResourceStore
    counts: CountReader
    pusher: Pusher
    notifier: Notifier
    clock: Clock
    deployment: Deployment
    admin_key: str | None = field(repr=False)
    tokens: TokenVerifier | None = None
    public_url: str | None
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]
    rest: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    One request.

    *names* are the parts of the path under the route's names, decoded. *path* is the path as the
    client sent it. *query* has lower-case names. *asked_at* is the URL of the app as this client
    knows it, *public_url* as everybody should.
    """

    names: Mapping[str, str]
    path: str
    query: Mapping[str, str]
    body: bytes
    asked_at: str
    public_url: str

    def covers(self, arm_id: str) -> bool:
        """Tell whether a resource is within the subscription or resource group of the path."""
        scope = f"/subscriptions/{self.names['subscription']}/"
        if "group" in self.names:
            scope += f"resourceGroups/{self.names['group']}/"
        return arm_id.casefold().startswith(scope.casefold())


def not_found(call: Call, arm_id: str) -> NotFound:
    """Build ARM's error for a resource that is not there."""
    what, group = arm_id.partition("/providers/")[2], call.names["group"]
    return NotFound(f"The Resource '{what}' under resource group '{group}' was not found.")
