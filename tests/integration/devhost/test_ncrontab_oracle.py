"""
Schedules agree with croniter on ten thousand expressions.

croniter reads NCRONTAB with the options `second_at_beginning` and `day_or=False`. It also accepts 7
for Sunday, which NCRONTAB does not: 7 is left out.
"""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]

from devhost.timer import ncrontab

_EXPRESSIONS = 10_000
_LIMITS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NAMES = {
    4: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    5: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}


def _part(chance: Random, position: int) -> str:
    low, high = _LIMITS[position]
    first, last = sorted(chance.sample(range(low, high + 1), 2))
    step = chance.randint(1, high)
    if position in _NAMES and chance.random() < 0.2:
        names = _NAMES[position]
        return f"{names[first - low]}-{names[last - low]}"
    return chance.choice(
        [
            "*",
            f"*/{step}",
            f"{first}",
            f"{first}-{last}",
            f"{first}-{last}/{step}",
            f"{first}/{step}",
        ]
    )


def _field(chance: Random, position: int) -> str:
    if chance.random() < 0.35:
        return "*"
    return ",".join(_part(chance, position) for _ in range(chance.choice((1, 1, 1, 2, 3))))


@pytest.mark.parametrize("part", range(4))
def test_the_next_times_are_croniters(part):
    chance = Random(part)
    for _ in range(_EXPRESSIONS // 4):
        text = " ".join(_field(chance, position) for position in range(6))
        start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(10**8))
        schedule = ncrontab.parse(text)

        theirs = croniter(text, start, second_at_beginning=True, day_or=False)
        try:
            first, second = theirs.get_next(datetime), theirs.get_next(datetime)
        except CroniterBadDateError:
            with pytest.raises(ncrontab.ScheduleError, match="never due"):
                schedule.next_after(start)
            continue
        ours = schedule.next_after(start)
        assert (ours, schedule.next_after(ours)) == (first, second), (text, start)
