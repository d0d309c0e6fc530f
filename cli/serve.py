"""`pushgrid serve`: serves a deployment from this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, NoReturn

import click

from cli.failure import NOT_CALLED, CommandFailed
from cli.local.known_locally import LocalDeployment, is_local, recorded
from cli.option_types import ParsedText, WholeNumber
from cli.options import store_option
from cli.serving.beside import BesideTheApp
from cli.serving.kept_file import KeptFile
from cli.serving.places import InFolder, choose_home
from cli.terminal import say
from server.checks import Finding, find_all
from server.data_folder import KEY
from server.failure import CannotStart
from server.home import FolderHomeFactory
from server.options import LOOPBACK, ServerOptions
from server.process import Prepared, prepare
from server.process import serve as serve_prepared
from server.sqlite_home import SQLITE, SqliteHome, check_store
from server.store_url import store_setting
from shared.settings import Settings
from shared.settings.network_settings import networks

_FILE = click.Path(dir_okay=False, path_type=Path)
_COLOURS = {"ok": None, "warning": "yellow", "refused": "red"}
_WIDTH = max(map(len, _COLOURS))


def serve_command(
    make_home: FolderHomeFactory,
    sqlite: str,
    check_store: Callable[[Path, Settings | None], str | None] = lambda _, __: None,
) -> click.Command:
    """
    Return the command that serves from homes of *make_home*, which use that SQLite.

    *check_store* returns what is doubtful about what is in a folder for a server with these
    settings, and raises CannotStart if such a home can't use it.
    """

    @click.command("serve")
    @click.option(
        "--data",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Keep everything in this folder; it is made, for this user alone.",
    )
    @store_option
    @click.option(
        "--pooled",
        is_flag=True,
        help="The database is reached through PgBouncer: prepare no statements.",
    )
    @click.option(
        "--unsafe-store",
        is_flag=True,
        help="Start even if a crash of the database's machine would lose events.",
    )
    @click.option(
        "--host",
        type=ParsedText("ADDRESS", _address),
        default=LOOPBACK,
        show_default=True,
        help="Address to listen on. Beyond this machine it needs TLS or --behind-proxy.",
    )
    @click.option(
        "--port",
        type=WholeNumber(0, 65535),
        default=7071,
        show_default=True,
        help="Port to listen on; 0 takes a free one.",
    )
    @click.option("--tls-cert", type=_FILE, help="Certificate with its chain, as PEM.")
    @click.option("--tls-key", type=_FILE, help="Its key, if it stands elsewhere.")
    @click.option(
        "--behind-proxy",
        "proxies",
        type=ParsedText("NETWORKS", networks),
        default=(),
        help="Networks of the proxies whose X-Forwarded headers count, comma-separated.",
    )
    @click.option(
        "--file",
        type=_FILE,
        help="Create and update what this configuration file names, now and on SIGHUP.",
    )
    @click.option(
        "--prune",
        is_flag=True,
        help="Delete what the file does not name, where no events wait.",
    )
    @click.option(
        "--hold",
        is_flag=True,
        help="Pause all event subscriptions before the first delivery: for a restored copy.",
    )
    @click.option(
        "--check",
        is_flag=False,
        flag_value="",
        metavar="[URL]",
        help="Start nothing: look for what would lose events or keep the server from its work, "
        "and whether an endpoint's URL is reached.",
    )
    @click.option(
        "--unsafe-folder",
        is_flag=True,
        help="Start even if the folder is in memory, in a container's layer or on a network.",
    )
    def serve(
        data: Path | None,
        store: str | None,
        pooled: bool,
        unsafe_store: bool,
        host: IPv4Address | IPv6Address,
        port: int,
        tls_cert: Path | None,
        tls_key: Path | None,
        proxies: Any,
        file: Path | None,
        prune: bool,
        hold: bool,
        check: str | None,
        unsafe_folder: bool,
    ) -> int:
        """
        Serve a deployment from a folder, or from a database.

        It prints "ready URL" when it serves, and logs on standard error. SIGHUP reads the
        certificate and the file again. SIGTERM or Ctrl-C ends it in order, a second one at once.
        The exit code is 0 then, 1 if the store failed, and 2 if something given is wrong.
        """
        options = ServerOptions(
            data=data.absolute() if data else None,
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            proxies=proxies,
            is_unsafe_folder_allowed=unsafe_folder,
        )
        if prune and not file:
            raise CommandFailed("--prune needs --file: it deletes what the file does not name")
        _refuse_two_homes(data)
        make, others = choose_home(
            options.data,
            store,
            InFolder(make_home, check_store),
            is_pooled=pooled,
            allows_unsafe=unsafe_store,
        )
        kept = KeptFile(file, prune=prune) if file else None
        read = partial(_read, kept) if kept else None
        if check is not None:
            if read:
                others["file"] = read
            found = find_all(options, os.environ, sqlite=sqlite, others=others, endpoint=check)
            return _show(found)
        try:
            prepared = prepare(options, os.environ, read)
            beside = BesideTheApp(prepared.url, kept, hold=hold)
            with _found_by_commands(prepared):
                code = serve_prepared(prepared, make, beside, _ready)
        except CannotStart as error:
            raise CommandFailed(str(error)) from None
        _end(code)

    return serve


def _refuse_two_homes(data: Path | None) -> None:
    """Return unless the environment names a database as well, which may have the events."""
    if data and (name := store_setting(os.environ)):
        raise CommandFailed(
            f"--data and {name} both say where all data is: unset {name}, or leave out --data"
        )


def _address(text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an address: use 127.0.0.1, ::1 or 0.0.0.0") from None


def _read(kept: KeptFile, settings: Settings | None) -> None:
    try:
        kept.read(settings)
    except CommandFailed as error:
        raise CannotStart(error.message) from None


def _show(findings: Iterable[Finding]) -> int:
    """Print findings as they come; return 2 if with one of them no server starts."""
    code = 0
    for each in findings:
        say(f"{each.state:<{_WIDTH}}  {each.what}: {each.said}", colour=_COLOURS[each.state])
        if each.remedy:
            say(f"{'':<{_WIDTH}}  {each.remedy}")
        if each.state == "refused":
            code = NOT_CALLED
    return code


@contextmanager
def _found_by_commands(prepared: Prepared) -> Iterator[None]:
    """
    Have other commands of this user find the admin key, if they reach the server on this machine.

    A service may have no folder to note it in, and needs none.
    """
    options = prepared.options
    with ExitStack() as stack:
        key_file = options.data / KEY if options.data else None
        if key_file and is_local(prepared.url) and key_file.exists():
            with suppress(CommandFailed):
                known = LocalDeployment(prepared.url, key_file=str(key_file))
                stack.enter_context(recorded(known))
        yield


def _ready(url: str) -> None:
    with suppress(OSError):  # nobody reads it
        say(f"ready {url}")


def _end(code: int) -> NoReturn:
    """End the process: threads that wait for an endpoint or for storage would keep it."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one may have been closed by the caller
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


serve = serve_command(SqliteHome, SQLITE, check_store)
