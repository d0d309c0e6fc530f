"""Defines the failure of a command: one line for people, and an exit code."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

import click

from cli.terminal import say

REFUSED, NOT_CALLED = 1, 2  # exit codes: the deployment said no; it was not asked


class DocumentFault(NamedTuple):
    """A fault of a document."""

    message: str
    target: str | None = None  # the path of the member at fault, if it is one's


class CommandFailed(click.ClickException):
    """
    A command could not do its work; the message says why, and what to do.

    *status* is that of the deployment's answer, if it refused, and *faults* are the answer's.
    """

    def __init__(
        self,
        message: str,
        exit_code: int = NOT_CALLED,
        status: HTTPStatus | int | None = None,
        faults: tuple[DocumentFault, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = exit_code
        self.status = status
        self.faults = faults

    @property
    def is_passing(self) -> bool:
        """Tell whether the same request may succeed later."""
        return self.status in {None, HTTPStatus.TOO_MANY_REQUESTS} or (
            self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        )

    def show(self, file: object = None) -> None:
        """Print the message on standard error."""
        del file
        say(f"pushgrid: {self.message}", err=True, colour="red")
