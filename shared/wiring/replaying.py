"""Composes replays of dead letters: jobs for the management API, and their steps."""

from __future__ import annotations

from shared.engine.replaying.jobs import ReplayJobs
from shared.engine.replaying.step import ReplaySteps
from shared.wiring import storage
from shared.wiring.process import CLOCK, backoff, bridge, once


@once
def jobs() -> ReplayJobs:
    return ReplayJobs(
        rows=storage.resources(),
        sender=storage.sender(),
        run=bridge().run,
        clock=CLOCK,
        backoff=backoff,
    )


@once
def replay() -> ReplaySteps:
    return ReplaySteps(
        jobs=jobs(),
        rows=storage.resources(),
        payloads=storage.payloads(),
        reader=storage.dead_letters(),
        topics=storage.resource_cache(),
        subscriptions=storage.resource_cache(),
        requeue=storage.blocking_requeue(),
        terms=storage.deployment_terms(),
        clock=CLOCK,
    )
