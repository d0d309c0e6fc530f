"""Those who call the deployment: publishers, and the operators who manage it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from pushgrid.testing.memory import START, MemoryStore
from shared.clock import timestamp
from shared.http import HttpAnswer, HttpRequest
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import Ledger, Published
from tests.simulation.plan import KINDS
from tests.simulation.processes import HOST, KEY, Processes

PROVIDERS = "/subscriptions/s1/resourceGroups/rg/providers"
GRID = f"{PROVIDERS}/Microsoft.EventGrid"
ARM_AGAIN = 20.0  # seconds until an operator repeats what failed
ARM_LASTS = 400.0  # seconds until an operator gives up a request
PUBLISHER_WAITS = 60.0  # seconds
TRIES = 12
_MAPPED = ("id", "subject", "eventType", "eventTime", "dataVersion")


class Callers:
    """Publishers and operators, who call any process that lives."""

    def __init__(
        self,
        kernel: Kernel,
        processes: Processes,
        ledger: Ledger,
        chance: Random,
        seen: Counter[str],
        default_profile: str,
    ) -> None:
        self._kernel, self._processes, self._ledger = kernel, processes, ledger
        self._chance, self._seen = chance, seen
        self._default_profile = default_profile
        self.open = 0  # requests of operators
        self._events = 0
        self._generations: Counter[str] = Counter()
        self._moves: Counter[str] = Counter()
        self._paths: dict[str, str] = {}
        self._schemas: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def resume_all(self) -> None:
        for name, path in self._paths.items():
            if "eventSubscriptions" in path:
                self._act(name, "POST", "/resume")

    def make_topic(
        self, name: str, *, is_namespace: bool, schema: str, profile: str | None, retention: int
    ) -> None:
        self._schemas[name] = schema
        if is_namespace:
            self._ledger.topics[f"shop.{name}"] = ("ns", retention * 86400.0)
            self._paths[name] = f"{GRID}/namespaces/shop/topics/{name}"
            self._arm("PUT", f"{GRID}/namespaces/shop", {"location": "x"})
            body = {"properties": {"eventRetentionInDays": retention}}
            keys = f"{GRID}/namespaces/shop/listKeys"
        else:
            self._ledger.topics[name] = (profile or self._default_profile, 1e9)
            self._paths[name] = f"{GRID}/topics/{name}"
            body = {"location": "x", "properties": {"inputSchema": schema}}
            if schema == "CustomEventSchema":
                fields = {name: {"sourceField": name} for name in _MAPPED}
                mapping = {"inputSchemaMappingType": "Json", "properties": fields}
                body["properties"]["inputSchemaMapping"] = mapping  # type: ignore[index]
            if profile:
                body["tags"] = {"deliveryProfile": profile}
            keys = f"{self._paths[name]}/listKeys"

        def keep(answer: Any) -> None:
            self._keys[name] = answer["key1"]

        self._arm("PUT", self._paths[name], body, lambda _: self._arm("POST", keys, None, keep))

    def subscribe(self, topic: str, name: str, **terms: Any) -> None:
        if topic not in self._paths:
            return
        self._generations[name] += 1
        path = f"{self._paths[topic]}/eventSubscriptions/{name}"
        self._paths[name] = path
        self._arm("PUT", path, self._subscription(topic, name, **terms))

    def update(self, topic: str, name: str, **terms: Any) -> None:
        if name in self._paths:
            body = self._subscription(topic, name, **terms)
            self._arm("PATCH", self._paths[name], body if self._is_of_namespace(topic) else body["properties"])

    def move(self, topic: str, name: str) -> None:
        if name in self._paths:
            self._moves[name] += 1
            destination = self._destination(name, 1)
            if self._is_of_namespace(topic):
                push = {"deliveryMode": "Push", "push": {"destination": destination}}
                body: Any = {"properties": {"deliveryConfiguration": push}}
            else:
                body = {"destination": destination}
            self._arm("PATCH", self._paths[name], body)

    def pause(self, topic: str, name: str) -> None:
        self._act(name, "POST", "/pause")

    def resume(self, topic: str, name: str) -> None:
        self._act(name, "POST", "/resume")

    def delete(self, topic: str, name: str) -> None:
        self._act(name, "DELETE", "")

    def _act(self, name: str, method: str, action: str) -> None:
        if name in self._paths:
            self._arm(method, self._paths[name] + action, None, tries=4)

    def replay(self, topic: str, name: str) -> None:
        body = {"topic": self._known(topic), "subscription": name}
        self._arm("POST", f"{GRID}/replays", body, tries=2)

    def _is_of_namespace(self, topic: str) -> bool:
        return "/namespaces/" in self._paths[topic]

    def _destination(self, name: str, batch: int) -> dict[str, Any]:
        url = f"https://{name}.example/{self._generations[name]}-{self._moves[name]}"
        properties = {"endpointUrl": url, "maxEventsPerBatch": batch}
        return {"endpointType": "WebHook", "properties": properties}

    def _subscription(
        self,
        topic: str,
        name: str,
        *,
        kinds: Sequence[str] | None,
        attempts: int | None,
        minutes: int | None,
        dead_letter: str | None,
        batch: int,
        converts: bool,
        expires: float | None,
        rate: int | None,
    ) -> dict[str, Any]:
        if self._profile(topic) == "2017":  # It has nothing of all that.
            attempts = minutes = dead_letter = None
            batch = 1
        dead = None
        if dead_letter is not None:
            account = dead_letter or MemoryStore.account
            resource = f"{PROVIDERS}/Microsoft.Storage/storageAccounts/{account}"
            properties = {"resourceId": resource, "blobContainerName": f"dead-{name}"}
            dead = {"endpointType": "StorageBlob", "properties": properties}
        destination = self._destination(name, batch)
        filter_ = {"includedEventTypes": list(kinds)} if kinds else {}
        given: dict[str, Any]
        if self._is_of_namespace(topic):
            push: dict[str, Any] = {"destination": destination, "deadLetterDestination": dead}
            push |= {"maxDeliveryCount": attempts} if attempts else {}
            push |= {"eventTimeToLive": f"PT{minutes}M"} if minutes else {}
            given = {"deliveryConfiguration": {"deliveryMode": "Push", "push": push}}
            given |= {"filtersConfiguration": filter_} if filter_ else {}
        else:
            policy = {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes}
            given = {
                "destination": destination,
                "deadLetterDestination": dead,
                "filter": filter_,
                "retryPolicy": {n: v for n, v in policy.items() if v},
            }
            given |= {"eventDeliverySchema": self._delivery_schema(topic, converts=converts)}
        if expires:
            given["expirationTimeUtc"] = timestamp(START + timedelta(seconds=expires))
        return {"properties": given}

    def _profile(self, topic: str) -> str:
        return self._ledger.topics[self._known(topic)][0]

    def _known(self, topic: str) -> str:
        """Return the name of a topic on the data plane."""
        return f"shop.{topic}" if self._is_of_namespace(topic) else topic

    def _delivery_schema(self, topic: str, *, converts: bool) -> str:
        schema = self._schemas[topic]
        if schema == "CustomEventSchema":
            return "EventGridSchema" if converts else "CustomInputSchema"
        return "CloudEventSchemaV1_0" if converts else schema

    def _arm(
        self,
        method: str,
        path: str,
        body: Any,
        then: Callable[[Any], object] = lambda _: None,
        tries: int = TRIES,
    ) -> None:
        """Call the management API of any process, and again where that fails."""
        instance, now = self._processes.any(), self._kernel.now
        is_over: list[bool] = []

        def end(answer: HttpAnswer | None) -> None:
            if is_over:
                return
            is_over.append(True)
            self.open -= 1
            fault = answer.body.decode() if answer and answer.status >= 400 else ""
            self._ledger.note(f"{method} {path}: {answer and answer.status} {fault}")
            if answer and answer.status < 300:
                then(json.loads(answer.body) if answer.body else None)
            elif tries > 1:
                again = partial(self._arm, method, path, body, then, tries - 1)
                self._kernel.at(self._kernel.now + (ARM_AGAIN if now > 60 else 1), again)

        self.open += 1
        if instance is None:
            end(None)
            return
        request = HttpRequest(
            method=method,
            url=HOST + path,
            headers={"authorization": f"Bearer {KEY}"},
            query={"api-version": "2025-02-15"},
            body=b"" if body is None else json.dumps(body).encode(),
        )
        instance.process.begin(lambda: end(instance.app.manage.run(request)))
        self._kernel.at(now + ARM_LASTS, lambda: end(None))

    def publish(self, topic: str, count: int, size: int) -> None:
        instance = self._processes.any()
        if instance is None or topic not in self._keys:
            return
        name, began = self._known(topic), self._kernel.now
        numbers = range(self._events, self._events + count)
        self._events += count
        events = []
        for number in numbers:
            kind = self._chance.choice(KINDS)
            self._ledger.sent(number, Published(name, kind, began, instance.process))
            events.append(_event(self._schemas[topic], number, kind, size))
        request = self._publish_request(topic, json.dumps(events).encode())
        self._ledger.note(f"{instance.process.name} is sent {count} for {name}", numbers)

        async def publish() -> None:
            answer = await instance.app.publish.run(request)
            if self._kernel.now - began < PUBLISHER_WAITS:
                self._seen[f"published {answer.status}"] += 1
                self._ledger.answered(numbers, answer.status)
                if answer.status not in (200, 503):
                    self._ledger.find("refused", answer.body.decode(), name, numbers[0])

        loop = instance.process.loop
        loop.call_soon(lambda: loop.create_task(publish()))

    def _publish_request(self, topic: str, body: bytes) -> HttpRequest:
        is_cloud = self._schemas[topic] == "CloudEventSchemaV1_0"
        form = "application/cloudevents-batch+json" if is_cloud else "application/json"
        if self._is_of_namespace(topic):
            action = f"{topic}:publish"
            return HttpRequest(
                method="POST",
                url=f"{HOST}/namespaces/shop/topics/{action}",
                headers={
                    "authorization": f"SharedAccessKey {self._keys[topic]}",
                    "content-type": form,
                },
                params={"namespace": "shop", "action": action},
                query={"api-version": "2024-06-01"},
                body=body,
            )
        return HttpRequest(
            method="POST",
            url=f"{HOST}/topics/{topic}/api/events",
            headers={"aeg-sas-key": self._keys[topic], "content-type": form},
            params={"topic": topic},
            query={"api-version": "2018-01-01"},
            body=body,
        )


def _event(schema: str, number: int, kind: str, size: int) -> Mapping[str, Any]:
    data = {"n": number, "text": "x" * size}
    if schema == "CloudEventSchemaV1_0":
        source = {"specversion": "1.0", "source": "/sim", "subject": f"/{kind}"}
        return {"id": f"e{number}", "type": kind, **source, "data": data}
    about = {"id": f"e{number}", "subject": f"/{kind}", "eventType": kind}
    event = {**about, "eventTime": "2026-02-09T12:00:00Z", "data": data}
    return {**event, "dataVersion": "1"}
