"""Two apps in one thread share what is stored and nothing else, as two instances do."""

from __future__ import annotations

from datetime import timedelta

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import ScriptedPusher, answered
from shared.engine.ports import Queue
from shared.metrics import Metric
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, hook
from tests.functional.publish_requests import event, publish_request


def test_what_one_app_publishes_another_delivers_and_a_third_repeats() -> None:
    api = ArmApi()
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(), status=201)
    key = api.json("POST", f"{ORDERS}/listKeys")["key1"]
    pushers = [ScriptedPusher(api.clock) for _ in range(3)]
    publishing, failing, repeating = (
        InMemoryApp(pusher, api.clock, api.storage) for pusher in pushers
    )
    pushers[1].script(URL, answered(500))

    request = publish_request(event(1), aeg_sas_key=key)
    answer = publishing.loop.run(publishing.publish.run(request))
    (message,) = publishing.queues.texts(Queue.DELIVERIES)
    failing.work(message)
    (retry,) = failing.queues.texts(Queue.RETRIES)
    api.clock.advance(timedelta(minutes=1))
    repeating.work(retry, Queue.RETRIES)

    apps = (publishing, failing, repeating)
    assert answer.status == 200
    assert [len(pusher.sent) for pusher in pushers] == [0, 1, 1]
    for metric, counted in (
        (Metric.MATCHED, [1, 0, 0]),
        (Metric.ATTEMPT_FAIL, [0, 1, 0]),
        (Metric.DELIVERY_SUCCESS, [0, 0, 1]),
    ):
        assert [sum(app.metrics.of(metric).values()) for app in apps] == counted
