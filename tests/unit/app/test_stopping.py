"""What an app does as its process stops."""

from __future__ import annotations

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import FakeClock, ScriptedPusher
from shared.errors import StorageUnavailable
from shared.telemetry import LogLine, lines_to


def test_a_step_that_fails_costs_no_other() -> None:
    clock, made, lines = FakeClock(), list[str](), list[LogLine]()
    app = InMemoryApp(ScriptedPusher(clock), clock)

    def fail() -> None:
        raise StorageUnavailable

    async def end(what: str) -> None:
        if what == "first":
            fail()
        made.append(what)

    app._at_stop += fail, lambda: made.append("stopped")
    app._at_end += (lambda: end("first")), (lambda: end("second"))
    with lines_to(lines.append):
        app.stop()
        app.loop.run(app.end())

    assert made == ["stopped", "second"]
    assert [line.event for line in lines] == ["stop.failed"] * 2
