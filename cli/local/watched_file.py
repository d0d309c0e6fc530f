"""Keeps a local deployment as its configuration file says: applies it when it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from cli.configuration import Action, Change, carry_out, plan, read_configuration
from cli.configuration.resources import Configuration, ResourceId
from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.local.narration import NarratedLine
from devhost.azurite import ACCOUNT

_NAMES = ("pushgrid.json", "pushgrid.yaml", "pushgrid.yml")
Make = Callable[[str, str], bool]  # a kind of place in the storage, and its name
_AGAIN_SECONDS = 10.0  # an endpoint may not have been started yet
# What changes with a file's contents, also if an editor puts another file in its place: the time
# of its change, its size, its inode.
_Version = tuple[int, int, int]
_AGAIN = f"Retrying every {_AGAIN_SECONDS:g} s, and when the file changes."


class WatchedFile:
    """
    Applies a file, and applies it again when it changes.

    *path* ``None``: a file of one of the usual names in *folder*, as soon as there is one. *tell*
    gets what happens.
    """

    def __init__(
        self,
        path: Path | None,
        folder: Path,
        tell: Callable[[NarratedLine], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._folder = folder
        self._tell = tell
        self._monotonic = monotonic
        self._seen_version: _Version | None = None
        self._read_version: _Version | None = None
        self._wanted: Configuration | None = None
        self._named: AbstractSet[ResourceId] = frozenset()
        self._told: object = None  # what the faults are about that were told last
        self._again_at = 0.0

    @property
    def path(self) -> Path | None:
        """The file, if there is one."""
        if self._path:
            return self._path
        return next((each for name in _NAMES if (each := self._folder / name).is_file()), None)

    @property
    def is_applied(self) -> bool:
        """Whether the deployment is as the file says, or there is no file."""
        return self._wanted is None and self._told is None

    def read(self) -> None:
        """
        Read the file if there is one; it is applied next.

        Raises:
            CommandFailed: it is faulty.
        """
        if path := self.path:
            self._seen_version = self._read_version = _version(path)
            self._wanted = read_configuration(path, offers_options=False)

    def follow(self, api: Deployment, make: Make) -> bool:
        """
        Read the file if it has changed; bring *api* to it; return whether something was changed.

        *make* makes a container or a queue of the local storage unless it is there: the file's
        event subscriptions need them.

        Faults and refusals are told; the deployment stays as it is until they are mended.
        """
        try:
            self._read_changed()
            if self._wanted and self._monotonic() >= self._again_at:
                return self._apply(api, self._wanted, make)
        except CommandFailed as error:
            self._again_at = self._monotonic() + _AGAIN_SECONDS
            self._tell_faults(error.message, error.message.splitlines())
        return False

    def _read_changed(self) -> None:
        path = self.path
        version = _version(path) if path else None
        is_complete = version == self._seen_version  # nobody is writing it
        self._seen_version = version
        if path and version and is_complete and version != self._read_version:
            self._read_version = version
            self._wanted, self._again_at, self._told = None, 0.0, None
            self._wanted = read_configuration(path, offers_options=False)

    def _apply(self, api: Deployment, wanted: Configuration, make: Make) -> bool:
        """Delete no more than what an earlier version of the file has named."""
        ids = {each.id.folded for each in wanted.resources}
        changes = [
            each
            for each in plan(api, wanted, prune=not self._named <= ids)
            if each.action is not Action.DELETE or each.id.folded in self._named
        ]
        self._named |= ids
        done: list[Change] = []
        carry_out(api, changes, lambda change: self._take(change, done, make))
        has_changed = any(each.changes_something for each in done)
        if refused := [each for each in done if each.faults]:
            self._again_at = self._monotonic() + _AGAIN_SECONDS
            faults = [fault for each in refused for fault in each.faults]
            self._tell_faults([each.id for each in refused], [*faults, _AGAIN])
            return has_changed
        self._named, self._wanted, self._told = ids, None, None
        if not has_changed and self.path:
            self._tell(NarratedLine("applied", self.path.name, "nothing to change"))
        return has_changed

    def _take(self, change: Change, done: list[Change], make: Make) -> None:
        done.append(change)
        if change.changes_something:
            what = "; ".join((f"{change.action.done} {change.id.kind}", *change.differences))
            self._tell(NarratedLine("applied", change.id.name, what, entry=change.document))
        stored = change.resource.document if change.resource and not change.faults else None
        places = sorted(set(_local_places(stored)))
        for warning in change.warnings:
            if not any(f"no {kind} '{name}'" in warning for kind, name in places):
                self._tell(NarratedLine("warning", change.id.name, warning))
        for kind, name in places:
            if make(kind, name):
                self._tell(NarratedLine("applied", name, f"created {kind} of the local storage"))

    def _tell_faults(self, about: object, faults: Sequence[str]) -> None:
        """Tell *faults*, unless those told last were about the same."""
        if about != self._told:
            for fault in faults:
                self._tell(NarratedLine("file", "", fault))
        self._told = about


def _local_places(document: Any) -> Iterator[tuple[str, str]]:
    """Yield the containers that dead letters go to, and queues of events, of Azurite's account."""
    if isinstance(document, Mapping):
        account = str(document.get("resourceId")).rpartition("/")[2]
        for member, kind in (("blobContainerName", "container"), ("queueName", "queue")):
            if account == ACCOUNT and member in document:
                yield kind, document[member]
        for each in document.values():
            yield from _local_places(each)


def _version(path: Path) -> _Version | None:
    try:
        stat = path.stat()
    except OSError:  # an editor is replacing it
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
