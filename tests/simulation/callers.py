"""Those who call the deployment: publishers, and the operators who manage it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from pushgrid.testing.memory import START, MemoryStore
from shared.clock import timestamp
from shared.http import HttpAnswer, HttpRequest
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import Ledger, Published
from tests.simulation.plan import CLOUD, CUSTOM, KINDS
from tests.simulation.processes import HOST, KEY, Processes

PROVIDERS = "/subscriptions/s1/resourceGroups/rg/providers"
GRID = f"{PROVIDERS}/Microsoft.EventGrid"
SHOP = f"{GRID}/namespaces/shop"
ARM_AGAIN = 20.0  # seconds until an operator repeats what failed
ARM_LASTS = 400.0  # seconds until an operator gives up a request
PUBLISHER_WAITS = 60.0  # seconds
_MAPPED = ("id", "subject", "eventType", "eventTime", "dataVersion")


class Callers:
    """Publishers and operators, who call any process that lives; their steps are a plan's."""

    def __init__(
        self,
        kernel: Kernel,
        processes: Processes,
        ledger: Ledger,
        chance: Random,
        seen: Counter[str],
    ) -> None:
        self._kernel, self._processes, self._ledger = kernel, processes, ledger
        self._chance, self._seen = chance, seen
        self.open = 0  # requests of operators
        self._events = 0
        self._urls: Counter[str] = Counter()  # how many each subscription has had
        self._paths: dict[str, str] = {}
        self._topics: dict[str, tuple[str, str]] = {}  # name on the data plane, and schema
        self._keys: dict[str, str] = {}

    def resume_all(self) -> None:
        for name in self._urls:
            self.act(name, "POST", "/resume", tries=60)

    def make_topic(self, name: str, known: str, schema: str, profile: str, days: int) -> None:
        is_namespace = profile == "ns"
        self._topics[name] = known, schema
        self._ledger.topics[known] = (profile, days * 86400.0 if is_namespace else 1e9)
        properties: dict[str, Any] = {"inputSchema": schema}
        if schema == CUSTOM:
            fields = {each: {"sourceField": each} for each in _MAPPED}
            mapping = {"inputSchemaMappingType": "Json", "properties": fields}
            properties["inputSchemaMapping"] = mapping
        body = {"location": "x", "properties": properties, "tags": {"deliveryProfile": profile}}
        owner = path = f"{GRID}/topics/{name}"
        if is_namespace:
            owner, path = SHOP, f"{SHOP}/topics/{name}"
            body = {"properties": {"eventRetentionInDays": days}}
            self._arm("PUT", SHOP, {"location": "x"})
        self._paths[name] = path

        def keep(answer: Any) -> None:
            self._keys[name] = answer["key1"]

        self._arm("PUT", path, body, lambda _: self._arm("POST", f"{owner}/listKeys", None, keep))

    def subscribe(self, topic: str, name: str, **terms: Any) -> None:
        if topic in self._paths:
            self._urls[name] += 1
            self._paths[name] = path = f"{self._paths[topic]}/eventSubscriptions/{name}"
            self._arm("PUT", path, {"properties": self._subscription(topic, name, **terms)})

    def update(self, topic: str, name: str, **terms: Any) -> None:
        if name in self._paths:
            self._patch(topic, name, self._subscription(topic, name, **terms))

    def move(self, topic: str, name: str) -> None:
        if name not in self._paths:
            return
        self._urls[name] += 1
        destination = {"destination": self._destination(name, 1)}
        if self._is_of_namespace(topic):
            destination = {"deliveryConfiguration": {"deliveryMode": "Push", "push": destination}}
        self._patch(topic, name, destination)

    def act(self, name: str, method: str, action: str = "", tries: int = 4) -> None:
        if name in self._paths:
            self._arm(method, self._paths[name] + action, None, tries=tries)

    def replay(self, topic: str, name: str) -> None:
        if name in self._paths:
            body = {"topic": self._topics[topic][0], "subscription": name}
            self._arm("POST", f"{GRID}/replays", body, tries=2)

    def publish_to_all(self) -> None:
        """Publish an event to each topic; no fault is left that might refuse it."""
        if not all(each.is_well for each in self._processes.slots):  # one is still frozen
            self._kernel.at(self._kernel.now + PUBLISHER_WAITS, self.publish_to_all)
            return
        for topic in self._keys:
            answers = self.publish(topic, 1, 0)

            def judge(topic: str = topic, answers: Sequence[int] = answers) -> None:
                if answers != [200]:
                    self._ledger.find("refused", f"{topic} answers {answers} without a fault")

            self._kernel.at(self._kernel.now + PUBLISHER_WAITS, judge)

    def publish(self, topic: str, count: int, size: int) -> Sequence[int]:
        """Publish events; the status of the answer is appended to what is returned."""
        instance, began, answers = self._processes.any(), self._kernel.now, list[int]()
        if instance is None or topic not in self._keys:
            return answers
        known, schema = self._topics[topic]
        numbers = range(self._events, self._events + count)
        self._events += count
        kinds = [self._chance.choice(KINDS) for _ in numbers]
        for number, kind in zip(numbers, kinds, strict=True):
            self._ledger.sent(number, Published(known, kind, began, instance.process))
        text = self._chance.randbytes(size // 2).hex()  # that packing makes not much smaller
        events = [_event(schema, *each, text) for each in zip(numbers, kinds, strict=True)]
        request = self._publish_request(topic, schema, json.dumps(events).encode())
        self._ledger.note(f"{instance.process.name} is sent {count} for {known}", numbers)

        async def publish() -> None:
            answer = await instance.app.publish.run(request)
            if self._kernel.now - began < PUBLISHER_WAITS:
                self._seen[f"published {answer.status}"] += 1
                answers.append(answer.status)
                self._ledger.answered(numbers, answer.status)
                if answer.status not in (200, 503):
                    self._ledger.find("refused", f"{known}: {answer.body.decode()}")

        loop = instance.process.loop
        loop.call_soon(lambda: loop.create_task(publish()))
        return answers

    # ── Parts of the above ──

    def _is_of_namespace(self, topic: str) -> bool:
        return self._paths[topic].startswith(SHOP)

    def _patch(self, topic: str, name: str, properties: Any) -> None:
        is_below = self._is_of_namespace(topic)
        body = {"properties": properties} if is_below else properties
        self._arm("PATCH", self._paths[name], body)

    def _destination(self, name: str, batch: int) -> dict[str, Any]:
        url = f"https://{name}.example/{self._urls[name]}"
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
    ) -> dict[str, Any]:
        known, schema = self._topics[topic]
        if self._ledger.topics[known][0] == "2017":  # It has nothing of all that.
            attempts = minutes = dead_letter = None
            batch = 1
        dead = None
        if dead_letter is not None:
            account = dead_letter or MemoryStore.account
            resource = f"{PROVIDERS}/Microsoft.Storage/storageAccounts/{account}"
            properties = {"resourceId": resource, "blobContainerName": f"dead-{name}"}
            dead = {"endpointType": "StorageBlob", "properties": properties}
        to: dict[str, Any] = {"destination": self._destination(name, batch)}
        to["deadLetterDestination"] = dead
        types = {"includedEventTypes": list(kinds)} if kinds else {}
        given: dict[str, Any]
        if self._is_of_namespace(topic):
            to |= {"maxDeliveryCount": attempts} if attempts else {}
            to |= {"eventTimeToLive": f"PT{minutes}M"} if minutes else {}
            given = {"deliveryConfiguration": {"deliveryMode": "Push", "push": to}}
            given |= {"filtersConfiguration": types} if types else {}
        else:
            policy = {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes}
            given = {**to, "filter": types}
            given["retryPolicy"] = {each: chosen for each, chosen in policy.items() if chosen}
            same = "CustomInputSchema" if schema == CUSTOM else schema
            other = "EventGridSchema" if schema == CUSTOM else CLOUD
            given["eventDeliverySchema"] = other if converts else same
        if expires:
            given["expirationTimeUtc"] = timestamp(START + timedelta(seconds=expires))
        return given

    def _arm(
        self,
        method: str,
        path: str,
        body: Any,
        then: Callable[[Any], object] = lambda _: None,
        tries: int = 12,
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
            if answer and not fault:
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

    def _publish_request(self, topic: str, schema: str, body: bytes) -> HttpRequest:
        form = "application/cloudevents-batch+json" if schema == CLOUD else "application/json"
        path, params = f"topics/{topic}/api/events", {"topic": topic}
        key, version = {"aeg-sas-key": self._keys[topic]}, "2018-01-01"
        if self._is_of_namespace(topic):
            path = f"namespaces/shop/topics/{topic}:publish"
            params = {"namespace": "shop", "action": f"{topic}:publish"}
            key = {"authorization": f"SharedAccessKey {self._keys[topic]}"}
            version = "2024-06-01"
        return HttpRequest(
            method="POST",
            url=f"{HOST}/{path}",
            headers={**key, "content-type": form},
            params=params,
            query={"api-version": version},
            body=body,
        )


def _event(schema: str, number: int, kind: str, text: str) -> dict[str, Any]:
    data = {"n": number, "text": text}
    about = {"id": f"e{number}", "subject": f"/{kind}", "data": data}
    if schema == CLOUD:
        return {**about, "specversion": "1.0", "source": "/sim", "type": kind}
    return {**about, "eventType": kind, "eventTime": "2026-02-09T12:00:00Z", "dataVersion": "1"}
