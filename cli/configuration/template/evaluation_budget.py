"""Bounds the work that the expressions of a template can cause."""

from __future__ import annotations

from typing import Any

from cli.configuration.document_limits import BeyondLimits, names_size, size_of
from cli.configuration.template.expressions import ExpressionFault

MAX_STEPS = 500_000  # seconds; 800 event subscriptions need a quarter of it
MAX_TOTAL = 64 * 1024 * 1024  # characters of all values
MAX_LEVELS = 150  # of values and calls in each other


class EvaluationBudget:
    """
    What is left for one template.

    ``with budget:`` is a step, one level deeper. All methods raise an ExpressionFault when nothing
    is left.
    """

    def __init__(self) -> None:
        self._steps = self._characters = self._depth = 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more can be evaluated."""
        return self._steps > MAX_STEPS or self._characters > MAX_TOTAL

    def __enter__(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ExpressionFault(f"evaluating the template takes more than {MAX_STEPS:,} steps")
        if self._depth == MAX_LEVELS:
            raise ExpressionFault(
                f"this is deeper than {MAX_LEVELS} levels: each value in another, each call and "
                "each member of a value is one"
            )
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

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
