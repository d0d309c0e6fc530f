"""What this deployment makes of the delivery rules."""

from __future__ import annotations

from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.wiring import storage
from shared.wiring.once import once
from shared.wiring.process import settings


@once
def deployment_terms() -> DeploymentTerms:
    return DeploymentTerms(
        topics=storage.directory(),
        default_profile=settings().profile,
        time_scale=settings().time_scale,
        honor_retry_after=settings().honor_retry_after,
        probation_counts_attempt=settings().probation_counts_attempt,
        probation_ends_events=settings().probation_ends_events,
    )
