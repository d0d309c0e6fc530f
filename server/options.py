"""Defines what a server is started with, and refuses what would not be safe."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from server.failure import CannotStart
from server.secret_files import IN_A_FILE
from server.tls import ServerTls
from shared.settings import NAMES, Settings
from shared.settings.network_settings import Network

LOOPBACK = ip_address("127.0.0.1")
_AGAIN_IN = 0.1  # seconds
_CLIENT_HEADER, _ADMIN_KEY = NAMES["client_ip_header"], NAMES["admin_key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What the command line says."""

    data: Path | None  # absolute; ``None``: a database has it all
    host: IPv4Address | IPv6Address = LOOPBACK
    port: int = 7071
    tls_cert: Path | None = None
    tls_key: Path | None = None
    proxies: Sequence[Network] = ()  # whose forwarded headers count
    is_unsafe_folder_allowed: bool = False

    @property
    def is_guarded(self) -> bool:
        """Whether other machines reach the server over http: only its proxies may."""
        return not self.host.is_loopback and self.tls_cert is None


def check_exposure(options: ServerOptions, settings: Settings) -> None:
    """
    Return if no key or address can be read or forged on the way to the server.

    Raises:
        CannotStart: it can.
    """
    if options.is_guarded and not options.proxies:
        raise CannotStart(
            f"--host {options.host} is reached by other machines, and http shows their keys to "
            "everybody on the way: add --tls-cert and --tls-key, or --behind-proxy with the "
            "networks of the proxy that ends TLS."
        )
    if options.tls_key and not options.tls_cert:
        raise CannotStart("--tls-key needs --tls-cert: name the certificate as well.")
    if settings.client_ip_header:
        raise CannotStart(
            f"{_CLIENT_HEADER} is set, but 'pushgrid serve' takes addresses from X-Forwarded-For, "
            "and only from the networks of --behind-proxy: unset it."
        )


def check_admin_key(options: ServerOptions, settings: Settings) -> None:
    """Raise CannotStart if no folder can have a key, and none is set."""
    if not options.data and settings.admin_key is None:
        raise CannotStart(
            f"{_ADMIN_KEY} is not set, and servers on one database have one key: set it, or "
            f"{_ADMIN_KEY}{IN_A_FILE}, to the same for all of them."
        )


def load_tls(options: ServerOptions) -> ServerTls | None:
    """Return the TLS to serve with, if any. Raises CannotStart."""
    return ServerTls(options.tls_cert, options.tls_key) if options.tls_cert else None


def bind(
    host: IPv4Address | IPv6Address,
    port: int,
    *,
    again: int = 0,
    wait: Callable[[float], object] = time.sleep,
) -> socket.socket:
    """
    Bind *port* (0: a free one) of *host* without listening on it yet.

    One that is in use is tried *again* so many times: a server that was killed may still have it.

    Raises:
        CannotStart: it is in use or not permitted, or the address is not this machine's.
    """
    family = socket.AF_INET if isinstance(host, IPv4Address) else socket.AF_INET6
    # asyncio disables Nagle's algorithm only if the protocol is named; it costs 40 ms a response.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((str(host), port))
    except OSError as error:
        taken.close()
        if again and error.errno == errno.EADDRINUSE:
            wait(_AGAIN_IN)
            return bind(host, port, again=again - 1, wait=wait)
        raise port_refused(host, port, error) from None
    return taken


def port_refused(host: IPv4Address | IPv6Address, port: int, error: OSError) -> CannotStart:
    """Say why *port* can't be had."""
    if error.errno == errno.EADDRINUSE:
        return CannotStart(f"Port {port} of {host} is in use: choose another one with --port.")
    if error.errno == errno.EACCES:
        return CannotStart(
            f"Port {port} of {host} is for administrators only: choose one above 1023 with --port."
        )
    return CannotStart(
        f"--host {host} can't be listened on ({error.strerror}): name an address of this machine."
    )


def url_of(taken: socket.socket, *, is_tls: bool) -> str:
    """Return the URL at which this machine reaches what is bound."""
    address, port = taken.getsockname()[:2]
    host = ip_address(address)
    if host.is_unspecified:
        host = LOOPBACK
    name = f"[{host}]" if isinstance(host, IPv6Address) else str(host)
    return f"{'https' if is_tls else 'http'}://{name}:{port}"
