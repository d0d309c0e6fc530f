from __future__ import annotations

import json
from typing import Any

import pytest

from cli.__main__ import main


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]):
    """Run the command, and return the document that it prints."""

    def run(profile: str, answers: str, *options: str) -> dict[str, Any]:
        arguments = ["explain", "--profile", profile, "--answers", answers, "--json", *options]
        assert main(arguments) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["profile"] == profile
        return dict(document)

    return run
