"""Bounds the work that the evaluation of one template may take."""

from __future__ import annotations

from typing import Any

from cli.configuration.source import BeyondLimits, names_size, size_of
from cli.configuration.template.expressions import ExpressionFault

MAX_STEPS = 500_000  # a few seconds; 800 event subscriptions need a quarter of them
MAX_TOTAL = 64 * 1024 * 1024  # characters of all values


class EvaluationBudget:
    """What is left for one template; its methods raise an ExpressionFault when nothing is."""

    def __init__(self) -> None:
        self._steps = self._characters = 0

    def renew(self) -> None:
        """Begin anew."""
        self._steps = self._characters = 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more can be evaluated."""
        return self._steps > MAX_STEPS or self._characters > MAX_TOTAL

    def step(self) -> None:
        """Count the evaluation of one value or expression."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ExpressionFault(f"evaluating the template takes more than {MAX_STEPS:,} steps")

    def hold(self, value: Any) -> Any:
        """Return a value after counting its size."""
        try:
            self.take(size_of(value))
        except BeyondLimits as beyond:
            raise ExpressionFault(str(beyond)) from None
        return value

    def search(self, names: Any) -> None:
        """Count that all *names* are looked at."""
        self.take(names_size(names))

    def take(self, characters: int) -> None:
        """Count *characters*."""
        self._characters += characters
        if self._characters > MAX_TOTAL:
            raise ExpressionFault(
                f"the values of the template have more than {MAX_TOTAL:,} characters in total"
            )
