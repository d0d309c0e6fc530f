"""Publishing evenly, and delivering what is due, in simulated time."""

from __future__ import annotations

from shared.engine.ports import Queue
from tests.builders import a_delivery, a_message
from tests.functional.deployment import MINUTE, SECOND, Deployment

RATE = 20  # events a second, each published on its own


def play(app: Deployment, events: int) -> None:
    """Publish and deliver, a twentieth of a second at a time, until nothing is left."""
    tick, number = SECOND / RATE, 0
    woken = app.clock.now()
    while number < events or app.all_stored():
        if number < events:
            app.run(a_message([a_delivery(number)]))
            number += 1
        for received in app.queues.receive(Queue.RETRIES, MINUTE):
            app.work(received.text)
            app.queues.delete(Queue.RETRIES, received)
        if app.clock.now() - woken >= MINUTE:
            woken = app.clock.now()
            app.wake.run()
        app.clock.advance(tick)
