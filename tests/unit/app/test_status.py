"""What is composed for the status routes."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import Mock

import pytest

from shared.delivery.profiles import PROFILES
from shared.engine.operations import activity
from shared.wiring.function_app import FunctionApp


def test_blobs_are_due_by_the_profile_and_the_scale_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Mock()
    monkeypatch.setattr(activity, "read_activities", read)
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("PUSHGRID_PROFILE", "2017")
    monkeypatch.setenv("PUSHGRID_TIME_SCALE", "60")

    FunctionApp().app.status.activities()

    assert PROFILES["2017"].dead_letter_delay == timedelta(minutes=5)
    assert read.call_args.args[-1] == timedelta(seconds=5)
