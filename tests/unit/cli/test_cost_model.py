"""The model of `cost`: laws that hold whatever was measured, and sums done by hand."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.steps import runs, steps
from cli.costs.data import Price, measured, meter_of, prices, scenarios
from cli.costs.model import (
    ALERTS,
    DELIVER_CPU,
    MONTH,
    PUBLISH_CPU,
    REQUESTS,
    Arrivals,
    FunctionRuns,
    compare,
    idle_hour,
    storage_dollars,
    work_operations,
)
from cli.costs.workload import Workload, work_of
from shared.delivery.messages import packing

ROOT = Path(__file__).parents[3]
STEPS = {
    "delivery message": {"queue put deliveries": 1.0, "queue delete deliveries": 1.0},
    "retry message": {"queue put retries": 1.0},
    "long wait": {"queue put waiting": 1.0},
    "parked request": {"blob write payloads": 1.0},
    "parked message": {"blob read payloads": 1.0},
    "failed run": {"table batch": 1.0},
    "dead letter message": {"queue put deadletters": 1.0},
}


def a_load(**changes: Any) -> Workload:
    return replace(Workload(events=1000, fanout=1, batch=1, size=1024), **changes)


loads = st.builds(
    Workload,
    events=st.integers(1, 10**9),
    fanout=st.integers(1, 500),
    batch=st.integers(1, 100),
    size=st.integers(1, 15_000),
    failure_rate=st.floats(0, 1),
)


@pytest.mark.parametrize(
    ("load", "messages"),
    [
        (a_load(), 1000),
        (a_load(fanout=3), 1000),
        (a_load(fanout=65), 2000),  # 64 deliveries
        (a_load(batch=100), 30),  # 43 events of a KiB fit into 48
        (a_load(batch=10, fanout=10), 200),  # six whole parts fit
        (a_load(batch=100, fanout=10), 230),  # 43, 43 and 14 events: four parts of 14 fit
        (a_load(batch=100, size=100), 20),  # 64 events, whatever their size
        (a_load(batch=10, size=70_000), 100),  # parked: 64 events again
        (a_load(batch=10, size=30_000), 1000),
    ],
    ids=str,
)
def test_as_few_messages_as_the_events_fit_into(load: Workload, messages: int):
    assert work_of(load, 1.0).waves[0].messages == messages


@pytest.mark.parametrize(
    ("load", "commits", "messages"),
    [
        (a_load(events=1600), 100, 100),  # 16 events of a KiB fit into one message
        (a_load(events=1600, fanout=10), 100, 300),  # 160 deliveries, in whole parts of 16
        (a_load(events=1600, size=10_000), 100, 400),  # four events of 10 KB fit
        (a_load(events=1600, batch=100), 2, 48),  # ten requests: 1,024 deliveries at most
        (a_load(events=1600, batch=100, fanout=20), 16, 720),  # too large to share
        (a_load(events=3), 1, 1),
    ],
    ids=str,
)
def test_requests_that_arrive_together_share_messages(
    load: Workload, commits: int, messages: int
) -> None:
    work = work_of(load, 1.0, at_a_time=16)

    assert (work.commits, work.waves[0].messages) == (commits, messages)


@pytest.mark.parametrize(("size", "parked"), [(1024, False), (47_000, False), (49_000, True)])
def test_what_fits_into_no_message_is_parked(size: int, *, parked: bool):
    assert work_of(a_load(size=size), 1.0).parked is parked


def test_every_attempt_that_fails_is_followed_by_another_on_the_schedule():
    """Single events, half of all attempts fail: 11 attempts of profile latest in a day."""
    work = work_of(a_load(failure_rate=0.5), 1.0)
    found, retries = work_operations(work, STEPS), 1000 * (1 - 2**-10)

    assert [each.attempts for each in work.waves] == [1000 / 2**n for n in range(11)]
    assert [each.messages for each in work.waves] == [1000 / 2**n for n in range(11)]
    assert work.dead_letters == work.dead_messages == 1000 / 2**11
    assert work.attempts == pytest.approx(1000 * (2 - 2**-10))
    # 10 s, 30 s, 1, 5 and 10 min wait on retries; half an hour and more elsewhere.
    assert [each.waited_long for each in work.waves] == [False] * 6 + [True] * 5
    assert found == pytest.approx(
        {
            "queue put deliveries": 1000,
            "queue delete deliveries": 1000,
            "queue put retries": retries,
            "queue put waiting": 1000 * (2**-5 - 2**-10),
            "blob write payloads": 0,
            "blob read payloads": 0,
            "table batch": retries + 1000 / 2**11,
            "queue put deadletters": 1000 / 2**11,
            "blob write deadletters": 1000 / 2**11,
        }
    )


@pytest.mark.parametrize(
    ("load", "first", "second", "dead"),
    [
        # Failures of one message share the next.
        (a_load(batch=50, size=100, failure_rate=0.1), 20, 20 * (1 - 0.9**50), 0),
        # Those of several subscriptions do too; their dead letters go to blobs of their own.
        (a_load(fanout=10, failure_rate=1.0), 1000, 1000, 10_000),
    ],
    ids=["of a batch", "of subscriptions"],
)
def test_failures_of_a_message_stay_together(
    load: Workload, first: int, second: float, dead: int
) -> None:
    work = work_of(load, 1.0)

    assert [each.messages for each in work.waves[:2]] == [first, pytest.approx(second)]
    assert work.dead_messages == pytest.approx(dead, abs=1e-3)


def test_a_payload_blob_is_written_once_and_read_for_every_message():
    found = work_operations(work_of(a_load(batch=10, fanout=3, size=70_000), 1.0), STEPS)

    assert found["blob write payloads"] == 100
    assert found["blob read payloads"] == 100  # one message for all three


def test_dead_letters_of_a_subscription_share_the_blob_of_a_run():
    """The timer runs every minute: 43,800 times in a month of 730 hours."""
    found = work_operations(work_of(a_load(events=10**6, fanout=2, failure_rate=1.0), 1.0), STEPS)

    assert found["queue put deadletters"] == 2 * 10**6
    assert found["blob write deadletters"] == 2 * 43_800


def test_a_publish_run_takes_longer_for_each_further_event_and_message():
    times = measured().runs
    one, many = (compare(a_load(batch=batch)).run_seconds["publish"] for batch in (1, 100))

    assert one == times["publish"]
    assert many == pytest.approx(
        times["publish"] + 99 * times["publish event"] + 2 * times["publish message"]
    )


@pytest.mark.parametrize(
    ("size", "fanout", "failure_rate", "operations"),
    [
        (1024, 1, 0.0, 2000),
        (1024, 5, 0.0, 6000),
        (65_536, 1, 0.0, 2000),
        (65_537, 1, 0.0, 4000),
        (130_000, 1, 0.0, 4000),
        (1024, 1, 0.5, 1000 + 1000 * (2 - 2**-10)),
    ],
)
def test_event_grid_counts_events_in_and_attempts_by_64_kb(size, fanout, failure_rate, operations):
    """Reference: event-grid-contract §1.5 (billing unit) and Event Grid's own pricing examples."""
    work = work_of(a_load(size=size, fanout=fanout, failure_rate=failure_rate), 1.0)

    assert work.event_grid_operations == pytest.approx(operations)


