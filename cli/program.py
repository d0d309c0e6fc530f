"""The command `pushgrid`: its commands are loaded when they are used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from cli.failure import REFUSED, CommandFailed
from cli.terminal import say
from shared import VERSION

# The module and the name of each command.
_COMMANDS = {
    "admin-key": ("cli.local.known_locally", "admin_key"),
    "apply": ("cli.apply", "apply"),
    "backup": ("cli.serving.copies", "backup"),
    "cost": ("cli.cost", "cost"),
    "dead-letters": ("cli.dead_letters", "dead_letters"),
    "demo": ("cli.local.demo", "demo"),
    "dev": ("cli.local.dev", "dev"),
    "events": ("cli.replays", "events"),
    "explain": ("cli.explain", "explain"),
    "export": ("cli.moving", "export"),
    "import": ("cli.serving.taking_over", "import_"),
    "listen": ("cli.local.listen", "listen"),
    "namespace": ("cli.topics", "namespace"),
    "publish": ("cli.publish", "publish"),
    "restore": ("cli.serving.copies", "restore"),
    "schema": ("cli.apply", "schema"),
    "serve": ("cli.serve", "serve"),
    "status": ("cli.status", "status"),
    "subscription": ("cli.subscription.commands", "subscription"),
    "timeline": ("cli.timeline", "timeline"),
    "top": ("cli.top", "top"),
    "topic": ("cli.topics", "topic"),
    "version": ("cli.program", "version"),
}

_BEYOND: dict[type[Exception], str] = {
    MemoryError: "there is too little memory",
    RecursionError: "its input is nested too deeply",
}
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


class _Commands(CommandGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        try:
            command: click.Command = getattr(import_module(module), name)
        except ModuleNotFoundError as missing:
            return _not_installed(cmd_name, str(missing.name))
        return command


def _not_installed(name: str, missing: str) -> click.Command:
    """Return a command in place of one whose packages are not installed."""
    extra = f"pushgrid[{'serve' if name == 'serve' else 'local'}]"

    def refuse(**_: object) -> NoReturn:
        raise CommandFailed(f"{name}: there is no '{missing}': pip install '{extra}'")

    takes_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    summary = f"Not installed: needs {extra}."
    return click.Command(name, takes_anything, callback=refuse, help=summary)


@click.group("pushgrid", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="pushgrid")
def pushgrid() -> None:
    """
    Operate Pushgrid: Azure Event Grid's push delivery, self-hosted.

    The commands call a running deployment: http://127.0.0.1:7071, or that of PUSHGRID_URL or of
    their option --url, which stands after the command's name.
    """


@click.command("version")
def version() -> None:
    """Print the version, as --version does."""
    say(f"pushgrid, version {VERSION}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code: 0, 1 if it was refused or found nothing, 2 if wrong."""
    try:
        ended: Any = pushgrid.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="pushgrid",
            standalone_mode=False,
            color=False if os.environ.get("NO_COLOR") else None,
        )
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "pushgrid"
        say(f"{where}: {error.format_message()}", err=True)
        return 2
    except CommandFailed as error:
        error.show()
        return error.code
    except click.Abort:
        return 130
    except (MemoryError, OSError, RecursionError) as error:  # such as a full disk
        say(f"pushgrid: {_BEYOND.get(type(error), error)}", err=True)
        return REFUSED
    return ended if isinstance(ended, int) else 0
