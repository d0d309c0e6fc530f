"""Loading the way the worker does, and what is said about a function that cannot be loaded."""

import sys
from pathlib import Path

import azure.functions as func
import pytest

from devhost.functions import loader
from devhost.functions.metadata import FunctionMetadata, QueueTrigger


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load function `one` from this source."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def go(source, *, script="__init__.py", entry_point="main", **files):
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / script).write_text(source)
        for name, text in files.items():
            target = tmp_path / name.replace("__", "/")
            target.parent.mkdir(exist_ok=True)
            target.with_suffix(".py").write_text(text)
        loader.prepare(tmp_path)
        return loader.load(
            FunctionMetadata(
                name="one",
                script=tmp_path / "one" / script,
                entry_point=entry_point,
                trigger=QueueTrigger(name="m", queue="q", connection="S", binary=False),
                returns_http=False,
                disabled=False,
            )
        )

    yield go
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_module_is_named_after_its_folder(load):
    function = load("def main(m): return __name__")

    assert function.fault is None
    assert function.call(m=1) == "__app__.one"


def test_shared_code_and_relative_imports_work(load):
    function = load(
        "from devhost_probe.x import X\nfrom . import near\ndef main(m): return X + near.N",
        devhost_probe__x="X = 1",
        one__near="N = 2",
    )

    assert function.fault is None
    assert function.call(m=1) == 3


def test_another_script_and_entry_point(load):
    function = load("async def go(m): ...", script="run.py", entry_point="go")

    assert function.fault is None
    assert function.is_async


def test_the_apps_folder_comes_last(load, tmp_path):
    load("def main(m): ...")

    assert sys.path[-1] == str(tmp_path)
    assert str(Path(loader.__file__).parents[2]) not in sys.path


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nothing_here", "ModuleNotFoundError: No module named"),
        ("def main(m:", "SyntaxError: "),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import asyncio; raise asyncio.CancelledError('x')", "CancelledError: x"),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("class E(Exception):\n def __str__(self): raise self\nraise E", "E: it has no text"),
        ("", "__init__.py has no function main"),
        ("main = 5", "__init__.py has no function main"),
        ("def main(): ...", "declared in function.json but not in Python: {'m'}"),
        ("def main(m, n): ...", "declared in Python but not in function.json: {'n'}"),
        ("def main(m: int): ...", 'does not match its Python annotation "int"'),
        ("def main(m: 'Nothing'): ...", "NameError: name 'Nothing'"),
        ("def main(m, context: int): ...", "to be of type azure.functions.Context"),
    ],
)  # fmt: skip
def test_faults(load, source, words):
    function = load(source)

    assert words in function.fault
    with pytest.raises(RuntimeError):
        function.call(m=1)


@pytest.mark.parametrize(
    "signature",
    [
        "m",
        "m: func.QueueMessage",
        "m: str",
        "m: 'func.QueueMessage', context",
        "m, context: func.Context",
    ],
)
def test_good_signatures(load, signature):
    function = load(f"import azure.functions as func\ndef main({signature}) -> None: ...")

    assert function.fault is None
    assert function.wants_context is ("context" in signature)
    assert issubclass(func.QueueMessage, object)
