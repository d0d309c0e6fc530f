"""What of a file is refused before a server starts: all that needs no endpoint's answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.configuration import read_configuration
from cli.failure import CommandFailed
from cli.serving.rehearsal import rehearse
from server.environment import read_server_settings
from tests.unit.cli.configuration.test_template import NESTED, TOPIC, template

HOOK = "https://example.org/hook"
_GROUP = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts"


def webhook(url: str = HOOK, **properties: Any) -> dict[str, Any]:
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
    return {"properties": {"destination": destination, **properties}}


def dead_letters(account: str) -> dict[str, Any]:
    there = {"resourceId": f"{_GROUP}/{account}", "blobContainerName": "dead"}
    return {"deadLetterDestination": {"endpointType": "StorageBlob", "properties": there}}


def topics(**subscriptions: Any) -> dict[str, Any]:
    return {"topics": {"orders": {"eventSubscriptions": subscriptions}}}


def refused(folder: Path, document: Any, **environ: str) -> str:
    """Return why a server with *environ* does not take a file; nothing: it does."""
    path = folder / "pushgrid.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=1))
    try:
        rehearse(read_configuration(path), read_server_settings(environ))
    except CommandFailed as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (topics(crm=webhook("http://example.org/")), "PUSHGRID_ALLOW_HTTP"),
        (topics(crm=webhook("https://10.0.0.5/")), "PUSHGRID_ALLOWED_NETWORKS"),
        (topics(crm=webhook("https://[::1]:8443/")), "PUSHGRID_ALLOWED_NETWORKS"),
        (topics(crm=webhook(**dead_letters("acct"))), "not to 'acct'"),
        (topics(crm=webhook(filter={"advancedFilters": [{"operatorType": "Is"}]})), "operatorType"),
        (topics(**{f"to-{n}": webhook() for n in range(501)}), "at most 500"),
    ],
)
def test_what_a_server_does_not_take_is_told_with_its_line(tmp_path, caplog, document, why):
    with caplog.at_level("INFO"):
        said = refused(tmp_path, document)

    assert why in said
    assert said.startswith(f"{tmp_path / 'pushgrid.json'}:")
    assert caplog.messages == []  # nothing of it happens


def test_the_own_account_has_the_name_that_is_set_and_no_queues(tmp_path):
    own = {"PUSHGRID_OWN_ACCOUNT": "mine"}
    queue = {"resourceId": f"{_GROUP}/mine", "queueName": "work"}
    worker = {"properties": {"destination": {"endpointType": "StorageQueue", "properties": queue}}}

    assert refused(tmp_path, topics(crm=webhook(**dead_letters("mine"))), **own) == ""
    assert "'mine'" in refused(tmp_path, topics(crm=webhook(**dead_letters("pushgrid"))), **own)
    assert "a storage account on Azure" in refused(tmp_path, topics(worker=worker), **own)


def test_what_only_an_endpoint_or_the_server_knows_is_no_fault(tmp_path):
    cloud_events = {"eventDeliverySchema": "CloudEventSchemaV1_0"}
    taken = topics(
        crm=webhook(**dead_letters("pushgrid")),
        erp=webhook("https://unknown.invalid/"),
        wms=webhook(**cloud_events),
        own=webhook("http://127.0.0.1:7071/"),
    )
    opened = {"PUSHGRID_ALLOW_HTTP": "true", "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8"}
    assert refused(tmp_path, taken, **opened) == ""

    # A template may add to what the server has.
    elsewhere = {"type": NESTED, "name": "there/crm", **webhook()}
    own = {"type": TOPIC, "name": "orders", "location": "local", "properties": {}}
    assert refused(tmp_path, template(own, elsewhere)) == ""
