"""Every request and every run of a timer begins the preparation of storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from shared.http import HttpRequest
from shared.wiring import web_routes
from shared.wiring.function_app import APP

_REQUEST = cast("HttpRequest", None)  # not looked at before


class _Begun(Exception):
    pass


@pytest.mark.parametrize(
    "enter",
    [
        lambda: asyncio.run(cast("Any", APP.publish(_REQUEST))),
        lambda: APP.manage(_REQUEST),
        lambda: web_routes.answer(APP, _REQUEST),
        APP.wake,
        APP.write_dead_letters,
    ],
    ids=["publish", "manage", "web", "wake", "deadletter_timer"],
)
def test_what_comes_first_begins_the_preparation(
    enter: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin() -> None:
        raise _Begun

    monkeypatch.setattr(APP, "prepare", begin)

    with pytest.raises(_Begun):
        enter()
