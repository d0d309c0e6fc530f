"""What each conformance case has to show on a running system, whatever it runs on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from statistics import median

from tests.conformance.editions import Case
from tests.conformance.scaled import ends_at, moment, moments
from tests.conformance.stage import Observed

CLOCKS = 0.05  # seconds between readings of one clock that are taken for the same
JITTER = 0.1  # of a wait

Played = Mapping[str, Observed]


class RunningCases:
    """The fixture ``case`` gives each case, ``played`` what was seen of all of them by name."""

    def test_attempts_come_when_they_are_due(self, case: Case, played: Played):
        seen = played[str(case)]
        times = [at for at, _ in seen.attempts]
        due = moments(case)

        assert len(times) == len(due)
        for at, earliest in zip(times, due, strict=True):
            assert at >= seen.sent_at + earliest - CLOCKS

    def test_each_failure_plans_the_next_attempt(self, case: Case, played: Played):
        """The time that the host logs with a failure; how late the attempt begins is not judged."""
        seen = played[str(case)]
        due = moments(case)

        assert len(seen.planned) >= len(due) - 1  # one more may be planned for after the end
        for number, (logged_at, next_at) in enumerate(seen.planned[: len(due) - 1]):
            wait = due[number + 1] - due[number]
            if case.answer(number + 1) == "timeout":
                wait -= case.timeout
            assert next_at >= seen.sent_at + due[number + 1] - CLOCKS
            assert next_at <= logged_at + wait * (1 + JITTER) + CLOCKS

    def test_requests_say_what_changes(self, case: Case, played: Played):
        pushes = [push for _, push in played[str(case)].attempts]

        for name, values in case.headers.items():
            sent = [
                push.headers[name] if push else value
                for push, value in zip(pushes, values, strict=True)
            ]
            assert sent == list(values)
        assert len({push.headers["aeg-output-event-id"] for push in pushes if push}) <= 1

    def test_the_event_ends_as_it_should(self, case: Case, played: Played):
        seen = played[str(case)]

        if case.end.state == "delivered":
            assert (seen.ended, seen.dropped, seen.blob) == (None, None, None)
            return
        assert seen.ended
        ended_at, reason = seen.ended
        assert reason == case.end.reason
        due = moment(case, case.end.at, len(case.attempts))
        assert ended_at >= seen.sent_at + due - CLOCKS
        if case.end.state == "dropped":
            assert (seen.dropped, seen.blob) == (case.end.reason, None)
        else:
            assert seen.dropped is None
            _check_blob(seen)

    def test_what_was_played(self, played: Played, report: Callable[[str], None]):
        late: dict[str, list[float]] = defaultdict(list)
        for seen in played.values():
            case = seen.case
            times = [at for at, _ in seen.attempts]
            for wait, planned in zip(pairwise(times), pairwise(moments(case)), strict=False):
                late[case.profile].append(wait[1] - wait[0] - (planned[1] - planned[0]))

        for profile, each in sorted(late.items()):
            cases = sum(seen.case.profile == profile for seen in played.values())
            report(
                f"conformance {profile:<6} {cases:>2} cases, {len(each):>2} retries,"
                f" late by {median(each):.1f} s (median), {max(each):.1f} s (most)"
            )
        assert sum(map(len, late.values())) >= 50


def _check_blob(seen: Observed) -> None:
    case = seen.case
    assert seen.blob
    found_at, document = seen.blob
    assert document["deadLetterReason"] == case.end.reason
    assert document["deliveryAttempts"] == len(case.attempts)
    assert document["lastDeliveryOutcome"] == case.end.last_outcome
    assert seen.sent_at - CLOCKS <= _unix(document["publishTime"]) <= seen.accepted_at + CLOCKS
    last = _unix(document["lastDeliveryAttemptTime"])
    before, begun = ([seen.sent_at] + [at for at, _ in seen.attempts])[-2:]
    assert before < last <= begun + CLOCKS
    assert found_at >= last + ends_at(case) - moments(case)[-1] - CLOCKS


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
