"""No record of any shape stops a replay: it is a fault of its own, and the others are replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import GROUP
from shared.subscriptions.subscription import DeadLetterDestination
from tests.azure_dead_letters import ADDED, CLOUD_ADDED, CLOUD_EVENT, EVENT, NAMESPACE
from tests.functional.replaying.replays import CRM, ids, replayed

TOPIC = f"{GROUP}/providers/Microsoft.EventGrid/topics/orders"
NESTED = "[" * 70 + "]" * 70
ODD = [
    *('{"a": {"b": null}}', "{}", "[]", '[[1], {"a": 2}]', NESTED, "null", "true", "false", '""'),
    *(
        "0",
        "-1",
        "1.10",
        "-0",
        "1e400",
        "1e308",
        "7" * 300,
        "7" * 5000,
        "NaN",
        '"7777777777777777"',
    ),
    *(f'"{"x" * 3000}"', r'"\ud800"', r'"\u0000"', '"/"', '"9999-12-31T23:59:60Z"'),
    *('"0001-01-01T00:00:00+14:00"', '"2026-02-09T24:00:00"'),
]
RECORDS: Mapping[str, dict[str, Any]] = {
    "Event Grid": EVENT | ADDED,
    "CloudEvents": CLOUD_EVENT | {"tenant": "x"} | CLOUD_ADDED,
    "binary": {n: CLOUD_EVENT[n] for n in ("specversion", "id", "source", "type")}
    | {"data_base64": "AA=="}
    | CLOUD_ADDED,
    "converted": CLOUD_EVENT | {"source": TOPIC, "dataschema": "#1.0"} | CLOUD_ADDED,
    "namespace": NAMESPACE | {"customDeliveryProperties": {"x-team": "crm"}},
}
CLOUD = "CloudEventSchemaV1_0"
SCHEMAS: Sequence[dict[str, Any]] = [
    {"inputSchema": "EventGridSchema"},
    {"inputSchema": CLOUD},
    {
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": {
            "inputSchemaMappingType": "Json",
            "properties": {
                "eventType": {"defaultValue": "Shop.Generic"},
                "subject": {"defaultValue": "/none"},
                "dataVersion": {"defaultValue": "1"},
            },
        },
    },
]


def odd(record: object) -> Iterator[str]:
    """Yield JSON of *record* with each of its members, one at a time, as each odd value."""
    yield from ODD
    if not isinstance(record, dict):
        return
    for name in record:
        rest = [f"{json.dumps(n)}: {json.dumps(value)}" for n, value in record.items() if n != name]
        for value in odd(record[name]):
            yield "{" + ", ".join([*rest, f"{json.dumps(name)}: {value}"]) + "}"


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda each: each["inputSchema"])
@pytest.mark.parametrize("form", RECORDS)
@pytest.mark.parametrize("is_given", [False, True], ids=["own", "given"])
def test_no_record_stops_a_replay(
    pushgrid: Pushgrid, schema: dict[str, Any], form: str, *, is_given: bool
) -> None:
    delivered = CLOUD if schema["inputSchema"] == CLOUD else "EventGridSchema"
    orders = pushgrid.topic("orders", **schema)
    crm = orders.subscribe("crm", answers=[200], eventDeliverySchema=delivered)
    given = {"container": "azure", "to": CRM} if is_given else {"unproven": True}
    letter = EVENT | ADDED if delivered != CLOUD else CLOUD_EVENT | CLOUD_ADDED
    good = json.dumps(letter | {"id": "good", "topic" if letter.get("topic") else "source": TOPIC})
    records = [text for each in odd(RECORDS[form]) for text in (each, good)]
    container = DeadLetterDestination(container="azure" if is_given else crm.container or "")
    blob = f"[{', '.join(records)}]".encode()
    pushgrid._app.dead_letters.write(container, "CRM/2026/2/9/12/odd.json", blob)
    pushgrid.advance(minutes=1)

    chosen = replayed(pushgrid, event="good", dryRun=True, **given)
    job = replayed(pushgrid, rate=1000, **given)

    assert (chosen["state"], chosen["replayed"]) == ("Done", 1)
    assert (job["state"], ids(crm).count("good")) == ("Done", len(records) // 2)
    assert job["replayed"] + sum(job["skipped"].values()) == len(records)
