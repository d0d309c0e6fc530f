"""Which delivery schema an event subscription can have."""

from __future__ import annotations

from typing import Any

import pytest

from shared.arm.subscription_codec import (
    DELIVERY_SCHEMAS,
    to_subscription,
)
from shared.errors import InvalidDocument
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import (
    DeliverySchema,
)
from tests.unit.arm.documents import (
    MAPPING,
    subscription,
    topic,
)


@pytest.mark.parametrize("input_schema", InputSchema)
@pytest.mark.parametrize("delivery_schema", DeliverySchema)
def test_the_matrix_of_schemas(input_schema: InputSchema, delivery_schema: DeliverySchema) -> None:
    """The matrix of Event Grid's "Event schemas", and the error its users report."""
    of = topic(
        inputSchema=str(input_schema),
        inputSchemaMapping=MAPPING if input_schema is InputSchema.CUSTOM else None,
    )

    if delivery_schema in DELIVERY_SCHEMAS[input_schema]:
        stored = subscription(of=of, eventDeliverySchema=str(delivery_schema))
        assert to_subscription(stored).delivery_schema is delivery_schema
    else:
        with pytest.raises(InvalidDocument) as caught:
            subscription(of=of, eventDeliverySchema=str(delivery_schema))
        assert caught.value.message == (
            f'The specified EventDeliverySchema value "{delivery_schema}" cannot be used in '
            f"combination with the topic's input schema of {input_schema}"
        )


def test_the_matrix_allows_what_is_documented() -> None:
    assert {str(key): {*map(str, value)} for key, value in DELIVERY_SCHEMAS.items()} == {
        "EventGridSchema": {"EventGridSchema", "CloudEventSchemaV1_0"},
        "CloudEventSchemaV1_0": {"CloudEventSchemaV1_0"},
        "CustomEventSchema": {"EventGridSchema", "CustomInputSchema", "CloudEventSchemaV1_0"},
    }


@pytest.mark.parametrize(
    ("of", "default"),
    [
        (topic(), DeliverySchema.EVENT_GRID),
        (topic(inputSchema="CloudEventSchemaV1_0"), DeliverySchema.CLOUD_EVENTS),
        (
            topic(inputSchema="CustomEventSchema", inputSchemaMapping=MAPPING),
            DeliverySchema.CUSTOM_INPUT,
        ),
    ],
)
def test_the_default_delivery_schema_is_the_topics(of: Any, default: DeliverySchema) -> None:
    assert to_subscription(subscription(of=of)).delivery_schema is default


def test_the_delivery_schema_cant_change() -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(existing=subscription(), eventDeliverySchema="CloudEventSchemaV1_0")

    assert caught.value.message == (
        "The new event delivery schema value CloudEventSchemaV1_0 cannot be different from the "
        "already existing event delivery schema value EventGridSchema."
    )
