"""Prints what commands find: tables for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from rich import console
from rich.box import SIMPLE_HEAD
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cli.terminal import printable, printable_lines

_WIDE = 1000  # characters
_GAP = 3  # characters between columns
_FOLDED = 1.5  # how much too wide a table may be: its cells are folded


class Console(console.Console):
    """A terminal that styles and moves, but that no printed text controls."""

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render *renderable*; what its text has that no terminal shows is replaced."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable_lines(text), style, control)


def print_table(rows: Sequence[Mapping[str, object]], nothing: str) -> None:
    """
    Print rows with the names of their members as the head; *nothing* if there are none.

    On a terminal that is far too narrow each member has a line of its own.
    """
    terminal = Console(highlight=False)
    if not rows or not sys.stdout.isatty() or _width(rows) < _FOLDED * terminal.width:
        print_parts(as_table(rows, nothing))
        return
    name_width = max(map(len, rows[0]))
    for row in rows:
        lines = (f"{name:<{name_width}}  {_cell(value)}" for name, value in row.items())
        terminal.print(Text("\n".join(lines)), "", sep="\n", soft_wrap=True)


def _width(rows: Sequence[Mapping[str, object]]) -> int:
    return sum(max(len(name), *(len(_cell(row[name])) for row in rows)) + _GAP for name in rows[0])


def as_table(
    rows: Sequence[Mapping[str, object]], nothing: str, cut: Collection[str] = ()
) -> Table | Text:
    """
    Return rows with the names of their members as the head; *nothing* if there are none.

    If there are columns to *cut*, each row takes one line: those give way on a narrow terminal.
    """
    if not rows:
        return Text(nothing)
    padding = (0, 1, 0, 0) if cut else (0, 1)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=padding)
    for name in rows[0]:
        table.add_column(name, overflow="fold", no_wrap=bool(cut) and name not in cut)
    for row in rows:
        table.add_row(*(_as_text(value, is_cut=name in cut) for name, value in row.items()))
    return table


def _as_text(value: object, *, is_cut: bool) -> Text:
    text = _cell(value)
    return Text(text, no_wrap=True, overflow="ellipsis") if is_cut else Text(text)


def print_parts(*parts: Table | Text) -> None:
    """Print tables and texts one below the other."""
    # Columns are cut to fit a terminal only.
    Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE).print(*parts, sep="\n")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return printable(text)


def moment(at: datetime | str) -> str:
    """Return a time, which may be one of ISO 8601, for people: ``2026-02-09 12:00:00``."""
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{found:%Y-%m-%d %H:%M:%S}"
