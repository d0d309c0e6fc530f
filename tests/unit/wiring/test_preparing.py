"""Every request and every run of a timer begins the preparation of storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from shared import wiring
from shared.http import HttpRequest
from shared.wiring import preparing

_REQUEST = cast("HttpRequest", None)  # not looked at before


class _Begun(Exception):
    pass


@pytest.mark.parametrize(
    "enter",
    [
        lambda: asyncio.run(cast("Any", wiring.publish(_REQUEST))),
        lambda: wiring.manage(_REQUEST),
        lambda: wiring.web(_REQUEST),
        wiring.wake,
        wiring.deadletter_timer,
    ],
    ids=["publish", "manage", "web", "wake", "deadletter_timer"],
)
def test_what_comes_first_begins_the_preparation(
    enter: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin() -> None:
        raise _Begun

    monkeypatch.setattr(preparing, "begin_preparation", begin)

    with pytest.raises(_Begun):
        enter()
