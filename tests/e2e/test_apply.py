"""`pushgrid apply`: one file, on the running product."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devhost.process import RunningHost
from testbed.subscriber import Subscriber
from tests.commands import Printed, Run
from tests.e2e.publishing import an_event, send

TEMPLATE = Path(__file__).parents[1] / "data" / "configuration" / "shop.json"
KEY = "bG9jYWwta2V5"
Apply = Callable[..., Printed]


@pytest.fixture
def apply(pushgrid: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apply:
    """Apply a configuration to a resource group of its own."""
    group = f"/subscriptions/{uuid.uuid4()}/resourceGroups/{uuid.uuid4().hex}"
    monkeypatch.setenv("PUSHGRID_SCOPE", group)
    monkeypatch.chdir(tmp_path)

    def run(content: Any, *options: str, file: str = "pushgrid.json") -> Printed:
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        Path(file).write_text(text)
        return pushgrid("apply", file, *options)

    return run


def webhook(url: str, **properties: Any) -> dict[str, Any]:
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
    return {"properties": {"destination": destination, **properties}}


def test_a_file_from_nothing_to_a_delivery(
    apply: Apply, pushgrid: Run, host: RunningHost, name: str, subscriber: Callable[..., Subscriber]
) -> None:
    there = subscriber()
    absent = webhook("http://127.0.0.1:9/") | {"consent": "assumed"}
    subscriptions = {"absent": absent, "crm": webhook(there.url)}
    wanted = {"topics": {name: {"keys": {"key1": KEY}, "eventSubscriptions": subscriptions}}}

    planned, listed = apply(wanted, "--dry-run"), pushgrid("topic", "list", "--json").document
    first, second = apply(wanted), apply(wanted)

    created = "".join(
        f"+ {each}\n"
        for each in (
            f"topic {name}",
            f"event subscription {name}/absent",
            f"event subscription {name}/crm",
        )
    )
    unchecked = "2 not checked: what they stand in does not exist yet.\n"
    assert planned == (0, f"{created}Dry run: 3 to create.\n{unchecked}", "")
    assert listed == []
    assert first == (0, f"{created}3 created.\n", "")
    assert second == (0, "Nothing to change: the deployment is as pushgrid.json says.\n", "")
    send(host.url, name, KEY, [an_event()])
    assert there.wait_for(bool)


def test_a_compiled_template_serves_the_laptop_too(
    apply: Apply, pushgrid: Run, subscriber: Callable[..., Subscriber], tmp_path: Path
) -> None:
    there = subscriber()
    receivers = [{"name": "crm", "url": there.url, "prefixes": ["/orders/"]}]
    values = {"environment": "test", "receivers": receivers}
    file = tmp_path / "parameters.json"
    file.write_text(json.dumps({"parameters": {k: {"value": v} for k, v in values.items()}}))
    # Names are of the whole deployment, which other tests share.
    own = uuid.uuid4().hex[:8]
    template = (
        TEMPLATE.read_text().replace("'Orders'", f"'{own}'").replace("'shop-{0}'", f"'{own}-n'")
    )
    template = template.replace("https://127.0.0.1:9000", there.url.rstrip("/"))
    options = ("--parameters", str(file), "--parameter", "location=westeurope")

    first = apply(template, *options, file="main.json")
    second = apply(template, *options, file="main.json")
    shown = pushgrid("subscription", "show", "crm", "--topic", f"{own}-test").document

    assert (first.code, first.err) == (0, "")
    assert first.out.splitlines()[-3:] == [
        "left out: Microsoft.Storage/storageAccounts, line 82",
        "left out: Microsoft.EventGrid/eventSubscriptions, line 172",
        "6 created.",
    ]
    assert second.out.endswith("Nothing to change: the deployment is as main.json says.\n")
    assert shown["properties"]["labels"] == ["OrderPlaced", "OrderCancelled"]