@pytest.mark.parametrize(
    ("runs", "seconds", "cpu", "traffic", "cores", "busy"),
    [
        (2400, 0.5, 0.001, Arrivals.BURSTS, 1.0, 50),  # full: 24 runs at a time
        (2400, 0.5, 0.001, Arrivals.BURSTS, 0.25, 50),
        (1000, 0.1, 0.05, Arrivals.BURSTS, 1.0, 50),  # its processor is the narrower place
        (1000, 0.1, 0.05, Arrivals.BURSTS, 0.25, 200),
        (100, 0.1, 0.01, Arrivals.SPREAD, 1.0, 100),  # a lone run is billed a second
        (10**8, 0.1, 0.0001, Arrivals.SPREAD, 1.0, MONTH),  # no month has more than its seconds
    ],
)
def test_an_instance_is_billed_once_for_all_that_it_runs(
    runs: float, seconds: float, cpu: float, traffic: Arrivals, cores: float, busy: float
) -> None:
    group = FunctionRuns(name="g", runs=runs, seconds=seconds, cpu=cpu, at_a_time=24)

    assert group.busy(traffic, cores) == pytest.approx(busy, rel=0.001)


@pytest.mark.parametrize(
    ("load", "memory_mb", "publish", "deliver"),
    [
        (a_load(events=1600), 2048, 1600 * 0.0014, 100 * (0.001 + 15 * 0.1)),
        (a_load(events=1600), 512, 1600 * 0.0056, 100 * (0.004 + 15 * 0.4)),
        (a_load(events=1600, batch=10), 2048, 160 * (0.0014 + 9 * 0.1), None),
    ],
    ids=str,
)
def test_a_full_instance_takes_what_azures_host_and_worker_leave_of_its_processor(
    load: Workload, memory_mb: int, publish: float, deliver: float | None, monkeypatch
) -> None:
    """1.4 ms for a request, 1.0 for a message; here 0.1 s for each further event of either."""
    found = replace(measured(), runs={**measured().runs, "cpu event": 0.1})
    monkeypatch.setattr("cli.costs.model.measured", lambda: found)
    busy = compare(load, memory_mb).bills[Arrivals.BURSTS].used.busy

    assert busy["publish"] == pytest.approx(publish)
    assert deliver is None or busy["deliver"] == pytest.approx(deliver)


