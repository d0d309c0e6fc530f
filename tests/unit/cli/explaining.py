"""What `cli explain` says, as numbers, and the tables of contract §3.4 that it has to tell."""

from __future__ import annotations

from typing import Any

SINCE_2020 = ("2020", "2023", "latest")
BY_SCHEDULE = (
    "0:00:00 0:00:10 0:00:40 0:01:40 0:06:40 0:16:40 0:46:40 1:46:40 4:46:40 10:46:40 22:46:40"
)
ALWAYS_TIMEOUT = (
    "0:00:00 0:00:40 0:01:40 0:03:10 0:08:40 0:19:10 0:49:40 1:50:10 4:50:40 10:51:10 22:51:40"
)
ALWAYS_503 = "0:00:00 0:00:30 0:01:00 0:02:00 0:07:00 0:17:00 0:47:00 1:47:00"
ALWAYS_408 = "0:00:00 0:02:00 0:04:00 0:06:00 0:11:00 0:21:00 0:51:00 1:51:00"
FIVE_MINUTES = (
    "0:00:00 0:05:00 0:10:00 0:15:00 0:20:00 0:30:00 1:00:00 2:00:00 5:00:00 11:00:00 23:00:00"
)
OF_2017 = "0:00:00 0:00:10 0:00:40 0:01:40 0:06:40 0:16:40 0:46:40 1:46:40"
FIRST_OF_2019 = f"{OF_2017} 2:46:40 3:46:40 4:46:40"
OF_NAMESPACES = "0:00:00 0:00:10 0:00:30 0:01:00 0:05:00 0:10:00 0:15:00 0:20:00 0:25:00 0:30:00"


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def times(table: str) -> list[float]:
    return [seconds(each) for each in table.split()]


def begun(document: dict[str, Any]) -> list[float]:
    return [each["at"] for each in document["attempts"]]
