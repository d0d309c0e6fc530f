"""
Looks for what would lose events or keep the server from its work, each with its remedy.

Nothing is changed but a file that is written, synced and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from server.checks.finding import Finding, doubtful, good, refused
from server.checks.machine import (
    check_clock,
    check_descriptors,
    check_space,
    check_sqlite,
    check_sync,
)
from server.checks.reach import check_endpoint
from server.data_folder import check_folder, existing
from server.environment import read_server_settings, with_secrets
from server.failure import CannotStart
from server.options import ServerOptions, bind, check_admin_key, check_exposure, load_tls
from server.storage_kinds import fault_of, mount_of, read_mounts
from shared.clock import SystemClock
from shared.settings import Settings, unknown

__all__ = ["Finding", "find_all"]


def find_all(
    options: ServerOptions,
    environ: Mapping[str, str],
    *,
    sqlite: str,
    others: Mapping[str, Callable[[Settings | None], object]] = MappingProxyType({}),
    endpoint: str = "",
) -> Iterator[Finding]:
    """
    Yield what is found: of settings, port, folder, disk and machine, and of an *endpoint*'s URL.

    *sqlite* is the version of the library that the home uses; *others* look at what they are called
    for the settings, if these are in order: they return what is doubtful, and raise CannotStart.
    """
    settings: list[Settings] = []
    yield _tried("settings", lambda: settings.append(_settings(options, environ)))
    yield from _unknown(environ, settings)
    yield _tried("TLS files", partial(_tls, options), "none" if not options.tls_cert else "")
    yield _tried("port", lambda: bind(options.host, options.port).close(), str(options.port))
    for what, check in others.items():
        yield _tried(what, partial(check, settings[0] if settings else None))
    yield from map(_notices, settings)
    if options.data:
        yield from _of_folder(options.data, options, sqlite)
    yield check_descriptors()
    if endpoint and settings:
        yield check_endpoint(endpoint, settings[0])


def _of_folder(data: Path, options: ServerOptions, sqlite: str) -> Iterator[Finding]:
    yield _tried("folder", partial(check_folder, data), str(data))
    yield _kind(data, is_allowed=options.is_unsafe_folder_allowed)
    folder = existing(data)
    yield check_sync(folder)
    yield check_space(folder)
    yield check_sqlite(sqlite)
    yield check_clock(data)


def _settings(options: ServerOptions, environ: Mapping[str, str]) -> Settings:
    settings = read_server_settings(with_secrets(environ))
    check_exposure(options, settings)
    check_admin_key(options, settings)
    return settings


def _tls(options: ServerOptions) -> str | None:
    tls = load_tls(options)
    return tls.doubt(SystemClock().now()) if tls else None


def _unknown(environ: Mapping[str, str], settings: Sequence[Settings]) -> Iterator[Finding]:
    """Yield variables named like settings that nothing reads, if the settings are in order."""
    for name, nearest in unknown(with_secrets(environ)).items() if settings else ():
        remedy = f"Is it {nearest}?" if nearest else "Unset it."
        yield doubtful("settings", f"nothing reads {name}", remedy)


def _notices(settings: Settings) -> Finding:
    if settings.public_url:
        return good("BlobCreated notices", f"of dead letters below {settings.public_url}")
    said = "none of dead letters in the server's own account: PUSHGRID_PUBLIC_URL is not set"
    return good("BlobCreated notices", said)


def _tried(what: str, check: Callable[[], object], said: str = "") -> Finding:
    try:
        found = check()
    except CannotStart as error:
        return refused(what, str(error))
    if isinstance(found, str):
        return Finding(what, "warning", found)
    return good(what, said or "in order")


def _kind(data: Path, *, is_allowed: bool) -> Finding:
    what = "file system"
    mount = mount_of(data.resolve(), read_mounts())
    if mount is None:
        return good(what, "unknown: this system does not tell")
    fault = fault_of(mount.kind)
    if fault is None:
        return good(what, mount.kind)
    said = f"{data} {fault}"
    remedy = "Name a folder on a disk of this machine, or a volume."
    if is_allowed:
        return Finding(what, "warning", f"{said}; --unsafe-folder allows it", remedy)
    return refused(what, f"{said}. {remedy} --unsafe-folder starts the server all the same.")
