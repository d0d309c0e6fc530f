"""An endpoint that says when it wants to be asked again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.engine.ports import Queue
from tests.builders import URL, a_message
from tests.fakes import START, answered
from tests.functional.deployment import SECOND, Deployment, Logged


@pytest.mark.parametrize(
    ("honored", "waits"), [(True, 45), (False, 30)], ids=["honored", "the default"]
)
def test_a_busy_endpoint_is_left_alone_for_as_long_as_it_asks(
    app: Deployment, logged: Logged, *, honored: bool, waits: int
) -> None:
    app.subscribe()
    app.deliver = replace(app.deliver, terms=replace(app.deliver.terms, honor_retry_after=honored))
    app.pusher.script(URL, answered(503, headers={"retry-after": "45"}))

    app.run(a_message())

    (message,) = app.on(Queue.RETRIES)
    assert message.due == START + waits * SECOND
    (line,) = logged("delivery.attempted")
    expected = "Retry-After of the endpoint: 45 s" if honored else "minimum for 503: 30 s"
    assert line["why"] == expected
