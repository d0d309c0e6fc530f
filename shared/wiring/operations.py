"""Composes the status routes and the console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from shared.engine.caching.cache import Cache
from shared.engine.operations.console_files import CONTENT_TYPES, ConsoleFiles
from shared.settings.storage_settings import with_own_account
from shared.wiring.process import CLOCK, once, threads

if TYPE_CHECKING:
    from shared.engine.operations.status import Status

_KEEP_SECONDS = 3  # the health is public
_KEEP_READ_SECONDS = 10  # all subscriptions are read, and of some their counts
_WAIT_SECONDS = 4  # while storage hangs

V = TypeVar("V")


@once
def console_files() -> ConsoleFiles:
    folder = Path(__file__).parents[1] / "console"
    files = (each for each in folder.iterdir() if each.suffix in CONTENT_TYPES)
    return ConsoleFiles({each.name: each.read_bytes() for each in files})


@once
def status() -> Status:
    # The console's files need none of these: cold starts.
    from shared.delivery.profiles import PROFILES
    from shared.engine.operations.activity import read_activities
    from shared.engine.operations.status import Snapshot, Status, take_snapshot
    from shared.engine.operations.subscription_state import held_subscriptions
    from shared.engine.operations.topic_states import topic_states
    from shared.events.topic import DEPLOYMENT
    from shared.wiring import storage
    from shared.wiring.entra import operators
    from shared.wiring.settings import settings

    others = settings().deadletter_accounts
    snapshots = Cache[Snapshot | None](threads(), lambda _: _KEEP_SECONDS)

    def snapshot() -> Snapshot | None:
        return snapshots.get_within(
            "", lambda: take_snapshot(storage.queues(), storage.resources(), CLOCK), _WAIT_SECONDS
        )

    return Status(
        counts=storage.counts(),
        snapshot=snapshot,
        held=_kept(lambda: held_subscriptions(storage.resources(), CLOCK.now())),
        topics=lambda seen: topic_states(
            storage.resources(),
            CLOCK.now(),
            (*with_own_account(storage.account().account_name, others), DEPLOYMENT),
            seen,
        ),
        activities=_kept(
            lambda: read_activities(
                storage.counts(),
                storage.attempts(),
                storage.resources(),
                CLOCK.now(),
                PROFILES[settings().profile].dead_letter_delay / settings().time_scale,
            )
        ),
        replays=lambda: storage.replay_jobs().list(),
        operators=operators(),
        unset_schedules=settings().unset_schedules,
    )


def _kept(read: Callable[[], V]) -> Callable[[], V]:
    """Return *read*, whose value is kept for some seconds."""
    values = Cache[V](threads(), lambda _: _KEEP_READ_SECONDS)
    return lambda: values.get("", read)
