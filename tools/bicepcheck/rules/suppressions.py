"""Removes the problems that `#disable-next-line` and `#disable-diagnostics` suppress."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.bicepcheck.reading.folder import Folder

_DIRECTIVE = re.compile(r"^\s*#(disable-next-line|disable-diagnostics|restore-diagnostics) (.*)$")

CODES = {
    "no-unused-params": ("unused",),
    "no-unused-vars": ("unused",),
    "no-unused-types": ("unused",),
    "no-unused-imports": ("unused",),
    "no-unused-existing-resources": ("unused",),
    "no-hardcoded-env-urls": ("hard-coded-url",),
    "no-hardcoded-location": ("location",),
    "no-loc-expr-outside-params": ("location",),
    "no-unnecessary-dependson": ("depends-on",),
    "BCP035": ("missing",),
    "BCP036": ("type", "value"),
    "BCP037": ("unknown-property",),
    "BCP073": ("read-only",),
    "BCP081": ("resource-type", "api-version"),
    "BCP088": ("value",),
    "BCP089": ("unknown-property",),
    "BCP187": ("unknown-property",),
    "BCP318": ("may-be-null",),
    "BCP321": ("type",),
}
"""Compiler rules and warnings that a file may suppress, and the codes of this checker for them."""


def apply(folder: Folder) -> None:
    """Remove the suppressed problems from the report."""
    for file in folder.readable:
        suppressed = {(file.name, *one) for one in _suppressed(file.text)}
        folder.report.problems = {
            one
            for one in folder.report.problems
            if (one.file, one.line, one.code) not in suppressed
        }


def _suppressed(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines, and codes that are suppressed there."""
    until_restored: set[str] = set()
    next_line: set[str] = set()
    for line, content in enumerate(text.splitlines(), 1):
        yield from ((line, code) for code in until_restored | next_line)
        next_line = set()
        if found := _DIRECTIVE.match(content):
            codes = {code for rule in found[2].split() for code in CODES.get(rule, ())}
            if found[1] == "disable-next-line":
                next_line = codes
            elif found[1] == "disable-diagnostics":
                until_restored |= codes
            else:
                until_restored -= codes
