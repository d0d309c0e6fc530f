"""Exchanges cases and results with the test as JSON lines."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any


def serve(run: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each line of stdin with a line on stdout; whatever else is printed goes to stderr."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        # What the app raised went through the worker, and would have ended it.
        except BaseException as fault:  # noqa: BLE001
            answer = {
                "load": None,
                "recorded": take_recorded(),
                "ends": f"{type(fault).__name__}: {fault}",
            }
        out.write(json.dumps(answer) + "\n")
        out.flush()


def make_recorder_importable(root: str) -> None:
    """Let functions import `recorder`, which is in the app's root."""
    if root not in sys.path:
        sys.path.append(root)


def take_recorded() -> list[Any]:
    """Return what the functions have recorded since the last call."""
    recorder = sys.modules.get("recorder")
    recorded = list(recorder.RECORDED) if recorder else []
    if recorder:
        recorder.RECORDED.clear()
    return recorded


def b64(data: bytes) -> str:
    """Return *data* in base64."""
    return base64.b64encode(data).decode()


def cookie(name: str, value: str, **attributes: Any) -> dict[str, Any]:
    """Return a cookie with those attributes that are set."""
    return {"name": name, "value": value} | {key: each for key, each in attributes.items() if each}
