"""One measurement of the comparison, on a system that hands its events straight to the sink."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from bench.load import Case, running_sink
from bench.peers import measuring
from bench.peers.measuring import measure
from bench.peers.system import PublishTarget, System, SystemFailedError, running


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits, none of which these tests depend on."""
    for name in ("SECONDS", "_BURST", "_REST", "_PATIENCE"):
        monkeypatch.setattr(measuring, name, 0.1)


def handing_to(path: str, *, of: str = "") -> System:
    """Return a system whose publish address is *path* of the sink, or of the one at *of*."""
    return System(
        name="Direct",
        needs=(),
        versions=dict,
        start=lambda _, sink: nullcontext(PublishTarget(f"{of or sink}{path}")),
    )


@pytest.mark.parametrize("batch", [1, 10])
def test_whole_requests_are_published_and_all_events_found_again(batch: int):
    figures = measure(handing_to("/hook/0"), Case(0, batch, 2, 1))

    assert (figures.lost, figures.repeated) == (0, 0)
    assert figures.deliveries > 0
    assert figures.deliveries % batch == 0


def test_a_paced_case_publishes_at_its_rate_however_fast_the_system_is():
    figures = measure(handing_to("/hook/0"), Case(0, 1, 2, 1, rate=40))

    assert figures.deliveries == 40 * 2 * 0.1


def test_what_never_arrives_is_lost():
    with running_sink() as elsewhere:
        figures = measure(handing_to("/hook/0", of=elsewhere.url), Case(0, 1, 2, 1, rate=40))

    assert (figures.deliveries, figures.lost) == (0, 8)


def test_a_program_that_ends_is_named_with_its_last_line():
    command = ["sh", "-c", "echo starting; echo no memory >&2; exit 3"]

    with pytest.raises(SystemFailedError, match=r"^sh does not start: no memory$"):
        running(command, port=1).__enter__()
