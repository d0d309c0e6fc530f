"""Finds the admin keys of local deployments, and records those of the ones that run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click
from platformdirs.unix import Unix

from cli.failure import REFUSED, CommandFailed
from cli.terminal import say
from devhost.origin import host_name, is_loopback
from server.data_folder import read_admin_key
from server.failure import CannotStart

DEFAULT_URL = "http://127.0.0.1:7071"


class LocalDeployment(NamedTuple):
    """
    A local deployment's base URL and admin key; over https the authorities to verify it by.

    A *key_file* stands for the key in the record.
    """

    url: str
    key: str = ""
    authorities: str | None = None
    key_file: str | None = None


def path_of(url: str) -> Path:
    """Return the file that records the local deployment at *url*: there is one for each port."""
    return Unix("pushgrid").user_data_path / f"local/{urlsplit(url).port}.json"


def find_local(url: str) -> LocalDeployment | None:
    """Return what is recorded of the deployment at *url*, if it is on this machine."""
    if not is_local(url):
        return None
    try:
        found = LocalDeployment(**json.loads(path_of(url).read_text()))
        key = Path(found.key_file).read_text().strip() if found.key_file else found.key
        return found._replace(key=key)
    except (OSError, ValueError, TypeError):
        return None


def deployment_url(given: str | None) -> str:
    """
    Return the URL that ``--url`` gives, or the one on the usual port: https if it is recorded so.

    Raises:
        CommandFailed: it has another scheme than http and https, or none.
    """
    known = None if given else find_local(DEFAULT_URL)
    url = given or (known.url if known else DEFAULT_URL)
    if not url.lower().startswith(("http://", "https://")):
        scheme, slashes, rest = url.partition("://")
        place = rest if slashes else scheme
        hint = f"write {'http' if is_local(f'http://{place}') else 'https'}://{place}"
        raise CommandFailed(f"--url, or PUSHGRID_URL, must begin with http:// or https://: {hint}")
    return url


def local_key(url: str, folder: Path) -> str | None:
    """
    Return the admin key of the deployment at *url*, if it is on this machine.

    It is the recorded one, or that in the nearest ``local.settings.json`` from *folder* up.
    """
    if not is_local(url):
        return None
    if known := find_local(url):
        return known.key
    for each in (folder, *folder.parents):
        try:
            values = json.loads((each / "local.settings.json").read_text())["Values"]
            return str(values["PUSHGRID_ADMIN_KEY"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


@contextlib.contextmanager
def recorded(deployment: LocalDeployment) -> Iterator[Path]:
    """
    Record *deployment* until the block ends, in a file that only this user can read.

    Raises:
        CommandFailed: the file can't be written.
    """
    path = path_of(deployment.url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(new, "w") as file:
            json.dump(deployment._asdict(), file)
    except OSError as error:
        message = f"{path}, where other commands find the admin key, can't be written"
        raise CommandFailed(f"{message}: {error.strerror}", REFUSED) from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def is_local(url: str) -> bool:
    """Return whether *url* is on this machine."""
    try:
        return is_loopback(host_name(urlsplit(url).netloc))
    except ValueError:  # it is no URL
        return False


@click.command("admin-key")
@click.option(
    "--url", envvar="PUSHGRID_URL", show_envvar=True, help="Base URL of the local deployment."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of 'pushgrid serve': print the key that was made there.",
)
def admin_key(url: str | None, data: Path | None) -> None:
    """
    Print the admin key of a deployment on this machine.

    The console asks for it, and curl sends it as the bearer token.
    """
    if data:
        say(_key_in(data))
        return
    url = deployment_url(url)
    key = local_key(url, Path.cwd())
    if not key:
        raise CommandFailed(
            "no admin key of that URL is known here: 'pushgrid serve' and 'pushgrid dev' record "
            "theirs while they run; --data FOLDER prints a server's; on Azure the key is in the "
            "vault",
            REFUSED,
        )
    say(key)


def _key_in(folder: Path) -> str:
    try:
        return read_admin_key(folder)
    except FileNotFoundError:
        message = (
            f"{folder} has no admin key: 'pushgrid serve --data {folder}' makes one at its first "
            "start, unless PUSHGRID_ADMIN_KEY is set"
        )
        raise CommandFailed(message, REFUSED) from None
    except (OSError, CannotStart) as error:
        raise CommandFailed(f"{folder}: {error}", REFUSED) from None
