"""Keeps the waiting line of the subscriptions that were turned away."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

LATE = 5.0  # seconds after its time until a name loses its turn


@dataclass(slots=True)
class Turns:
    """
    A line of names, the one that has waited longest first.

    A name in the line is expected back at a given time. Another process may have taken its
    messages meanwhile, so a name that does not come back loses its turn. All times are seconds of
    one monotonic clock. Not thread-safe.
    """

    _back_at: dict[Hashable, float] = field(default_factory=dict)

    def ahead_of(self, name: Hashable, now: float) -> int:
        """Count the names before this one."""
        for each in [each for each, at in self._back_at.items() if at + LATE < now]:
            del self._back_at[each]
        names = list(self._back_at)
        return names.index(name) if name in self._back_at else len(names)

    def has_turned_away(self, name: Hashable) -> bool:
        """Tell whether *name* is in the line."""
        return name in self._back_at

    def is_away(self, name: Hashable, now: float) -> bool:
        """Tell whether *name* is in the line and not due back yet."""
        return self._back_at.get(name, now) > now

    def line_up(self, name: Hashable, back_at: float) -> None:
        """Expect *name* back at that time; a name that is in the line keeps its position."""
        self._back_at[name] = back_at

    def leave(self, name: Hashable) -> None:
        """Remove *name*: it had its turn."""
        self._back_at.pop(name, None)
