"""Which requests are checked on the event loop, and which on threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from shared.engine.publishing.publish import QUICK_BODY, QUICK_MATCH
from shared.http import HttpRequest
from shared.subscriptions.advanced_filter import AdvancedFilter, FilterOperator
from shared.subscriptions.filters import EventFilter
from tests.functional.deployment import Deployment
from tests.functional.publish_requests import event, publish_request

T = TypeVar("T")


def of_size(size: int) -> HttpRequest:
    spare = size - len(publish_request(event(data="")).body)
    request = publish_request(event(data="x" * spare))
    assert len(request.body) == size
    return request


def published(app: Deployment, request: HttpRequest) -> tuple[int, int]:
    """Publish; return the status, and how many calls were made on threads."""
    hopped = []

    async def off_loop(call: Callable[[], T]) -> T:
        hopped.append(call)
        return call()

    publish = replace(app.publish, off_loop=off_loop)
    return app.loop.run(publish.run(request)).status, len(hopped)


@pytest.mark.parametrize(
    ("request_", "status", "hops"),
    [
        pytest.param(publish_request(event()), 200, 0, id="small and cached"),
        pytest.param(of_size(QUICK_BODY), 200, 0, id="as large as may be"),
        pytest.param(of_size(QUICK_BODY + 1), 200, 1, id="larger"),
        pytest.param(publish_request(event(), authorization="Bearer x"), 200, 1, id="with a token"),
        pytest.param(publish_request(event(), topic="other"), 401, 1, id="not cached"),
        pytest.param(publish_request(event(), aeg_sas_key="no"), 401, 0, id="a wrong key"),
    ],
)
def test_what_is_small_and_cached_is_answered_without_a_thread(
    app: Deployment, request_: HttpRequest, status: int, hops: int
) -> None:
    app.subscribe()

    assert published(app, request_) == (status, hops)


@pytest.mark.parametrize(
    ("subscriptions", "values", "hops"), [(16, 0, 0), (17, 0, 1), (1, 14, 0), (1, 15, 1)]
)
def test_what_takes_many_comparisons_takes_a_thread(
    app: Deployment, subscriptions: int, values: int, hops: int
) -> None:
    """Each subscription is one, and so are each of its filters and each of their values."""
    texts = tuple(map(str, range(values)))
    test = AdvancedFilter(operator=FilterOperator.STRING_CONTAINS, key=("data", "x"), values=texts)
    wanted = EventFilter(advanced=(test,) if values else ())
    for number in range(subscriptions):
        app.subscribe(name=f"crm-{number}", filter=wanted)

    assert published(app, of_size(QUICK_MATCH // 16)) == (200, hops)
