"""`pushgrid import`: imports another deployment into a server's store."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from cli.failure import REFUSED, CommandFailed
from cli.moving import FORM
from cli.options import store_option
from cli.serving.copies import METADATA, PARTIAL
from cli.serving.in_process import InProcess, deployment_of
from cli.serving.places import InFolder, choose_home
from cli.terminal import counted, say
from server.data_folder import check_folder, take_folder
from server.environment import read_server_settings, with_secrets
from server.failure import CannotStart
from server.home import HomeFactory
from server.served_app import ServedApp, new_clock
from server.sqlite_home import SqliteHome
from shared.adapters.sql.dead_letters import POISON, SqlDeadLetters
from shared.adapters.threads import SystemThreads
from shared.arm.dead_letter_codec import STORAGE_NAME_RULE, is_storage_name
from shared.clock import moment_of
from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.reader import UnreadableBlob, UnreadableRecord, elements, read_record
from shared.errors import AppError, InvalidSettings
from shared.settings import NAMES

_SETTINGS = (
    "it was judged by the settings of this command's environment: set those of the server, such as "
    f"{NAMES['allow_http']} and {NAMES['own_account']}, for this command too"
)
_URL = "http://127.0.0.1"
_SHOWN = 10  # faults
_ACCOUNT = "storageAccounts/{}(?![a-z0-9])"


@click.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of 'pushgrid serve', which does not run; it is made.",
)
@store_option
def import_(source: Path, data: Path | None, store: str | None) -> int:
    """
    Take over what 'pushgrid export' has written.

    SOURCE is that file, or a folder of dead letters. Keys, secrets and consents are taken over: no
    publisher has to change anything, no endpoint is asked. It judges by the settings of its own
    environment: set those of the server for this command too. Servers on a database may run.
    """
    take = _dead_letters(source) if source.is_dir() else _resources(_read(source))
    make, _ = choose_home(data, store, InFolder(SqliteHome), is_pooled=True, allows_unsafe=True)
    try:
        if data:
            check_folder(data)
            take_folder(data)
        done, faults = asyncio.run(_with_app(make, take))
    except CannotStart as error:
        raise CommandFailed(str(error), REFUSED) from None
    except InvalidSettings as error:
        raise CommandFailed(error.message, REFUSED) from None
    say(f"{data or 'The database'} has taken over {counted(done, 'item')} of {source}.")
    for each in faults:
        say(f"pushgrid: {each}", err=True)
    if faults:
        say(f"pushgrid: {_SETTINGS}", err=True)
    return REFUSED if faults else 0


_Take = Callable[[ServedApp], tuple[int, Sequence[str]]]  # returns how many, and faults


async def _with_app(make: HomeFactory, take: _Take) -> tuple[int, Sequence[str]]:
    """Run *take* on a thread beside the loop of an app that delivers nothing."""
    key = secrets.token_urlsafe(32)  # of this process alone
    environ = with_secrets(os.environ) | {NAMES["admin_key"]: key}
    settings, clock, threads = read_server_settings(environ), new_clock(), SystemThreads()
    threads.attach()
    home = make(settings, clock, threads)
    app = ServedApp(settings, home, clock, threads)
    app.app.is_import = True
    await app.worker.open()
    try:
        return await asyncio.to_thread(take, app)
    finally:
        await app.app.end()
        await home.close()


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_bytes())
        is_ours = document["pushgrid"] == "export" and document["form"] == FORM
    except (OSError, ValueError, LookupError, TypeError):
        is_ours = False
    if not is_ours:
        raise CommandFailed(f"'{file}' is no file of 'pushgrid export' of this version", REFUSED)
    found: Mapping[str, Any] = document
    return found


def _resources(document: Mapping[str, Any]) -> _Take:
    def take(app: ServedApp) -> tuple[int, Sequence[str]]:
        api = replace(deployment_of(app, _URL, "pushgrid import"), scope=document["scope"])
        named = re.compile(_ACCOUNT.format(re.escape(document["account"])), re.IGNORECASE)
        text = named.sub(f"storageAccounts/{app.home.store.account}", json.dumps(document))
        done, faults = 0, []
        for each in json.loads(text)["resources"]:
            try:
                _put(api, each)
                done += 1
            except CommandFailed as error:
                faults.append(f"{each['path']}: {error.message}")
        return done, faults

    return take


def _put(api: InProcess, resource: Mapping[str, Any]) -> None:
    path = resource["path"]
    api.put(path, resource["document"])
    for name, value in resource.get("keys", {}).items():
        api.post(f"{path}/regenerateKey", {"keyName": name, "keyValue": value})


def _described(file: Path) -> tuple[BlobSummary | None, datetime | None]:
    """Return what `export_blobs` has written beside a blob; nothing if it is another's copy."""
    if not file.exists():
        return None, None
    try:
        known = json.loads(file.read_bytes())
        return BlobSummary.from_metadata(known["metadata"]), moment_of(known["written"])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(f"'{file.name}' beside it can't be read: export it again") from None


class _Copied(NamedTuple):
    """A file that is the copy of a blob."""

    file: Path
    container: str
    path: str
    summary: BlobSummary | None
    written: datetime | None


def _dead_letters(folder: Path) -> _Take:
    """
    Take files that stand below the names of their containers, as a copy of blobs has them.

    Raises:
        CommandFailed: one of them is no such copy; then none is taken.
    """
    copied: list[_Copied] = []
    faults: list[str] = []
    for file in sorted(folder.rglob("*")):
        if file.suffix == METADATA or not file.is_file():
            continue
        try:
            copied.append(_copied(folder, file))
        except (OSError, ValueError) as error:
            faults.append(f"{file}: {error}")
    if faults:
        rest = [f"{len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        told = "\n".join([*faults[:_SHOWN], *rest])
        raise CommandFailed(f"nothing is taken over of '{folder}':\n{told}", REFUSED)

    def take(app: ServedApp) -> tuple[int, Sequence[str]]:
        store, done, failed = app.home.store.dead_letters, 0, []
        assert isinstance(store, SqlDeadLetters)  # noqa: S101 - of both homes
        for each in copied:
            at = each.written or app.clock.now()
            try:
                store.take_over(each.container, each.path, each.file.read_bytes(), each.summary, at)
                done += 1
            except (AppError, OSError) as error:
                failed.append(f"{each.file}: {error}")
        return done, failed

    return take


def _copied(folder: Path, file: Path) -> _Copied:
    """Return what *file* is the copy of. Raises ValueError, or OSError: of no dead letters."""
    if file.suffix == PARTIAL:
        raise ValueError("not whole, its export was killed: export into it again")
    container, *path = file.relative_to(folder).parts
    if not path:
        raise ValueError("it stands in no folder that has the name of its container")
    if not is_storage_name(container):
        raise ValueError(
            f"the name of a container {STORAGE_NAME_RULE}: '{container}' is none. Name the folder "
            "that has a folder for each container"
        )
    _check_body(container, file.read_bytes())
    summary, written = _described(file.with_name(file.name + METADATA))
    return _Copied(file, container, "/".join(path), summary, written)


def _check_body(container: str, body: bytes) -> None:
    """Return if *body* has dead letters, or a poison record; else raise ValueError."""
    if container == POISON:
        with suppress(ValueError):
            if isinstance(json.loads(body), dict):
                return
        raise ValueError("it is no poison record")
    for number, each in enumerate(map(read_record, elements(body)), 1):
        if isinstance(each, UnreadableRecord):
            raise UnreadableBlob(f"record {number} is no dead letter: {each.fault}")
