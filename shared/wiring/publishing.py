"""Composes publishing, for custom topics and topics of namespaces."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from shared.engine.ports import Commits
from shared.engine.publishing.commit import Commit
from shared.engine.publishing.gathering import MAX_UNDER_WAY
from shared.engine.publishing.group_commit import GroupCommit
from shared.engine.publishing.publish import Publish, PublisherAuthorization
from shared.engine.publishing.publish_report import PublishReport
from shared.http import HttpAnswer, HttpRequest
from shared.wiring import storage
from shared.wiring.entra import publisher_tokens
from shared.wiring.process import CLOCK, new_request_id, once, threads
from shared.wiring.settings import settings
from shared.wiring.tracing import spans

THREADS = 6  # for requests that are large, or wait for storage or keys


@once
def answer() -> Callable[[HttpRequest], Coroutine[Any, Any, HttpAnswer]]:
    """Return what answers publish requests, with a span for each where these are wanted."""
    traced = spans()
    return partial(traced.publication, publish().run) if traced else publish().run


def _counted(commits: Commits) -> Commits:
    if spans() is None:
        return commits
    from shared.adapters.otel import CountingCommits

    return CountingCommits(commits)


@once
def publish() -> Publish:
    threads().attach()  # The first request may be the first call on the loop.
    of_commits = threads().pool("commit", MAX_UNDER_WAY)  # which wait for no request's reads
    report = PublishReport(metrics=storage.metrics(), clock=CLOCK, logging=settings().publish_log)
    return Publish(
        authorization=PublisherAuthorization(
            clock=CLOCK,
            tokens=publisher_tokens(),
            client_ip_header=settings().client_ip_header,
            public_url=settings().public_url,
        ),
        topics=storage.resource_cache(),
        subscriptions=storage.resource_cache(),
        commits=_counted(
            GroupCommit(
                Commit(
                    payloads=storage.payloads(),
                    sender=storage.sender(),
                    off_loop=of_commits,
                    report=report.published,
                ).run
            )
        ),
        clock=CLOCK,
        new_id=new_request_id,
        report=report,
        payloads_kept_for=storage.deployment_terms().payloads_kept_for,
        off_loop=threads().pool("publish", THREADS, withdraws=True),
    )
