"""How the parts of the HTTP sender tell each other that there will be no answer."""

from __future__ import annotations

from shared.http import Failure


class NoAnswer(Exception):
    """The exchange has failed; the sender turns this into a value at its border."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
