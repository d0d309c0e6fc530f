"""Tells deliveries of a replay by their publish id, and marks their requests."""

from __future__ import annotations

from shared.delivery.requests.push_batch import PushBatch
from shared.http import OutboundRequest

HEADER = "aeg-replay-of"  # not Event Grid's
_PREFIX = "replay-"


def replay_publish_id(job: str, batch: int) -> str:
    """Return the publish id of what a batch of the replay *job* puts."""
    return f"{_PREFIX}{job}-{batch}"


def with_replay(request: OutboundRequest, batch: PushBatch) -> OutboundRequest:
    """Return *request* with the job that its events were put by, if all were put by one."""
    jobs = {replay_job(delivery.origin.publish_id) for delivery, _ in batch}
    job = jobs.pop()
    if jobs or job is None:
        return request
    return request._replace(headers={**request.headers, HEADER: job})


def replay_job(publish_id: str) -> str | None:
    """Return the replay job that has put what was published under this id, if one has."""
    if not publish_id.startswith(_PREFIX):
        return None
    return publish_id.removeprefix(_PREFIX).rpartition("-")[0]
