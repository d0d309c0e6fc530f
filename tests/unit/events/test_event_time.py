"""Which times publishers may write."""

from __future__ import annotations

import pytest

from shared.events.iso_8601 import as_rfc_3339, is_iso_8601, is_rfc_3339


@pytest.mark.parametrize(
    ("text", "is_iso", "is_rfc"),
    [
        pytest.param("2025-01-02T03:04:05Z", True, True, id="UTC"),
        pytest.param("2025-01-02t03:04:05.5z", True, True, id="lower-case"),
        pytest.param("2025-01-02 03:04:05Z", True, True, id="blank"),
        pytest.param("2017-06-26T18:41:00.9584103Z", True, True, id="as .NET writes it"),
        pytest.param("2025-01-02T03:04:05-08:00", True, True, id="offset"),
        pytest.param("2025-01-02T03:04:05", True, False, id="no offset"),
        pytest.param("2025-01-02T03:04Z", True, False, id="no seconds"),
        pytest.param("2025-01-02T03:04:05+0000", True, False, id="basic offset"),
        pytest.param("2025-01-02T03:04:05,5Z", True, False, id="comma"),
        pytest.param("2025-01-02", False, False, id="date"),
        pytest.param("2025-02-30T03:04:05Z", False, False, id="30 February"),
        pytest.param("2025-01-02T25:04:05Z", False, False, id="25 o'clock"),
        pytest.param("2025-01-02T03:04:05+24:00", False, False, id="offset of a day"),
        pytest.param("٢٠٢٥-01-02T03:04:05Z", False, False, id="other digits"),
        pytest.param(
            "2025-01-02T03:04:05.\u0665Z", False, False, id="other digits in the fraction"
        ),
        pytest.param("2025-01-02T03:04:05Z\n", False, False, id="line feed"),
        pytest.param("yesterday", False, False, id="words"),
        pytest.param("", False, False, id="empty"),
    ],
)
def test_times(text, is_iso, is_rfc):
    assert (is_iso_8601(text), is_rfc_3339(text)) == (is_iso, is_rfc)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2025-01-02t03:04:05.5z", "2025-01-02t03:04:05.5z"),
        ("2025-01-02T03:04:05.1234567-08:00", "2025-01-02T03:04:05.1234567-08:00"),
        ("2025-01-02T03:04:05", "2025-01-02T03:04:05Z"),
        ("2025-01-02 03:04", "2025-01-02T03:04:00Z"),
        ("2025-01-02T03:04+02", "2025-01-02T03:04:00+02:00"),
        ("2025-01-02T03:04:05,1234567-0830", "2025-01-02T03:04:05.1234567-08:30"),
    ],
)
def test_a_time_gets_what_it_lacks(text, written):
    assert as_rfc_3339(text) == written
    assert is_rfc_3339(written)
