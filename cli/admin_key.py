"""`pushgrid admin-key`: prints the admin key of a local deployment."""

from __future__ import annotations

from pathlib import Path

import click

from cli.failure import REFUSED, CommandFailed
from cli.known_locally import deployment_url, local_key
from cli.terminal import say


@click.command("admin-key")
@click.option(
    "--url", envvar="PUSHGRID_URL", show_envvar=True, help="Base URL of the local deployment."
)
def admin_key(url: str | None) -> None:
    """
    Print the admin key of a local deployment.

    The console asks for it, and curl sends it as the bearer token.
    """
    url = deployment_url(url)
    key = local_key(url, Path.cwd())
    if not key:
        raise CommandFailed(
            "no admin key of that URL is known here: 'pushgrid dev' records its own while it runs; "
            "on Azure the key is in the vault",
            REFUSED,
        )
    say(key)
