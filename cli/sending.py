"""
Sends requests so that nobody on the way reads their keys and tokens.

They go over http to this machine only, by no proxy, and to no place that an answer names.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from cli.failure import CommandFailed
from cli.local.known_locally import is_local

_NO_PROXIES = {"http": "", "https": ""}  # overrides the environment's, `all_proxy` as well


def is_private(url: str) -> bool:
    """Tell whether what is sent to *url* is encrypted, or stays on this machine."""
    return url.lower().startswith("https://") or is_local(url)


def refuse_plain_http(url: str) -> None:
    """
    Return if what is sent to *url* is private.

    Raises:
        CommandFailed: it goes over http to another machine.
    """
    if not is_private(url):
        raise _unencrypted(url)


def send(method: str, url: str, *, allows_http: bool, **options: Any) -> requests.Response:
    """
    Send a request, and return whatever is answered: no redirect is followed.

    Nothing is sent over http to another machine, whatever its name, unless *allows_http*.
    *options* are those of `requests.Session.request`.

    Raises:
        requests.RequestException: there is no answer.
        CommandFailed: the name is connected to another machine.
    """
    with requests.Session() as session:
        if not allows_http:
            session.mount("http://", _ToThisMachine())
        return session.request(
            method,
            url,
            allow_redirects=False,  # which would be followed with a GET
            auth=lambda request: request,  # else ~/.netrc replaces the header Authorization
            proxies=dict(_NO_PROXIES) if is_local(url) else None,
            **options,
        )


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        address = self.sock.getpeername()[0]
        if not ip_address(address).is_loopback:  # a name server said so
            self.close()
            raise _unencrypted(f"http://{self.host}, here {address},")


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _ToThisMachine(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool}


def _unencrypted(url: str) -> CommandFailed:
    return CommandFailed(
        f"{url} is another machine, and http shows the key or token to everybody on the way: "
        "use https, or add --insecure (or PUSHGRID_INSECURE=true)"
    )
