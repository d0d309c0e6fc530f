"""Defines a group of commands that suggests one where another was typed."""

from __future__ import annotations

from difflib import get_close_matches

import click

# What other tools call them.
_OTHERS = {
    "add": "create",
    "describe": "show",
    "get": "show",
    "ls": "list",
    "new": "create",
    "remove": "delete",
    "rm": "delete",
}


class CommandGroup(click.Group):
    """A group of commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* name; suggest another if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not error.format_message().startswith("No such command"):
                raise
            known = self.list_commands(ctx)
            near = [each for each in (_OTHERS.get(args[0]),) if each in known]
            near += get_close_matches(args[0], known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx) from None
