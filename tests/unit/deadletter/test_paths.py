"""Where the blobs of dead letters stand; contract §4.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from shared.deadletter.paths import dead_letter_path


@pytest.mark.parametrize(
    ("at", "path"),
    [
        pytest.param(
            datetime(2025, 1, 2, 3, 4, tzinfo=UTC),
            "ORDERS-TO-CRM/2025/1/2/3/id.json",
            id="unpadded",
        ),
        pytest.param(
            datetime(2025, 12, 31, 23, 59, tzinfo=UTC),
            "ORDERS-TO-CRM/2025/12/31/23/id.json",
            id="two",
        ),
        pytest.param(
            datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            "ORDERS-TO-CRM/2024/12/31/23/id.json",
            id="UTC",
        ),
    ],
)
def test_the_path_is_upper_case_and_unpadded_utc(at: datetime, path: str) -> None:
    assert dead_letter_path("orders", "Orders-to-crm", at, "id") == path


def test_the_path_of_a_namespace_has_its_names_as_they_are() -> None:
    """The documented mynamespace/mytopic/myeventsubscription/2023/9/23/2/…"""
    at = datetime(2023, 9, 23, 2, 59, tzinfo=UTC)

    assert dead_letter_path("Shop.orders", "Crm", at, "id") == "Shop/orders/Crm/2023/9/23/2/id.json"
