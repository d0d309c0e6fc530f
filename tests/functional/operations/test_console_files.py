"""The files of the console: open to all, strict about what runs, and safe for hostile texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shared.http import HttpAnswer, HttpRequest
from shared.wiring.function_app import FunctionApp

FOLDER = Path(__file__).parents[3] / "shared" / "console"
MODULES = sorted(FOLDER.glob("*.js"))
#: What turns text into markup or code.
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser"
    r"|\beval\b|new Function|setHTML|srcdoc|javascript:|localStorage|sessionStorage|indexedDB"
    r"|document\.cookie"
)


def get(file: str | None = None, path: str = "", **headers: str) -> HttpAnswer:
    url = f"https://host.example{path or '/console' + (f'/{file}' if file else '')}"
    params = {"file": file} if file else {}
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    request = HttpRequest(method="GET", url=url, headers=given, params=params)
    return FunctionApp().console_files.run(request)


def test_the_policy_allows_only_files_of_the_console() -> None:
    page = get()

    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = dict(
        each.split(" ", 1) for each in page.headers["Content-Security-Policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_what_the_page_names_is_there() -> None:
    page = get().body.decode()
    named = set(re.findall(r'(?:href|src)="console/([^"]+)"', page))
    imported = {
        name for module in MODULES for name in re.findall(r'"\./([^"]+)"', module.read_text())
    }

    assert {"console.js", "console.css", "icon.svg"} <= named
    for name in named | imported:
        found = get(name)
        assert (found.status, found.body) == (200, (FOLDER / name).read_bytes())


@pytest.mark.parametrize("file", [None, "console.js", "nothing.js"])
def test_every_answer_is_kept_from_other_sites(file: str | None) -> None:
    policies = {
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Content-Security-Policy": get().headers["Content-Security-Policy"],
    }
    assert policies.items() <= get(file).headers.items()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_no_module_reads_text_as_markup_or_stores_anything(module: Path) -> None:
    text = module.read_text()

    assert UNSAFE.findall(text) == []
    assert len(text.splitlines()) <= 300


def test_nothing_stands_inline_in_the_page() -> None:
    page = get().body.decode()

    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="console/console.js">']
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|https?://", page)


def test_a_browser_keeps_what_has_not_changed() -> None:
    found = get("console.js")
    again = get("console.js", if_none_match=found.headers["ETag"])

    assert (again.status, again.body) == (304, b"")
    assert found.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(
    "file", ["../settings.py", "nothing.js", "preact-license.txt", "__init__.py", "INDEX.HTML"]
)
def test_there_are_no_other_files(file: str) -> None:
    assert get(file).status == 404


def test_a_slash_at_the_end_is_taken_away() -> None:
    moved = get(path="/console/")

    assert (moved.status, moved.headers["Location"]) == (308, "../console")
