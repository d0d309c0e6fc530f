"""The one way of requests to a store in memory, and what makes them fail there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import partial, wraps
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, Self, TypeVar

from pushgrid.testing.memory.clock import SeededChance
from shared.engine.ports import Chance
from shared.errors import StorageUnavailable

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound="MemoryPort")


class StoreRequest(NamedTuple):
    """A request to a store, as one to Azure Storage."""

    process: str  # that asks
    port: str  # such as ``queues``
    method: str
    arguments: tuple[object, ...]


class Seam(Protocol):
    """
    What stands between all ports of a store and what is stored, for callers on threads.

    It may wait, raise before *effect* or after it, and call it later or more than once. Requests
    of one loop take turns: what one waits, those wait, too, that were asked for before it ends.
    """

    def __call__(self, request: StoreRequest, effect: Callable[[], T], /) -> T:
        """Return what *effect* returns: it does, at the time of its call, what is asked for."""


def at_once(_: StoreRequest, effect: Callable[[], T], /) -> T:
    """Do as `Seam`, and nothing else."""
    return effect()


class MemoryPort:
    """
    A port in memory, as one *process* sees it; each of its requests passes *seam*. A call is one
    request, also where Azure Storage takes several: writing attempts or counts, rolling up, lists.

    Around that it fails when told to: before its effect (the usual case) or after it (an answer was
    lost).
    """

    port = ""

    def __init__(self, seam: Seam = at_once, chance: Chance | None = None) -> None:
        self._seam = seam
        self._chance = chance or SeededChance()
        self._effects = threading.RLock()  # which are atomic
        self.process = ""
        self.faults: Counter[tuple[str, bool]] = Counter()  # by method, and whether after it
        self.answered: Callable[[], object] = _nothing  # called after each request

    def of(self, process: str) -> Self:
        """Return the same port as *process* sees it: with its own faults and answers."""
        view = copy(self)
        view.process, view.faults, view.answered = process, Counter(), _nothing
        return view

    def fail_next(self, method: str, times: int = 1, *, after: bool = False) -> None:
        """Raise ``StorageUnavailable`` from the next *times* calls of *method*."""
        getattr(self, method)  # a test that names it wrongly should not pass
        self.faults[method, after] += times

    def ask(self, request: StoreRequest, effect: Callable[[], T]) -> T:
        """Return what *effect* returns, for a method that stands for a request to storage."""
        result = self._fail(request, partial(self._seam, request, partial(self._take, effect)))
        self.answered()
        return result

    def _fail(self, request: StoreRequest, effect: Callable[[], T], /) -> T:
        """Do as `Seam`, as `fail_next` says."""
        self._count_down(request.method, after=False)
        result = effect()
        self._count_down(request.method, after=True)
        return result

    def _count_down(self, method: str, *, after: bool) -> None:
        if self.faults[method, after] > 0:
            self.faults[method, after] -= 1
            raise StorageUnavailable

    def _take(self, effect: Callable[[], T]) -> T:
        with self._effects:
            return effect()


def _nothing() -> None:
    pass


def request(method: Callable[Concatenate[F, P], T]) -> Callable[Concatenate[F, P], T]:
    """Make a method of a port one request to the store: what it does is its effect."""

    @wraps(method)
    def asked(self: F, /, *args: P.args, **kwargs: P.kwargs) -> T:
        asked_for = StoreRequest(
            self.process, self.port, method.__name__, (*args, *kwargs.values())
        )
        return self.ask(asked_for, partial(method, self, *args, **kwargs))

    return asked