def test_an_endpoint_gets_so_many_pushes_even_on_a_quick_processor():
    """256 at a time to one subscription: an answer in 0.1 s leaves 2,560 a second."""
    one, many = (
        compare(a_load(events=64_000, batch=64, size=100, fanout=fanout)).bills[Arrivals.BURSTS]
        for fanout in (1, 4)
    )

    assert one.used.busy["deliver"] == pytest.approx(25)
    assert many.used.busy["deliver"] < 4 * 25


@given(loads)
@example(Workload(events=302_863_213, fanout=9, batch=12, size=1325, failure_rate=1.0))
def test_spread_out_is_never_cheaper_than_in_bursts(load: Workload):
    """Unless other events share a message, where requests are stored together."""
    bills = compare(load).bills
    puts = [bills[each].used.operations["queue put deliveries"] for each in Arrivals]

    is_packed_worse = puts[0] > puts[1]
    least = bills[Arrivals.BURSTS].work * (1 - 1e-9)
    assert is_packed_worse or bills[Arrivals.SPREAD].work >= least


@given(loads)
def test_more_events_and_more_failures_never_cost_less(load: Workload):
    more = replace(load, events=load.events * 2)
    worse = replace(load, failure_rate=min(1.0, load.failure_rate + 0.1))
    now = compare(load)

    for traffic in Arrivals:
        assert compare(more).bills[traffic].work >= now.bills[traffic].work * (1 - 1e-9)
        assert compare(worse).bills[traffic].work >= now.bills[traffic].work * (1 - 1e-9)
    assert compare(worse).event_grid >= now.event_grid


@given(loads)
def test_the_bill_is_the_sum_of_its_lines(load: Workload):
    for bill in compare(load).bills.values():
        lines = sum(bill.lines.values()) + sum(bill.fixed.values()) - bill.granted
        assert math.isclose(bill.total, lines)
        assert all(value >= 0 for value in (*bill.lines.values(), bill.granted, bill.total))


@pytest.mark.parametrize(
    ("kind", "meter"),
    [
        ("queue put deliveries", "queue"),
        ("table batch", "table"),
        ("blob write payloads", "blob_write"),
        ("blob list payloads", "blob_write"),
        ("blob read payloads", "blob_read"),
        ("blob lease azure-webjobs-hosts", "blob_read"),
        ("blob delete payloads", "blob_delete"),
    ],
)
def test_every_operation_has_a_price(kind: str, meter: str):
    assert meter_of(kind) == meter
    assert meter in prices()


def test_prices_are_for_so_many_units():
    dear = Price(meter="m", price=0.055, per=10_000, unit="u", region="r", date="d", source="s")

    assert dear.of(1_000_000) == pytest.approx(5.5)
    assert storage_dollars({"queue get x": 1e6, "blob write y": 1e6}) == pytest.approx(
        {"queues": 0.4, "tables": 0.0, "blobs": 5.5}
    )


