"""Cases of loading: how functions are found, imported and checked, and what ends the worker."""

from __future__ import annotations

from tests.worker.cases import HTTP, IMPORTS, RETURN, TIMER, Case, http, queue, request, tick

_ODD = "import asyncio\nclass Odd(BaseException): pass\n"
_RAISED = {
    "exit": "SystemExit(3)",
    "cancelled": "asyncio.CancelledError('x')",
    "base": "Odd('x')",
}

#: A BaseException that is no Exception passes through the library and ends the worker.
ENDS: dict[str, Case] = {
    name: case
    for kind, raised in _RAISED.items()
    for name, case in {
        f"ends_{kind}": http(f"{_ODD}def main(req): raise {raised}"),
        f"ends_{kind}_async": http(f"{_ODD}async def main(req): raise {raised}"),
        f"ends_{kind}_import": http(f"{_ODD}raise {raised}"),
    }.items()
}

LOADING: dict[str, Case] = {
    "names": http(
        "def main(req):\n"
        "    record(__name__, __package__, __file__.rsplit('/', 2)[1:])\n    return ''"
    ),
    "relative": http(
        "from . import beside\nfrom .beside import WORD\n"
        "def main(req):\n    record(WORD, beside.__name__)\n    return ''",
        files={"beside.py": "WORD = 'found'\n"},
    ),
    "relative_up": http(
        "from ..recorder import record as other\nfrom recorder import record\n"
        "def main(req):\n    record(other is record, other.__module__)\n    return ''"
    ),
    "script_file": Case(
        source="",
        bindings=(HTTP, RETURN),
        data=request(),
        document={"scriptFile": "other.py"},
        files={"other.py": IMPORTS + "def main(req):\n    record(__name__)\n    return ''"},
    ),
    "script_not_python": Case(
        source="",
        bindings=(HTTP, RETURN),
        document={"scriptFile": "other.txt"},
        files={"other.txt": "x"},
    ),
    "entry_point": http("def go(req): return 'went'", document={"entryPoint": "go"}),
    "entry_point_missing": http("def main(req): return ''", document={"entryPoint": "go"}),
    "entry_point_no_function": http("main = 7"),
    "entry_point_object": http(
        "class Main:\n    def __call__(self, req): return 'object'\nmain = Main()"
    ),
    "import_missing": http("import nothing_here\ndef main(req): return ''"),
    "import_syntax": http("def main(req) return ''"),
    "import_fails": http("raise ValueError('at import')"),
    "parameter_other_name": http("def main(request): return ''"),
    "parameter_extra": http("def main(req, more): return ''"),
    "parameter_keywords": http("def main(**req): return ''"),
    "annotation_int": http("def main(req: int): return ''"),
    "annotation_other": http("def main(req: func.QueueMessage): return ''"),
    "annotation_text": http("def main(req: 'func.HttpRequest') -> 'func.HttpResponse': return ''"),
    "annotation_unknown": http("def main(req: 'Nothing'): return ''"),
    "annotation_no_type": http("def main(req: 7): return ''"),
    "annotation_optional": http("def main(req: func.HttpRequest | None): return ''"),
    "annotation_return_str": http("def main(req) -> str: return 'x'"),
    "annotation_return_int": http("def main(req) -> int: return 7"),
    "annotation_return_odd": http("def main(req) -> 7: return ''"),
    "annotation_queue_int": queue("def main(message: int): pass"),
    "annotation_timer_queue": queue(
        "def main(tick: func.QueueMessage): pass", bindings=(TIMER,), data=tick(past_due=False)
    ),
    "inout": http("def main(req): return ''", bindings=(HTTP | {"direction": "inout"}, RETURN)),
    "return_in": http("def main(req): return ''", bindings=(HTTP, RETURN | {"direction": "in"})),
}
