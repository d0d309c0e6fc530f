"""What a file asks not to be told: `#disable-next-line` and `#disable-diagnostics`, with rules."""

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
"""Rules and warnings of the compiler that a file may silence, and our codes for them."""


def check(folder: Folder) -> None:
    """Take back the problems that a file does not want to hear of."""
    for file in folder.readable:
        silenced = set(_silenced(file.path.read_text(encoding="utf-8")))
        folder.report.problems -= {
            one
            for one in folder.report.problems
            if one.file == file.name and (one.line, one.code) in silenced
        }


def _silenced(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines, and codes that are silenced there."""
    standing: set[str] = set()
    following: set[str] = set()
    for line, content in enumerate(text.splitlines(), 1):
        yield from ((line, code) for code in standing | following)
        following = set()
        if found := _DIRECTIVE.match(content):
            codes = {code for rule in found[2].split() for code in CODES.get(rule, ())}
            if found[1] == "disable-next-line":
                following = codes
            elif found[1] == "disable-diagnostics":
                standing |= codes
            else:
                standing -= codes
