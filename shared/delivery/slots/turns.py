"""Whose turn it is among the subscriptions that were turned away."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

LATE = 5.0  # seconds that one may come back later than it was told


@dataclass(slots=True)
class Turns:
    """
    A line of names, the one that has waited longest first.

    Who stands in it is away, and comes back when told; somebody else may have taken its messages
    meanwhile. So its turn is kept only as long as it may still come. All times are seconds of one
    monotonic clock. Not safe to use from several threads.
    """

    _back_at: dict[Hashable, float] = field(default_factory=dict)

    def ahead_of(self, name: Hashable, now: float) -> int:
        """Return how many others come first."""
        for each in [each for each, at in self._back_at.items() if at + LATE < now]:
            del self._back_at[each]
        names = list(self._back_at)
        return names.index(name) if name in self._back_at else len(names)

    def has_turned_away(self, name: Hashable) -> bool:
        """Tell whether *name* stands in the line."""
        return name in self._back_at

    def is_away(self, name: Hashable, now: float) -> bool:
        """Tell whether *name* stands in the line and is not due back yet."""
        return self._back_at.get(name, now) > now

    def stand(self, name: Hashable, back_at: float) -> None:
        """Let *name* come back at that time; who stands in the line keeps its place there."""
        self._back_at[name] = back_at

    def leave(self, name: Hashable) -> None:
        """Take *name* out of the line: it had its turn."""
        self._back_at.pop(name, None)
