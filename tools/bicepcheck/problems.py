"""Problems, and the report that collects them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault."""

    file: str  # relative to the checked folder
    line: int  # from 1
    code: str  # the rule's id
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.code} {self.message}"


@dataclass(slots=True)
class ProblemReport:
    """Problems, each once, and what could not be checked."""

    problems: set[Problem] = field(default_factory=set)
    unchecked: set[str] = field(default_factory=set)

    def add(self, file: str, line: int, code: str, message: str) -> None:
        """Record a problem."""
        self.problems.add(Problem(file, line, code, message))
