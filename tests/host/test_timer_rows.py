"""Rows T1-T6: timer functions."""

from __future__ import annotations

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

#: Another host takes a lease when it has expired; 15 s is the shortest.
_LEASE = {
    "AzureFunctionsJobHost__singleton__listenerLockPeriod": "00:00:15",
    "AzureFunctionsJobHost__singleton__listenerLockRecoveryPollingInterval": (
        "00:00:02" if IS_DEVHOST else "00:00:15"
    ),
}
_EVERY_MINUTE = "0 * * * * *"


@pytest.fixture(scope="module")
def often(
    new_app: Callable[[], App], settings: dict[str, str], storage: Storage
) -> Iterator[tuple[Host, str]]:
    """A host with timers that fire every second or two, and its id."""
    host_id = storage.new_name("often")
    app = new_app()
    app.timer("T01", "*/2 * * * * *")
    app.timer("T05", "* * * * * *")
    given = {"AzureFunctionsWebHost__hostid": host_id, "PROBE_SLEEP_T05": "1.1"}
    with running(app, settings | _LEASE | given) as started:
        yield started, host_id


def test_t01_a_schedule_of_six_fields_starts_with_seconds(often, storage):
    """
    T1: on even seconds; what fires more than once a minute keeps no status.

    Source: azure-webjobs-sdk-extensions Timers/Scheduling/CronSchedule.cs and
    Config/TimerTriggerAttributeBindingProvider.cs (useMonitor is forced to false).
    """
    host, host_id = often

    # A busy machine may delay a call into the next second, but not every call.
    until(lambda: sum(call["at"] % 2 < 1 for call in host.calls("T01")) >= 3)

    calls = host.calls("T01")
    assert all(call["schedule_status"] == {} and not call["past_due"] for call in calls)
    slots = [call["at"] // 2 for call in calls]
    assert len(set(slots)) == len(slots)
    assert storage.timer_status(host_id, "T01") is None


def test_t05_a_timer_never_overlaps_itself(often):
    """
    T5: a run longer than the period; the due time that it missed is made up for at once.

    Source: azure-webjobs-sdk-extensions Timers/Listener/TimerListener.cs (2024-10); measured.
    """
    host, _ = often

    def gaps() -> list[tuple[float, float]]:
        ends, starts = host.calls("T05", moment="end"), host.calls("T05")
        return [(end["at"], start["at"]) for end, start in zip(ends, starts[1:], strict=False)]

    # A busy machine may delay a start into the next second, but not every start.
    until(lambda: any(int(end) == int(start) for end, start in gaps()))

    assert all(end <= start for end, start in gaps())


@dataclass(frozen=True)
class TwoRuns:
    """The calls in two runs of a host, with a kill and two minutes between them."""

    first: Mapping[str, list[dict[str, Any]]]
    second: Mapping[str, list[dict[str, Any]]]
    statuses: Mapping[str, dict[str, str] | None]


@pytest.fixture(scope="module")
def two_runs(new_app: Callable[[], App], settings: dict[str, str], storage: Storage) -> TwoRuns:
    """
    Start a host, kill it, let two minutes and its leases pass, and start another one.

    Time passes by changing what is stored: the status of the timers, and their leases.
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
    storage.break_leases(host_id)
    app.records.unlink()
    app.timer("T04", "0 0 0 1 1 *")
    written = storage.timer_status(host_id, "T04")
    with running(app, given) as host:
        for name in ("T02", "T03"):
            host.wait_calls(name, moment="end")
        until(lambda: storage.timer_status(host_id, "T04") != written)
        host.signal(signal.SIGINT)
        host.end()
        second = {name: host.calls(name) for name in names}
    return TwoRuns(first, second, {name: storage.timer_status(host_id, name) for name in names})


def test_t02_missed_runs_are_made_up_for_once(two_runs):
    """
    T2: when a host is started two minutes after a kill, there is one past-due run.

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


def test_t04_a_changed_schedule_forgets_what_was_due(two_runs):
    """
    T4: a run that was due on the old schedule is forgotten.

    Source: azure-webjobs-sdk-extensions Timers/Scheduling/ScheduleMonitor.cs, CheckPastDueAsync.
    """
    assert two_runs.second["T04"] == []
    following = datetime.fromisoformat(two_runs.statuses["T04"]["Next"])
    assert (following.month, following.day, following.hour) == (1, 1, 0)


def test_t06_of_two_hosts_one_fires(
    new_app: Callable[[], App], settings: dict[str, str], storage: Storage
) -> None:
    """
    T6: of two hosts with one host id one fires; when it is killed the other takes over.

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

        calls = watch.wait_calls("T06", 3)

        (firing,) = {call["host"] for call in calls}
        seconds = [int(call["at"]) for call in calls]
        assert len(set(seconds)) == len(seconds)
        hosts[firing].kill()
        before = len(watch.calls("T06"))
        following = watch.wait_calls("T06", before + 1)[before:]
        assert {call["host"] for call in following} == {"one", "other"} - {firing}
