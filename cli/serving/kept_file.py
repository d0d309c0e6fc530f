"""Keeps a server's deployment as a file says: applied at start, and again when it is told so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path

from cli.configuration import (
    Action,
    Change,
    carry_out,
    plan,
    read_configuration,
    refuse_to_delete_all,
)
from cli.configuration.resources import SUBSCRIPTIONS, Configuration, ResourceId
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.serving.rehearsal import rehearse
from shared import telemetry
from shared.errors import AppError
from shared.settings import NAMES, Settings
from shared.subscriptions.subscription import SubscriptionKey

_FIRST_SECONDS, _LONGEST_SECONDS = 10.0, 600.0
_ELECTED_SECONDS = 5.0  # between looks whether this process is elected
_SYSTEM_TOPICS = "systemTopics"
_IGNORED = (
    "its {} in the file is ignored: the server makes keys, and endpoints are asked "
    f"({NAMES['local_shortcuts']} is not set)"
)

HasWaiting = Callable[[SubscriptionKey], bool]


class KeptFile:
    """
    Creates and updates what the file at *path* names, and logs what it no longer names.

    With *prune* that is deleted once no events wait. What an endpoint, or the deployment, refuses
    is logged and tried again, after 10 s at first and 10 minutes at most.
    """

    def __init__(self, path: Path, *, prune: bool) -> None:
        self._path = path
        self.name = path.name
        self._prune = prune
        self._settings: Settings | None = None
        self._wanted: Configuration | None = None
        self._is_changed = threading.Event()
        self._told: set[tuple[str, ...]] = set()  # what is logged once for each reading
        self.has_been_applied = threading.Event()  # whatever was refused, or by another process

    def read(self, settings: Settings | None) -> None:
        """
        Read the file for a server with *settings*, if these are known; it is applied next.

        Raises:
            CommandFailed: it is faulty, names nothing with *prune*, or asks for what such a server
                does not take.
        """
        wanted = read_configuration(self._path, offers_options=False)
        if self._prune:
            refuse_to_delete_all(self._path, wanted)
        if settings:
            rehearse(wanted, settings)
        self._settings, self._wanted = settings, wanted

    def reload(self) -> None:
        """Have `follow` read the file again, now."""
        self._is_changed.set()

    def follow(
        self, api: Deployment, has_waiting: HasWaiting, is_elected: Callable[[], bool]
    ) -> None:
        """
        Apply the file to *api*, and again when it is refused or read again; never returns.

        *has_waiting* tells whether events wait for an event subscription, *is_elected* whether it
        is this process, of all on one home, that applies its file. Another waits until it is.
        """
        seconds = _FIRST_SECONDS
        is_done = False
        while True:
            is_ours = is_elected()
            if is_ours and not is_done:
                is_done = self._wanted is None or self._apply(api, self._wanted, has_waiting)
            elif not is_ours and not is_done:
                self._tell_left_to_another()
            self.has_been_applied.set()
            if self._is_changed.wait(_pause(seconds, is_ours=is_ours, is_done=is_done)):
                self._is_changed.clear()
                if self._read_again():
                    is_done = False
                seconds = _FIRST_SECONDS
            elif is_ours:
                seconds = min(2 * seconds, _LONGEST_SECONDS)

    def _read_again(self) -> bool:
        """Read the file, and return whether that went well; else the last good one goes on."""
        try:
            self.read(self._settings)
        except CommandFailed as error:
            telemetry.error("file.faulty", file=self.name, detail=error.message)
            return False
        self._told.clear()
        return True

    def _apply(self, api: Deployment, wanted: Configuration, has_waiting: HasWaiting) -> bool:
        """Bring *api* to the file; return whether all of it was done."""
        try:
            return self._carry_out(api, self._without_shortcuts(wanted), has_waiting)
        except (CommandFailed, AppError) as error:
            self._tell_refused([error.message])
        except CancelledError:  # the server ends
            pass
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread
            self._tell_refused([f"{type(error).__name__}: {error}"])
        return False

    def _carry_out(self, api: Deployment, wanted: Configuration, has_waiting: HasWaiting) -> bool:
        planned = plan(api, wanted, prune=True)
        unnamed = [each for each in planned if each.action is Action.DELETE]
        kept = self._kept(api, unnamed, has_waiting)
        left = {each.id.title: kept[each.id.folded] for each in unnamed if each.id.folded in kept}
        for title, why in left.items():
            if self._is_news(title, why):
                telemetry.warning("file.unnamed", file=self.name, resource=title, detail=why)
        done: list[Change] = []

        def take(change: Change) -> None:
            done.append(change)
            self._tell_done(change)

        carry_out(api, [each for each in planned if each.id.folded not in kept], take)
        refused = [fault for each in done for fault in each.faults]
        self._tell_refused(refused)
        if not refused:
            changed = sum(each.changes_something for each in done)
            telemetry.info("file.applied", file=self.name, changed=changed)
        return not refused and not (self._prune and left)

    def _without_shortcuts(self, wanted: Configuration) -> Configuration:
        """Return what the server takes: keys and assumed consent are for local use."""
        if self._settings is None or self._settings.local_shortcuts:
            return wanted
        for each in wanted.resources:
            if each.keys:
                self._tell_doubt(each.id.title, _IGNORED.format("member 'keys'"))
            if each.is_consent_assumed:
                self._tell_doubt(each.id.title, _IGNORED.format("member 'consent'"))
        taken = (replace(each, keys={}, is_consent_assumed=False) for each in wanted.resources)
        return replace(wanted, resources=tuple(taken))

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
        for fault in faults:
            telemetry.error("file.refused", file=self.name, detail=fault)

    def _tell_left_to_another(self) -> None:
        why = "the server that has lived longest applies its own file; this one, once it is that"
        if self._is_news(why):
            telemetry.info("file.left_to_another", file=self.name, detail=why)

    def _tell_done(self, change: Change) -> None:
        """Log what was done; without differences, which may have secrets of the file."""
        if change.changes_something:
            telemetry.info("file.changed", action=change.action.done, resource=change.id.title)
        for warning in change.warnings:
            self._tell_doubt(change.id.title, warning)

    def _tell_doubt(self, resource: str, why: str) -> None:
        if self._is_news(resource, why):
            telemetry.warning("file.doubtful", resource=resource, detail=why)

    def _is_news(self, *told: str) -> bool:
        """Note what is logged; return whether it was not since the file was read."""
        is_news = told not in self._told
        self._told.add(told)
        return is_news


def _pause(seconds: float, *, is_ours: bool, is_done: bool) -> float | None:
    if is_done:
        return None
    return seconds if is_ours else _ELECTED_SECONDS
