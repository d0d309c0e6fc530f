"""Dates, times and durations that publishers and clients write."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events.iso_8601 import as_rfc_3339, is_iso_8601, is_rfc_3339, parse_duration


@pytest.mark.parametrize(
    ("text", "is_iso", "is_rfc"),
    [
        ("2025-01-02T03:04:05Z", True, True),
        ("2025-01-02t03:04:05.5z", True, True),
        ("2017-06-26T18:41:00.9584103Z", True, True),  # as .NET writes it
        ("2025-01-02T03:04:05", True, False),
        ("2025-01-02T03:04Z", True, False),
        ("2025-01-02T03:04:05+0000", True, False),
        ("2025-01-02T03:04:05,5Z", True, False),
        ("2025-01-02", False, False),
        ("2025-02-30T03:04:05Z", False, False),
        ("2025-01-02T03:04:05+24:00", False, False),
        ("٢٠٢٥-01-02T03:04:05Z", False, False),
        ("2025-01-02T03:04:05.\u0665Z", False, False),
        ("2025-01-02T03:04:05Z\n", False, False),
        ("2016-12-31T23:59:60Z", True, True),  # a leap second
        ("2015-06-30t23:59:60.999z", True, True),
        ("2017-01-01T05:29:60.5+05:30", True, True),  # the same elsewhere
        ("2016-12-31T23:59:60", True, False),
        ("2016-12-31T23:59:61Z", False, False),
        ("2016-12-31T23:59:60+01:00", False, False),
        ("2016-12-30T23:59:60Z", False, False),
        ("2016-12-31T22:59:60Z", False, False),
        ("2016-12-31T23:58:60Z", False, False),
        ("2016-12-32T23:59:60Z", False, False),
        ("9999-12-31T23:59:60Z", False, False),
        ("0001-01-01T00:59:60+14:00", False, False),
        ("yesterday", False, False),
        ("", False, False),
    ],
)
def test_times(text, is_iso, is_rfc):
    assert (is_iso_8601(text), is_rfc_3339(text)) == (is_iso, is_rfc)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2025-01-02t03:04:05.5z", "2025-01-02T03:04:05.5Z"),
        ("2025-01-02 03:04:05Z", "2025-01-02T03:04:05Z"),
        ("2025-01-02 03:04:05.5z", "2025-01-02T03:04:05.5Z"),
        ("2025-01-02 03:04:05+02:00", "2025-01-02T03:04:05+02:00"),
        ("2016-12-31 23:59:60", "2016-12-31T23:59:60Z"),
        ("2025-01-02T03:04:05.1234567-08:00", "2025-01-02T03:04:05.1234567-08:00"),
        ("2025-01-02T03:04:05", "2025-01-02T03:04:05Z"),
        ("2025-01-02 03:04", "2025-01-02T03:04:00Z"),
        ("2025-01-02T03:04+02", "2025-01-02T03:04:00+02:00"),
        ("2025-01-02T03:04:05,1234567-0830", "2025-01-02T03:04:05.1234567-08:30"),
    ],
)
def test_missing_parts_of_a_time_are_added(text, written):
    assert as_rfc_3339(text) == written
    assert is_rfc_3339(written)


_blanks, _seconds = st.sampled_from("Tt "), st.sampled_from(["", ":05", ":05.5", ":05,123456789"])
_offsets = st.sampled_from(["", "Z", "z", "+02", "-0830", "+02:00"])


@given(
    st.builds(
        "{:%Y-%m-%d}{}{:%H:%M}{}{}".format, st.dates(), _blanks, st.times(), _seconds, _offsets
    )
)
def test_every_accepted_time_is_written_in_one_form(text: str) -> None:
    text = text.rjust(len(text) - text.index("-") + 4, "0")  # strftime pads no year
    written = as_rfc_3339(text)

    assert is_iso_8601(text)
    assert re.fullmatch(r"[0-9-]{10}T[0-9:]{8}(\.\d+)?(Z|[+-]\d\d:\d\d)", written)
    assert as_rfc_3339(written) == written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P0DT23H12M", timedelta(hours=23, minutes=12)),
        ("PT90S", timedelta(seconds=90)),
        ("PT1.5S", timedelta(seconds=1.5)),
        ("P2W", timedelta(weeks=2)),
        ("P1M", timedelta(days=30)),
        ("P1Y2M3DT4H5M6S", timedelta(days=428, hours=4, minutes=5, seconds=6)),
        ("P999999Y", timedelta(days=999_999 * 365)),
        *((text, None) for text in ("", "P", "PT", "P1", "1D", "P1DT", "-P1D", "P-1D", "p1d")),
        *((text, None) for text in ("PT1D", "P1H", "P1D ", "P1.5D", "PT1M1H", "P1D\n", "P٣D")),
        *((text, None) for text in ("P9999999D", "PT1S1S", "00:01:00")),
    ],
)
def test_durations(text: str, expected: timedelta | None) -> None:
    assert parse_duration(text) == expected


@given(st.text(alphabet="PT0123456789.YMWDHS-"))
def test_nothing_but_a_duration_comes_out(text: str) -> None:
    assert isinstance(parse_duration(text), timedelta | None)
