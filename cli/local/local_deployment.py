"""Runs a deployment on this machine: Azurite, the host, and a record for other commands."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

from cli.deployment import Deployment
from cli.failure import CommandFailed
from cli.local.known_locally import LocalDeployment, recorded
from devhost.azurite import Azurite, running_azurite
from devhost.errors import HostError
from devhost.http.server import LOOPBACK, reserved_port
from devhost.process import RunningHost, running_host
from devhost.settings import STORAGE, read_local_settings
from server.failure import CannotStart
from server.secret_files import find_secret

HOME = Path(__file__).parents[2]  # the app: host.json and the function folders
ADMIN_KEY = "PUSHGRID_ADMIN_KEY"
_LAST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """A deployment that runs."""

    api: Deployment
    azurite: Azurite
    host: RunningHost
    key_file: Path  # where other commands find its admin key

    @property
    def connection_string(self) -> str:
        """The storage for other programs; the host may report what they do to blobs."""
        seen = self.host.blob_url or self.azurite.blob_url
        return self.azurite.connection_string.replace(self.azurite.blob_url, seen)

    def make(self, kind: str, name: str) -> bool:
        """
        Make a blob ``container`` or a ``queue``; return whether it was not there.

        Raises:
            CommandFailed: the storage refused.
        """
        text = self.azurite.connection_string
        try:
            if kind == "queue":
                with QueueClient.from_connection_string(text, name) as queue:
                    queue.create_queue()
            else:
                with ContainerClient.from_connection_string(text, name) as container:
                    container.create_container()
        except ResourceExistsError:
            return False
        except AzureError as error:
            raise CommandFailed(f"{kind} {name}: {error.message}") from error
        return True

    def check(self) -> None:
        """
        Return if all of its processes run.

        Raises:
            HostError: one has ended; the message has the host's last lines.
        """
        if self.host.process.poll() is not None:
            last = "\n".join([*self.host.lines][-_LAST_LINES:])
            raise HostError(f"the host has ended:\n{last}")
        if self.azurite.process.poll() is not None:
            raise HostError("Azurite has ended, and the storage with it")


def own_settings() -> Mapping[str, str]:
    """Return the settings of local.settings.json and the environment, which overrides it."""
    return read_local_settings(HOME).values | os.environ


def _own_key() -> str | None:
    try:
        return find_secret(ADMIN_KEY, os.environ) or own_settings().get(ADMIN_KEY)
    except CannotStart as error:
        raise HostError(str(error)) from None


@contextlib.contextmanager
def running_deployment(
    settings: Mapping[str, str],
    *,
    port: int,
    host: str = LOOPBACK,
    on_line: Callable[[str], None],
    data: Path | None = None,
    tls: bool = False,
    workers: int = 1,
    blob_events: bool = False,
) -> Iterator[LocalRun]:
    """
    Run the app with *settings*, which override all others, at *host* until the block ends.

    Without an admin key among its settings it gets a new one. With a *data* folder its storage is
    kept there. With *blob_events* it reports what other programs change in its blobs.

    Raises:
        HostError: it cannot be started.
    """
    with reserved_port(port, host):  # before anything that takes long
        pass
    key = settings.get(ADMIN_KEY) or _own_key() or secrets.token_hex(24)
    with contextlib.ExitStack() as stack:
        azurite = stack.enter_context(running_azurite(folder=data))
        given = {STORAGE: azurite.connection_string, **settings, ADMIN_KEY: key}
        options = ["--host", host, "--port", str(port), "--workers", str(workers)]
        options += ["--tls"] if tls else []
        options += ["--blob-events"] if blob_events else []
        running = running_host(given, options=options, root=HOME, on_line=on_line)
        started = stack.enter_context(running)
        known = LocalDeployment(started.url, key, started.variables.get("REQUESTS_CA_BUNDLE"))
        key_file = stack.enter_context(recorded(known))
        api = Deployment(
            url=started.url,
            token=lambda: key,
            authorities=known.authorities,
            allows_http=True,  # whichever address of this machine it is
        )
        yield LocalRun(api=api, azurite=azurite, host=started, key_file=key_file)
