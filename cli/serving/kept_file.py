"""Keeps a server's deployment as a file says: applied at start, and again when it is told so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.configuration import Action, Change, carry_out, plan, read_configuration
from cli.configuration.resources import SUBSCRIPTIONS, Configuration, ResourceId
from cli.deployment import Deployment
from cli.failure import CommandFailed
from shared import telemetry
from shared.errors import AppError
from shared.subscriptions.subscription import SubscriptionKey

_FIRST_SECONDS, _LONGEST_SECONDS = 10.0, 600.0
_SYSTEM_TOPICS = "systemTopics"

HasWaiting = Callable[[SubscriptionKey], bool]


class KeptFile:
    """
    Creates and updates what the file at *path* names, and logs what it no longer names.

    With *prune* that is deleted once no events wait. What an endpoint, or the deployment, refuses
    is logged and tried again, after 10 s at first and 10 minutes at most.
    """

    def __init__(self, path: Path, *, prune: bool) -> None:
        self._path = path
        self._name = path.name
        self._prune = prune
        self._wanted: Configuration | None = None
        self._is_changed = threading.Event()
        self._told: object = None  # what was refused last
        self._told_unnamed: object = None
        self.has_been_applied = threading.Event()  # whatever was refused

    def read(self) -> None:
        """
        Read the file; it is applied next.

        Raises:
            CommandFailed: it is faulty.
        """
        self._wanted = read_configuration(self._path, offers_options=False)

    def reload(self) -> None:
        """Have `follow` read the file again, now."""
        self._is_changed.set()

    def follow(self, api: Deployment, has_waiting: HasWaiting) -> None:
        """
        Apply the file to *api*, and again when it is refused or read again; never returns.

        *has_waiting* tells whether events wait for an event subscription.
        """
        seconds: float | None = _FIRST_SECONDS
        while True:
            is_done = self._wanted is None or self._apply(api, self._wanted, has_waiting)
            self.has_been_applied.set()
            if self._is_changed.wait(None if is_done else seconds):
                self._is_changed.clear()
                self._read_again()
                seconds = _FIRST_SECONDS
            elif seconds:
                seconds = min(2 * seconds, _LONGEST_SECONDS)

    def _read_again(self) -> None:
        self._told = self._told_unnamed = None
        try:
            self.read()
        except CommandFailed as error:
            telemetry.error("file.faulty", file=self._name, detail=error.message)
            self._wanted = None

    def _apply(self, api: Deployment, wanted: Configuration, has_waiting: HasWaiting) -> bool:
        """Bring *api* to the file; return whether all of it was done."""
        try:
            return self._carry_out(api, wanted, has_waiting)
        except (CommandFailed, AppError) as error:
            self._tell_refused([error.message])
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread
            self._tell_refused([f"{type(error).__name__}: {error}"])
        return False

    def _carry_out(self, api: Deployment, wanted: Configuration, has_waiting: HasWaiting) -> bool:
        planned = plan(api, wanted, prune=True)
        unnamed = [each for each in planned if each.action is Action.DELETE]
        kept = self._kept(api, unnamed, has_waiting)
        left = {each.id.title: kept[each.id.folded] for each in unnamed if each.id.folded in kept}
        if left != self._told_unnamed:
            for title, why in left.items():
                telemetry.warning("file.unnamed", file=self._name, resource=title, detail=why)
        self._told_unnamed = left
        done: list[Change] = []

        def take(change: Change) -> None:
            done.append(change)
            _log(change)

        carry_out(api, [each for each in planned if each.id.folded not in kept], take)
        refused = [fault for each in done for fault in each.faults]
        self._tell_refused(refused)
        if not refused:
            changed = sum(each.changes_something for each in done)
            telemetry.info("file.applied", file=self._name, changed=changed)
        return not refused and not (self._prune and left)

    def _kept(
        self, api: Deployment, unnamed: Sequence[Change], has_waiting: HasWaiting
    ) -> dict[ResourceId, str]:
        """Return what is not deleted though the file does not name it, folded, with the reason."""
        if not self._prune:
            why = "the file does not name it; --prune deletes it where no events wait"
            return {each.id.folded: why for each in unnamed}
        kept: dict[ResourceId, str] = {}
        sources = api.system_topics() if unnamed else {}
        for each in unnamed:
            if each.id.types[-1] != SUBSCRIPTIONS:
                continue
            topic, _, name = each.id.name.rpartition("/")
            if each.id.types[0] == _SYSTEM_TOPICS:
                topic = sources[f"{_SYSTEM_TOPICS}/{topic}"]
            if has_waiting(SubscriptionKey(topic, name)):
                why = f"the file does not name it, but events wait for {each.id.title}"
                kept.update((own.folded, why) for own in each.id.lineage)
        return kept

    def _tell_refused(self, faults: Sequence[str]) -> None:
        """Log what was refused, unless that was told last."""
        if faults != self._told:
            for fault in faults:
                telemetry.error("file.refused", file=self._name, detail=fault)
        self._told = faults


def _log(change: Change) -> None:
    """Log what was done; without differences, which may have secrets of the file."""
    if change.changes_something:
        telemetry.info("file.changed", action=change.action.done, resource=change.id.title)
    for warning in change.warnings:
        telemetry.warning("file.doubtful", resource=change.id.title, detail=warning)
