"""Rows T1-T6: timer functions."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.host.app import App
from tests.host.running import IS_DEVHOST, Host, running, until
from tests.host.storage import Storage

#: Another host takes a lease over when it has run out: 15 s is the least that it may be.
_LEASE = {
    "AzureFunctionsJobHost__singleton__listenerLockPeriod": "00:00:15",
    "AzureFunctionsJobHost__singleton__listenerLockRecoveryPollingInterval": (
        "00:00:02" if IS_DEVHOST else "00:00:15"
    ),
}
_TAKE_OVER_SECONDS = 60.0
_EVERY_MINUTE = "0 * * * * *"


@pytest.fixture(scope="module")
def often(
    new_app: Callable[[], App], settings: dict[str, str], storage: Storage
) -> Iterator[tuple[Host, str]]:
    """A host with timers of seconds, and its id."""
    host_id = storage.new_name("often")
    app = new_app()
    app.timer("T01", "*/2 * * * * *")
    app.timer("T05", "* * * * * *")
    given = {"AzureFunctionsWebHost__hostid": host_id, "PROBE_SLEEP_T05": "1.3"}
    with running(app, settings | _LEASE | given) as started:
        yield started, host_id


def test_t01_a_schedule_of_six_fields_starts_with_seconds(often, storage):
    """
    T1: on even seconds; what fires more than once a minute keeps no status.

    Source: azure-webjobs-sdk-extensions Timers/Scheduling/CronSchedule.cs and
    Config/TimerTriggerAttributeBindingProvider.cs (useMonitor is forced to false).
    """
    host, host_id = often

    calls = host.wait_calls("T01", 3)

    for call in calls[:3]:
        assert int(call["at"]) % 2 == 0
        assert call["schedule_status"] == {}
        assert call["past_due"] is False
    seconds = [int(call["at"]) for call in calls[:3]]
    assert [after - before for before, after in itertools.pairwise(seconds)] == [2, 2]
    assert storage.timer_status(host_id, "T01") is None


def test_t05_a_timer_never_overlaps_itself(often):
    """
    T5: a run longer than the period; the next one is at the next due time after its end.

    Source: azure-webjobs-sdk-extensions Timers/Listener/TimerListener.cs (2024-10).
    """
    host, _ = often

    ends = host.wait_calls("T05", 3, moment="end")[:3]
    starts = host.wait_calls("T05", 4)[:4]

    for end, start in zip(ends, starts[1:], strict=True):
        # The due time is a whole second after the end, and not one of those that were missed.
        assert end["at"] <= start["at"] < end["at"] + 2
        assert int(start["at"]) > int(end["at"])


@dataclass(frozen=True)
class TwoRuns:
    """What happened in two runs of a host, with a kill and two minutes between them."""

    first: Mapping[str, list[dict[str, Any]]]
    second: Mapping[str, list[dict[str, Any]]]
    statuses: Mapping[str, dict[str, str] | None]


@pytest.fixture(scope="module")
def two_runs(new_app: Callable[[], App], settings: dict[str, str], storage: Storage) -> TwoRuns:
    """
    Start, kill, go two minutes on, start again.

    The two minutes pass by setting back what is stored of the timers, which is all that a host
    knows of the last one: no host is waited for.
    """
    host_id = storage.new_name("twice")
    app = new_app()
    app.timer("T02", _EVERY_MINUTE)
    app.timer("T03", "0 0 0 1 1 *", runOnStartup=True)
    app.timer("T04", _EVERY_MINUTE)
    given = settings | _LEASE | {"AzureFunctionsWebHost__hostid": host_id}
    names = ("T02", "T03", "T04")
    with running(app, given) as host:
        host.wait_calls("T03")
        until(lambda: all(storage.timer_status(host_id, name) for name in names))
        host.kill()
        first = {name: host.calls(name) for name in names}
    for name in names:
        if name != "T03":
            storage.age_timer(host_id, name, timedelta(minutes=2))
    app.records.unlink()
    app.timer("T04", "0 0 0 1 1 *")
    written = storage.timer_status(host_id, "T04")
    with running(app, given) as host:
        for name in ("T02", "T03"):
            host.wait_calls(name, moment="end", seconds=_TAKE_OVER_SECONDS)
        until(lambda: storage.timer_status(host_id, "T04") != written)
        host.signal(signal.SIGINT)
        host.end()
        second = {name: host.calls(name) for name in names}
    return TwoRuns(first, second, {name: storage.timer_status(host_id, name) for name in names})


def test_t02_what_was_missed_is_made_up_for_once(two_runs):
    """
    T2: killed and started again two minutes later, there is one past-due run.

    Source: azure-webjobs-sdk-extensions Timers/Scheduling/ScheduleMonitor.cs, CheckPastDueAsync.
    """
    late = [call for call in two_runs.second["T02"] if call["past_due"]]

    assert len(late) == 1
    assert two_runs.second["T02"][0] == late[0]
    assert set(late[0]["schedule_status"]) == {"Last", "Next", "LastUpdated"}
    assert not any(call["past_due"] for call in two_runs.first["T02"])


def test_t03_run_on_startup_is_not_past_due(two_runs):
    """
    T3: at once, at every start.

    Source: azure-webjobs-sdk-extensions Timers/Listener/TimerListener.cs, StartAsync.
    """
    for run in (two_runs.first, two_runs.second):
        assert [call["past_due"] for call in run["T03"]] == [False]


def test_t04_a_changed_schedule_starts_afresh(two_runs):
    """
    T4: what was due on the old schedule is forgotten.

    Source: azure-webjobs-sdk-extensions Timers/Scheduling/ScheduleMonitor.cs, CheckPastDueAsync.
    """
    assert two_runs.second["T04"] == []
    following = datetime.fromisoformat(two_runs.statuses["T04"]["Next"])
    assert (following.month, following.day, following.hour) == (1, 1, 0)


def test_t06_of_two_hosts_one_fires(
    new_app: Callable[[], App], settings: dict[str, str], storage: Storage
) -> None:
    """
    T6: two hosts with one host id; when the one is killed the other takes over.

    Source: azure-webjobs-sdk Microsoft.Azure.WebJobs.Host/Singleton (a blob lease, 2024-10).
    """
    app = new_app()
    app.timer("T06", "* * * * * *")
    given = settings | _LEASE | {"AzureFunctionsWebHost__hostid": storage.new_name("pair")}
    with ExitStack() as stack:
        hosts = {
            name: stack.enter_context(running(app, given | {"PROBE_HOST": name}))
            for name in ("one", "other")
        }
        watch = hosts["one"]

        calls = watch.wait_calls("T06", 5)

        (firing,) = {call["host"] for call in calls}
        seconds = [int(call["at"]) for call in calls]
        assert len(set(seconds)) == len(seconds)
        hosts[firing].kill()
        before = len(watch.calls("T06"))
        following = watch.wait_calls("T06", before + 2, seconds=_TAKE_OVER_SECONDS)[before:]
        assert {call["host"] for call in following} == {"one", "other"} - {firing}
