"""What the figures of healthy endpoints may be beside others."""

from __future__ import annotations

from bench.isolation import TROUBLES, limits

CONTROL = {"p50 ms": 5.0, "p95 ms": 10.0}


def figures(**changes: float) -> dict[str, float]:
    delays = {"p50 ms": 21.0, "p95 ms": 61.0, "p99 ms": 70.0, "slowest ms": 80.0}
    ratios = {"p50 : control": 4.2, "p95 : control": 6.1, "p99 : control": 7.0}
    return delays | ratios | changes


def test_a_control_is_not_judged_but_what_is_missing_is():
    control = CONTROL | {"missing": 1}

    assert limits(TROUBLES["6 endpoints of 0.9 s, 180/s"], control, control) == {"missing": 0}


def test_delays_are_judged_against_the_control_unless_they_are_small():
    trouble = TROUBLES["100 that answer 503, 500/s"]

    both = limits(trouble, figures(), CONTROL)

    assert both == {"p50 : control": 1.3, "p95 : control": 2.0}
    assert limits(trouble, figures(**{"p50 ms": 20.0, "p95 ms": 60.0}), CONTROL) == {}


def test_beside_endpoints_that_hang_the_slowest_is_judged_too():
    found = limits(TROUBLES["6 that hang for 20 s, 240/s"], figures(), CONTROL)

    assert found["slowest ms"] == 1000


def test_in_the_same_topic_the_99th_percentile_is_judged():
    trouble = TROUBLES["same topic: 120 silent names"]

    assert limits(trouble, figures(), CONTROL) == {"p99 : control": 1.2}
    assert limits(trouble, figures(**{"p50 ms": 20.0, "p95 ms": 60.0}), CONTROL) == {}
