"""The data plane."""

from __future__ import annotations

from shared.engine.publishing.publish import Publish
from shared.wiring import authorization, storage
from shared.wiring.once import once
from shared.wiring.process import CLOCK, new_id
from shared.wiring.terms import deployment_terms


@once
def publish() -> Publish:
    return Publish(
        authorization=authorization.publishers(),
        topics=storage.directory(),
        subscriptions=storage.directory(),
        payloads=storage.payloads(),
        sender=storage.queues(),
        clock=CLOCK,
        new_id=new_id,
        metrics=storage.metrics(),
        payloads_kept_for=deployment_terms().payloads_kept_for,
    )
