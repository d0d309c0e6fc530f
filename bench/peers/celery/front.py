"""Accepts events over HTTP: answers 200 when RabbitMQ has confirmed every task."""

import os

from flask import Flask, request
from tasks import push

app = Flask(__name__)
TARGETS = [f"/hook/{number}" for number in range(int(os.environ["SUBSCRIPTIONS"]))]


@app.post("/events")
def accept() -> str:
    """Enqueue one task for each event and subscription."""
    for event in request.get_json():
        for path in TARGETS:
            push.delay(path, event)
    return ""
