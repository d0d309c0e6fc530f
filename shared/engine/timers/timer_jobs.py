"""Runs the jobs of one timer in order; a failing job does not stop the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from shared import telemetry
from shared.clock import Clock


class Job(Protocol):
    """One job of a timer."""

    def run(self, deadline: datetime) -> None:
        """Do the job; start nothing new after *deadline*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerJobs:
    """Runs its jobs in order, each with its share of the time."""

    jobs: Mapping[str, Job]
    clock: Clock
    run_for: timedelta = timedelta(minutes=2)  # and a put may be repeated for two more

    def run(self) -> list[str]:
        """
        Run every job; return the names of those that failed.

        A failure is logged, and the job runs again with the next run.
        """
        failed = []
        for name, job in self.jobs.items():
            try:
                job.run(self.clock.now() + self.run_for / len(self.jobs))
            except Exception as error:  # noqa: BLE001 - an internal error must not stop the others
                failed.append(name)
                telemetry.error("timer.failed", job=name, detail=f"{type(error).__name__}: {error}")
        return failed
