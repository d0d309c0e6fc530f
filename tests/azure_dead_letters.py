"""Dead letters as Azure Event Grid writes them: the contract's examples (§4.2)."""

from __future__ import annotations

AZURE_TOPIC = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"
EVENT = {
    "id": "a-1",
    "topic": AZURE_TOPIC,
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2025-01-02T03:04:05Z",
    "dataVersion": "1.0",
    "metadataVersion": "1",
    "data": {"total": 12.5},
}
ADDED = {
    "deadLetterReason": "MaxDeliveryAttemptsExceeded",
    "deliveryAttempts": 5,
    "lastDeliveryOutcome": "TimedOut",
    "lastHttpStatusCode": 408,
    "publishTime": "2025-01-02T03:04:06.1234567Z",
    "lastDeliveryAttemptTime": "2025-01-02T03:11:06.7654321Z",
}
CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "a-2",
    "source": "/shop",
    "type": "shop.placed",
    "subject": "17",
    "time": "2025-01-02T03:04:05Z",
    "datacontenttype": "application/json",
    "data": {"total": 12.5},
}
CLOUD_ADDED = {name.lower(): value for name, value in ADDED.items()}
NAMESPACE = {
    "deadLetterProperties": {
        "deadletterreason": "Maximum delivery attempts was exceeded.",
        "deliveryattempts": 1,
        "deliveryresult": "Event was not acknowledged nor rejected.",
        "publishutc": "2023-09-23T02:30:00.0000000Z",
        "deliveryattemptutc": "2023-09-23T02:31:00.0000000Z",
    },
    "event": CLOUD_EVENT,
}