def test_the_steps_are_those_of_the_scenarios_beside_them():
    by_name = {each["name"]: each for each in scenarios()}

    assert measured().steps == steps(by_name)
    assert measured().runs == runs(by_name)


def test_an_instance_takes_what_the_templates_say():
    template = json.loads((ROOT / "infra/tests/main.json").read_text())

    assert template["parameters"]["httpConcurrency"]["defaultValue"] == REQUESTS


def test_the_alerts_are_those_of_the_templates():
    resources = json.loads((ROOT / "infra/tests/default.snapshot.json").read_text())
    rules = ("scheduledQueryRules", "metricAlerts")
    alerts = [each for each in resources["predictedResources"] if each["type"].endswith(rules)]

    assert len(alerts) == ALERTS["log_alert"] + ALERTS["metric_alert"]
    # Their price depends on it; that of a metric does not.
    often = {each["properties"]["evaluationFrequency"] for each in alerts if "kind" in each}
    assert often == {"PT15M"}


def test_the_idle_host_that_was_watched_had_its_timers_run():
    """It was watched with dead letters every five minutes; each minute is what is deployed."""
    idle = measured().steps["idle hour"]
    deployed = idle_hour()

    assert (idle["queue get waiting"], deployed["queue get waiting"]) == (60, 60)
    assert (idle["queue get deadletters"], deployed["queue get deadletters"]) == (12, 60)
    assert deployed["queue peek retries"] == 60
    assert deployed["blob lease azure-webjobs-hosts"] == idle["blob lease azure-webjobs-hosts"]


def test_the_bounds_of_the_performance_page_are_those_of_the_model():
    """A put, a delete and a share of a get for each message; 2,000 messages a second."""
    page = (ROOT / "docs/performance.md").read_text()
    rows = re.findall(r"^\| (.+) \| (\d+) \| ([\d,]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    computed = []
    for fanout, batch, at_a_time in ((1, 1, 1), (10, 1, 1), (1, 1, 16), (10, 1, 16), (1, 100, 16)):
        load = a_load(events=160_000, fanout=fanout, batch=batch)
        work = work_of(load, measured().runs["stored byte"], at_a_time=at_a_time)
        computed.append(work.deliveries / work.waves[0].messages)

    assert [int(row[1]) for row in rows] == [round(each) for each in computed]
    for (_, _, rate, operations), each in zip(rows, computed, strict=True):
        assert int(rate.replace(",", "")) == pytest.approx(2000 * each, rel=0.01)
        assert float(operations) == pytest.approx(3 / each, abs=0.006)


def test_the_limits_of_instances_on_the_performance_page_are_those_of_the_model():
    """Each is a rate on one instance of a core, then on 40."""
    page = (ROOT / "docs/performance.md").read_text()
    full = packing.MAX_MESSAGE_EVENTS
    further = (full - 1) * measured().runs["cpu event"]
    requests = min(REQUESTS / measured().runs["publish"], 1 / PUBLISH_CPU)

    publish, deliver = (
        re.findall(r"([\d,]+)(?: requests)?(?: a second)?(?: on an instance,| and) ([\d,]+)", row)
        for row in re.findall(r"^\| (?:publish|deliver and retry) instances .*", page, re.MULTILINE)
    )

    assert [*publish, *deliver] == [
        tuple(f"{float(f'{n * rate:.2g}'):,.0f}" for n in (1, 40))
        for rate in (requests, 1 / DELIVER_CPU, full / (DELIVER_CPU + further))
    ]


def test_the_queues_were_polled_as_often_as_host_json_says():
    """Another `maxPollingInterval`? Measure again: the model counts polls of an awake instance."""
    queues = json.loads((ROOT / "host.json").read_text())["extensions"]["queues"]
    hours, minutes, seconds = map(float, queues["maxPollingInterval"].split(":"))

    assert measured().steps["second awake"]["queue get"] == pytest.approx(
        1 / (hours * 3600 + minutes * 60 + seconds), rel=0.05
    )
