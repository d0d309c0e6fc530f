"""Pushes events as Celery tasks that survive a lost worker and a restarted broker."""

import os
import threading

import requests
from celery import Celery

app = Celery("tasks", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={"confirm_publish": True},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_delivery_mode="persistent",
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
)
SINK = os.environ["SINK"]
connections = threading.local()


@app.task(autoretry_for=(requests.RequestException,), max_retries=30, retry_backoff=10)
def push(path: str, event: object) -> None:
    """Send one event to a subscriber over this thread's keep-alive connection."""
    if not hasattr(connections, "session"):
        connections.session = requests.Session()
    connections.session.post(f"{SINK}{path}", json=[event], timeout=30).raise_for_status()
