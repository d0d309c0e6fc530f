"""The file that `pushgrid dev` follows, on the management API in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.deployment import Deployment
from cli.local.narration import NarratedLine
from cli.local.watched_file import WatchedFile
from devhost.azurite import ACCOUNT
from shared.http import Failure, NotAnswered
from tests.functional.configuration.conftest import Write
from tests.functional.manage.arm_api import GROUP, TOPICS, URL, ArmApi, hook
from tests.unit.cli.configuration.test_template import TEMPLATE_SCHEMA, TOPIC

DOWN = NotAnswered(Failure.SOCKET, "refused", 0.1)


def topics(*names: str, **members: Any) -> dict[str, Any]:
    return {"topics": dict.fromkeys(names, members)}


class Followed:
    """A folder whose file is followed; *now* is the time in seconds."""

    def __init__(self, folder: Path, api: ArmApi, deployment: Deployment) -> None:
        self.now = 0.0
        self.told: list[NarratedLine] = []
        self.file = WatchedFile(None, folder, self.told.append, lambda: self.now)
        self._api, self._deployment = api, deployment
        self.made: list[tuple[str, str]] = []

    def look(self, times: int = 2) -> list[tuple[str, str, str]]:
        """Look at the file; return what is told of it."""
        self.told.clear()
        for _ in range(times):
            self.file.follow(self._deployment, self._make)
        return [each[:3] for each in self.told]

    def _make(self, kind: str, name: str) -> bool:
        is_new = (kind, name) not in self.made
        self.made += [(kind, name)] if is_new else []
        return is_new

    @property
    def there(self) -> list[str]:
        return sorted(each["name"] for each in self._api.json("GET", TOPICS)["value"])


@pytest.fixture
def followed(tmp_path: Path, api: ArmApi, deployment: Deployment) -> Followed:
    return Followed(tmp_path, api, deployment)


def test_it_is_applied_when_it_comes_and_when_it_changes(
    followed: Followed, write: Write, tmp_path: Path
) -> None:
    assert followed.look() == []
    assert followed.file.is_applied

    write(topics("orders"))
    assert followed.look() == [("applied", "orders", "created topic")]
    write(topics("orders", tags={}))
    assert followed.look() == [("applied", "pushgrid.json", "nothing to change")]
    (tmp_path / "pushgrid.json").unlink()

    assert followed.look() == []
    assert followed.there == ["orders"]


def test_only_what_the_file_named_is_deleted(followed: Followed, write: Write, api: ArmApi) -> None:
    write(topics("orders", "billing"))
    followed.look()
    api.json("PUT", f"{TOPICS}/by-hand", {"location": "x"}, status=201)

    write(topics("billing"))

    assert followed.look() == [("applied", "orders", "deleted topic")]
    assert followed.there == ["billing", "by-hand"]


def test_a_file_that_is_being_written_is_not_read(followed: Followed, write: Write) -> None:
    for part in ('{"topics"', '{"topics": {"orders"', '{"topics": {"orders": {}}}'):
        write(part)
        assert followed.look(times=1) == []

    assert followed.look(times=1) == [("applied", "orders", "created topic")]


def test_a_faulty_file_is_told_once_and_changes_nothing(followed: Followed, write: Write) -> None:
    write(topics("orders"))
    followed.look()

    path = write('{\n  "topics": {"billing": {"tag": {}}}\n}')
    ((kind, _, text),) = followed.look(times=9)

    assert (kind, text.startswith(f"{path}:2: ")) == ("file", True)
    assert (followed.there, followed.file.is_applied) == (["orders"], False)
    write(topics("orders", "billing"))
    assert followed.look() == [("applied", "billing", "created topic")]
    assert followed.file.is_applied


def test_a_file_that_would_cost_too_much_is_told_as_well(
    followed: Followed, tmp_path: Path
) -> None:
    file = tmp_path / "pushgrid.yaml"
    file.write_text("[" * 100_000)

    assert followed.look(times=9) == [("file", "", f"{file}:1: its values are nested too deeply")]
    file.write_text("topics: {orders: {}}")
    assert followed.look() == [("applied", "orders", "created topic")]


def test_faults_of_a_template_offer_no_options(followed: Followed, write: Write) -> None:
    """The command that follows a file has none for templates."""
    url = {"type": "string"}
    labels = ["[parameters('url')]", "[frobnicate()]", "[parameters('bad')]"]
    path = write(
        {
            "$schema": TEMPLATE_SCHEMA,
            "parameters": {"url": url, "bad": {**url, "defaultValue": "[frobnicate()]"}},
            "resources": [
                {"type": TOPIC, "name": f"t{at}", "tags": {"label": label}}
                for at, label in enumerate(labels)
            ],
        }
    )

    assert [text for _, _, text in followed.look()] == [
        f"{path}:4: parameters.url: this parameter has no value; give it a default value",
        f"{path}:24: resources[1].tags.label: there is no function frobnicate().",
        f"{path}:9: parameters.bad.defaultValue: there is no function frobnicate().",
    ]
    path = write({"$schema": "https://a.example/deploymentParameters.json#"})
    told = f"{path}:1: these are parameters: name the template"
    assert followed.look() == [("file", "", told)]


def test_it_makes_the_local_containers_and_queues_that_the_file_names(
    followed: Followed, write: Write, api: ArmApi
) -> None:
    api.reconfigure(
        deployment=replace(
            api.table.deployment, dead_letter_accounts=[ACCOUNT], queue_accounts=[ACCOUNT]
        )
    )
    accounts = f"{GROUP.rpartition('/')[0]}/Microsoft.Storage/storageAccounts"
    file = topics("orders")
    for name, account in (("here", ACCOUNT), ("there", "acct")):
        properties = {"resourceId": f"{accounts}/{account}", "blobContainerName": name}
        destination = {"endpointType": "StorageBlob", "properties": properties}
        subscriptions = file["topics"]["orders"].setdefault("eventSubscriptions", {})
        subscriptions[name] = hook(deadLetterDestination=destination)
    properties = {"resourceId": f"{accounts}/{ACCOUNT}", "queueName": "inbox"}
    queue = {"endpointType": "StorageQueue", "properties": properties}
    subscriptions["queue"] = {"properties": {"destination": queue}}

    write(file)
    told = followed.look(times=3)

    places = [("container", "here"), ("queue", "inbox")]
    made = [("applied", name, f"created {kind} of the local storage") for kind, name in places]
    assert followed.made == places
    assert [told.count(each) for each in made] == [1, 1]


def test_what_is_refused_is_told_once_and_tried_again(
    followed: Followed, write: Write, api: ArmApi
) -> None:
    """Its endpoint is started after the deployment."""
    api.pusher.script(URL, DOWN)
    path = write(topics("orders", eventSubscriptions={"crm": hook()}))

    created, refused, again = followed.look()
    assert created == ("applied", "orders", "created topic")
    assert refused[2].startswith(f"{path}:")
    assert again[2] == "Retrying every 10 s, and when the file changes."
    followed.now = 10.0
    assert followed.look() == []

    api.pusher._scripts.clear()  # it consents
    assert followed.look() == []
    followed.now = 20.0

    assert followed.look() == [("applied", "orders/crm", "created event subscription")]
    assert followed.file.is_applied
