"""What documents point to is there: files, and headings in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.package_list import ROOT

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("devhost/*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("infra/*.md"),
    *ROOT.glob("tests/conformance/*.md"),
]
_LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
#: Files of ours that are named and not linked, as seen from the root of the project.
_NAMED = re.compile(
    r"`((?:\.github|bench|cli|devhost|docs|infra|shared|testbed|tests|tools)/[\w./-]+\.(?:bicep|json|md|py|yml))`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for file, heading in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not heading or heading in _anchors(target), f"{file}#{heading}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_is_there(page: Path) -> None:
    for file in _NAMED.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / file).is_file(), file


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Return the headings of a page as links name them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings)
