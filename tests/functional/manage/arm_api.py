"""The management API on ports in memory, as its callers see it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import (
    START,
    DrivenThreads,
    FakeClock,
    MemoryStore,
    ScriptedPusher,
)
from pushgrid.testing.subscriber import consent
from shared.arm.deployment_capabilities import DeploymentCapabilities
from shared.arm.subscription_codec import to_subscription_in_force
from shared.delivery.health.endpoint_health import Health, Hold, endpoint_id
from shared.delivery.outcome import Outcome
from shared.delivery.profiles import PROFILES
from shared.engine.manage.api import Manage
from shared.engine.operations.operator_authorization import Operators
from shared.engine.ports import Resource, Table
from shared.errors import Conflict
from shared.http import (
    Exchange,
    HttpAnswer,
    HttpRequest,
    LateAnswerHandler,
    OutboundRequest,
    query_of,
)
from shared.subscriptions.subscription import EventSubscription

HOST = "https://pushgrid.example"
GROUP = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid"
TOPICS = f"{GROUP}/topics"
ORDERS = f"{TOPICS}/orders"
CRM = f"{ORDERS}/eventSubscriptions/crm"
SHOP = f"{GROUP}/namespaces/shop"
SHOP_ORDERS = f"{SHOP}/topics/orders"
SHOP_CRM = f"{SHOP_ORDERS}/eventSubscriptions/crm"
KEY = "admin-key"
VERSION = "api-version=2025-02-15"
URL = "https://crm.example/hook?code=s3cret"


def header(value: str = "s3cret", name: str = "x-key", **properties: Any) -> dict[str, Any]:
    """Build a header of each delivery, whose value is secret unless *properties* say otherwise."""
    given = {"value": value, "isSecret": True} | properties
    return {"name": name, "type": "Static", "properties": given}


def hook(
    url: str = URL,
    *headers: Mapping[str, Any],
    webhook: Mapping[str, Any] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    """Build the body of a subscription whose deliveries have these *headers*."""
    given = {"endpointUrl": url, **(webhook or {})}
    given |= {"deliveryAttributeMappings": list(headers)} if headers else {}
    destination = {"endpointType": "WebHook", "properties": given}
    return {"properties": {"destination": destination, **properties}}


def push(url: str = URL, *headers: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """Build the body of a subscription of a namespace's topic."""
    destination = hook(url, *headers)["properties"]["destination"]
    configuration = {"deliveryMode": "Push", "push": {"destination": destination, **members}}
    return {"properties": {"deliveryConfiguration": configuration}}


#: One resource of each kind, and what makes it.
BODIES: dict[str, Any] = {
    ORDERS: {"location": "x"},
    SHOP: {"location": "x"},
    SHOP_ORDERS: {"properties": {}},
    CRM: hook(),
    SHOP_CRM: push(),
}


def lose_the_race() -> None:
    raise Conflict


