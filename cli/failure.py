"""Defines the failure of a command: one line for people, and an exit code."""

from __future__ import annotations

from http import HTTPStatus

import click

REFUSED, NOT_CALLED = 1, 2  # exit codes: the deployment said no; it was not asked


class CommandFailed(click.ClickException):
    """
    A command could not do its work; the message says why, and what to do.

    *status* is that of the deployment's answer, if it refused.
    """

    def __init__(
        self, message: str, exit_code: int = NOT_CALLED, status: HTTPStatus | int | None = None
    ) -> None:
        super().__init__(message)
        self.code = exit_code
        self.status = status

    def show(self, file: object = None) -> None:
        """Print the message on standard error."""
        del file
        click.secho(f"pushgrid: {self.message}", err=True, fg="red")