class Endpoints(ScriptedPusher):
    """Endpoints that consent to everything, unless a script says otherwise."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.during_handshakes: list[Callable[[], object]] = []  # one for each

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        if self.during_handshakes:
            during = self.during_handshakes.pop(0)
            await asyncio.get_running_loop().run_in_executor(None, during)
        scripted = await super().send(request, timeout, late)
        is_scripted = request.queue is not None or bool(self._scripts.get(request.url))
        return scripted if is_scripted else consent(request)


class ArmApi:
    """
    One deployment, perhaps on what another app has *stored*.

    Ids are ``id-1``, ``id-2`` …, keys ``key-1``, ``key-2`` …
    """

    def __init__(self, clock: FakeClock | None = None, stored: MemoryStore | None = None) -> None:
        self.slept: list[float] = []
        self.backoffs: list[int] = []  # after how many lost races
        self.clock = clock or FakeClock()
        self.pusher = Endpoints(self.clock)
        app = InMemoryApp(self.pusher, self.clock, stored, cache_for=timedelta())
        self.storage = app.store
        self.loop, self.metrics = app.loop, app.metrics
        self.resources, self.counts, self.attempts = app.resources, app.counts, app.attempts
        self.dead_letters, self.queues = app.dead_letters, app.queues
        threads = DrivenThreads(self.loop)
        threads.sleep = self.slept.append  # type: ignore[method-assign, assignment]
        ids = (f"id-{number}" for number in itertools.count(1))
        keys = (f"key-{number}" for number in itertools.count(1))
        self.table = replace(
            app.route_table,
            resources=self.resources,
            threads=threads,
            deployment=DeploymentCapabilities(
                account="acct",
                profiles=PROFILES,
                default_profile="latest",
                has_client_ip_header=True,
            ),
            replays=replace(app.replays, backoff=self.backoffs.append),
            known_for=timedelta(seconds=10),
            new_key=lambda: next(keys),
            new_id=lambda: next(ids),
            keeps_answers=True,
            backoff=self.backoffs.append,
        )
        self.manage = Manage(
            routes=self.table.routes(),
            operators=Operators(admin_key=KEY),
            public_url=None,
            new_id=self.table.new_id,
        )
        self._validate = app.validate

    def reconfigure(self, **members: Any) -> None:
        """Change members of `Manage`, or ports of the use cases."""
        of_manage = {each.name for each in fields(Manage)}
        ports = {name: members.pop(name) for name in {*members} - of_manage}
        self.table = replace(self.table, **ports)
        self.manage = replace(self.manage, routes=self.table.routes(), **members)

    def call(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        version: str = VERSION,
    ) -> HttpAnswer:
        url = f"{HOST}{target}" if target.startswith("/") else target
        if version and version not in url:
            url += ("&" if "?" in url else "?") + version
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        return self.manage.run(
            HttpRequest(
                method=method,
                url=url,
                headers={"authorization": f"Bearer {KEY}"} if headers is None else headers,
                query=query_of(url),
                body=raw,
            )
        )

    def hold(self, topic: str = "orders", *, minutes: int = 5, begun: int = 0) -> None:
        """Hold the endpoint of ``crm``, as a process does whose clock shows *begun* s more."""
        subscription = self.in_force(topic)
        since = START + timedelta(seconds=begun)
        held = Hold(
            extended_at=since,
            until=since + timedelta(minutes=minutes),
            why="probation for NotFound: 5 min",
            sent_at=since,
            probation=Outcome.NOT_FOUND,
        )
        health = Health(endpoint=endpoint_id(subscription), hold=held, failures=12)
        self.table.health.write(subscription.key, health, None)

    def before_put(self, *changes: Callable[[], object]) -> None:
        """Let each change come just before a row is stored: one for each of the next puts."""
        put, left = self.resources.put, list(changes)

        def after_others(*arguments: Any) -> Resource:
            if left:
                left.pop(0)()
            return put(*arguments)

        self.resources.put = after_others  # type: ignore[method-assign, assignment]

    def open_link(
        self, link: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Open a validation link, as somebody without any key does."""
        base, _, link_id = link.rpartition("/")
        assert base == f"{HOST}/validate"
        request = HttpRequest(
            method=method, url=link, headers=headers or {}, params={"id": link_id}
        )
        validate = replace(
            self._validate, resources=self.table.resources, backoff=self.backoffs.append
        )
        return validate.run(request)

    def validation_link(self) -> str:
        """Return the link that was sent with the latest handshake."""
        request = self.pusher.sent[-1].request
        if request.method == "OPTIONS":
            return request.headers["WebHook-Request-Callback"]
        return str(json.loads(request.body)[0]["data"]["validationUrl"])

    def state(self, path: str = CRM) -> str:
        return str(self.json("GET", path)["properties"]["provisioningState"])

    def rows(self) -> list[Resource]:
        """Return all that is stored."""
        return [row for table in Table for row in self.resources.list_all(table)]

    def stored(self, topic: str = "orders", name: str = "crm") -> dict[str, Any]:
        """Return the stored document of an event subscription."""
        stored = self.resources.get(Table.EVENT_SUBSCRIPTIONS, topic, name)
        assert stored is not None
        return dict(stored.document)

    def in_force(self, topic: str = "orders") -> EventSubscription:
        """Return the event subscription ``crm`` as deliveries see it."""
        return to_subscription_in_force(self.stored(topic))

    def json(self, method: str, target: str, body: object = None, *, status: int = 200) -> Any:
        """Call, expect *status* and return the answer's document."""
        answer = self.call(method, target, body)
        assert answer.status == status, answer.body
        return json.loads(answer.body)

    def error(self, method: str, target: str, body: object = None, *, status: int) -> Any:
        """Call, expect an ARM error of *status* and return what is in it."""
        (error,) = self.json(method, target, body, status=status).values()
        assert set(error) == {"code", "message", "target", "details", "additionalInfo"}
        return error
