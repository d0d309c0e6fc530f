"""Calls a deployment's HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import requests
from urllib3.exceptions import ProtocolError

from cli.answers import document_of, raise_if_refused
from cli.failure import REFUSED, CommandFailed
from cli.local.known_locally import is_local
from cli.sending import refuse_plain_http, send

DEFAULT_SCOPE = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/local"
API_VERSION = "2025-02-15"
_PUBLISH_API = "2024-06-01"  # of namespace topics
_SYSTEM, _ACCOUNTS = "system-", "Microsoft.Storage/storageAccounts"
_THIS_DEPLOYMENT, _DEPLOYMENTS = "this-deployment", "Pushgrid/deployments"
_SYSTEM_TOPICS = "systemTopics/"
_SECONDS = 130.0  # a handshake takes up to 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A running deployment. Calls raise `CommandFailed`."""

    url: str
    token: Callable[[], str]  # returns the bearer token of the management API
    scope: str = DEFAULT_SCOPE  # the ARM id of the resource group that the commands work in
    authorities: str | None = None  # a PEM file to verify it by, if other than the usual
    allows_http: bool = False  # even to another machine
    # Each call runs in what this returns.
    while_waiting: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def quiet(self) -> Deployment:
        """The same for a caller that shows itself what goes on."""
        return replace(self, while_waiting=nullcontext)

    def reach(self) -> None:
        """Return if anything answers at its URL."""
        self._request("GET", self.url)

    def challenge(self) -> str:
        """Return its header ``WWW-Authenticate`` for a caller without a credential."""
        answer = self._request("GET", f"{self.url}/status/topics")
        return answer.headers.get("WWW-Authenticate", "")

    def get(self, path: str, **query: Any) -> Any:
        """Return the document at an ARM path below the resource group; ``None`` is not asked."""
        return self._call("GET", path, query=query)

    def list(self, path: str) -> list[Any]:
        """Return all members of a collection, page after page."""
        return [each for page in self.pages(path) for each in page["value"]]

    def subscriptions(self, *topics: str) -> Sequence[Any]:
        """Return the event subscriptions of topics."""
        paths = (f"{topic_path(topic)}/eventSubscriptions" for topic in topics)
        return [each for path in paths for each in self.list(path)]

    def namespace_topics(self) -> Sequence[str]:
        """Return the topics of all namespaces, as ``NAMESPACE.TOPIC``."""
        names = []
        for namespace in self.list("namespaces"):
            found = self.list(f"{namespace_path(namespace['name'])}/topics")
            names += [f"{namespace['name']}.{each['name']}" for each in found]
        return names

    def system_topics(self) -> Mapping[str, str]:
        """Return the system topics, as ``systemTopics/NAME``, each with ``system-ACCOUNT``."""
        found = self.list(_SYSTEM_TOPICS.rstrip("/"))
        sources = [each["properties"]["source"].rpartition("/")[2].lower() for each in found]
        return {
            f"{_SYSTEM_TOPICS}{each['name']}": f"{_SYSTEM}{source}"
            for each, source in zip(found, sources, strict=True)
        }

    def pages(self, path: str, **query: Any) -> Iterator[Any]:
        """Yield the pages of a collection as they are asked for."""
        page = self.get(path, **query)
        yield page
        while link := page.get("nextLink"):
            page = self.get(path, **query | {"$skiptoken": _skip_token(link)})
            yield page

    def put(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Any:
        """Create or replace a resource; return it."""
        return self._call("PUT", path, body, headers=headers)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change a resource; return it."""
        return self._call("PATCH", path, body)

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Run an action of a resource; return its answer."""
        return self._call("POST", path, body, headers=headers)

    def find(self, path: str) -> Any:
        """Return a resource, ``{}`` if it can't be read now, ``None`` if there is none."""
        try:
            return self.get(path)
        except CommandFailed as error:
            if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
                return {}
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def has(self, path: str) -> bool:
        """Return whether there is a resource, even one that can't be read now."""
        return self.find(path) is not None

    def keys(self, path: str, regenerate: str | None) -> Mapping[str, str]:
        """Return the access keys of a resource, after regenerating the one named."""
        if regenerate:
            found: Mapping[str, str] = self.post(f"{path}/regenerateKey", {"keyName": regenerate})
        else:
            found = self.post(f"{path}/listKeys")
        return found

    def delete(self, path: str) -> None:
        """Delete a resource, if there is one."""
        self._call("DELETE", path)

    def publish_url(self, topic: str) -> str:
        """Return where events are published to a topic, or to ``NAMESPACE.TOPIC``."""
        url = f"{self.url}/{topic_path(topic)}"
        return f"{url}:publish?api-version={_PUBLISH_API}" if "." in topic else f"{url}/api/events"

    def publish(self, url: str, headers: Mapping[str, str], body: bytes, remedy: str) -> None:
        """Publish events to a topic's endpoint; *remedy*: if their key is refused."""
        answer = self._request("POST", url, headers=headers, data=body)
        raise_if_refused(answer, remedy=remedy)

    def storage_account(self) -> str:
        """Return the ARM id of the deployment's own storage account."""
        return str(self.get(_ACCOUNTS)["value"][0]["id"])

    def status(self, what: str) -> Any:
        """Return the answer of a status route, also if it says that something is wrong."""
        answer = self._ask("GET", f"{self.url}/status/{what}")
        if answer.status_code not in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}:
            raise_if_refused(answer)
        return document_of(answer)

    def metrics(self) -> str:
        """Return all counters and gauges in Prometheus' text format."""
        answer = self._ask("GET", f"{self.url}/status/metrics")
        raise_if_refused(answer)
        return answer.text

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        provider = "" if path.startswith((_ACCOUNTS, _DEPLOYMENTS)) else "Microsoft.EventGrid/"
        url = f"{self.url}{self.scope}/providers/{provider}{path}"
        asked = {"api-version": API_VERSION, **(query or {})}
        answer = self._ask(method, url, headers, params=asked, json=body)
        raise_if_refused(answer)
        return document_of(answer) if answer.content else {}

    def _ask(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, **options: Any
    ) -> requests.Response:
        """Send a request with the operator's credential."""
        self._check_scheme()  # before there is a token
        sent = {"Authorization": f"Bearer {self.token()}", **(headers or {})}
        return self._send(method, url, headers=sent, **options)

    def _request(self, method: str, url: str, **options: Any) -> requests.Response:
        """Send a request without the operator's credential."""
        self._check_scheme()
        return self._send(method, url, **options)

    def _check_scheme(self) -> None:
        if not self.allows_http:
            refuse_plain_http(self.url)

    def _send(self, method: str, url: str, **options: Any) -> requests.Response:
        options |= {"verify": self.authorities or True, "timeout": _SECONDS}
        try:
            with self.while_waiting():
                return send(method, url, allows_http=self.allows_http, **options)
        except requests.ConnectionError as error:
            raise CommandFailed(f"{self.url} does not answer {_why(self.url, error)}") from error
        except requests.RequestException as error:
            raise CommandFailed(f"{method} {url}: {error}") from error


def namespace_path(name: str) -> str:
    """Return the ARM path of a namespace."""
    _check_names(name)
    return f"namespaces/{quote(name, safe='')}"


def topic_path(name: str) -> str:
    """
    Return the ARM path of a topic, or of a namespace topic: ``NAMESPACE.TOPIC``.

    ``systemTopics/NAME`` is a system topic, ``system-ACCOUNT`` a storage account, and
    ``system-this-deployment`` the deployment: their paths are where their event subscriptions are.
    """
    if name.lower().startswith(_SYSTEM_TOPICS.lower()):
        own = name[len(_SYSTEM_TOPICS) :]
        _check_names(own)
        return f"{_SYSTEM_TOPICS}{quote(own, safe='')}"
    if name.lower().startswith(_SYSTEM):
        source = name[len(_SYSTEM) :].lower()
        kind = _DEPLOYMENTS if source == _THIS_DEPLOYMENT else _ACCOUNTS
        return f"{kind}/{quote(source, safe='')}/providers/Microsoft.EventGrid"
    namespace, dot, topic = name.partition(".")
    _check_names(namespace, topic if dot else namespace)
    if not dot:
        return f"topics/{quote(name, safe='')}"
    return f"{namespace_path(namespace)}/topics/{quote(topic, safe='')}"


def subscription_path(topic: str, name: str) -> str:
    """Return the ARM path of an event subscription."""
    _check_names(name)
    return f"{topic_path(topic)}/eventSubscriptions/{quote(name, safe='')}"


def _check_names(*names: str) -> None:
    """Refuse an empty name, which would address a whole collection."""
    if not all(names):
        raise CommandFailed("a name is empty: write NAME, TOPIC or NAMESPACE.TOPIC")


def _skip_token(link: object) -> str:
    """
    Return where the next page begins, which is all that a ``nextLink`` is asked for.

    Its origin is the deployment's public URL, if not somebody else's: the key goes to ``--url``.
    """
    try:
        return parse_qs(urlsplit(str(link)).query)["$skiptoken"][0]
    except (KeyError, ValueError):
        raise CommandFailed("the answer's nextLink has no $skiptoken", REFUSED) from None


def _why(url: str, error: requests.ConnectionError) -> str:
    """Return why there is no answer from *url*, in brackets, and what to do."""
    scheme, _, rest = url.partition("://")
    reason = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    if "WRONG_VERSION_NUMBER" in str(reason):
        is_here = is_local(url)  # else whoever intercepts the connection asks for the key
        use = f"use http://{rest}" if is_here else "is the address, with its port, right?"
        return f"(it does not speak TLS): {use}"
    if "CERTIFICATE_VERIFY_FAILED" in str(reason):
        return (
            f"({cause(reason)}). If its certificate is of your own authority, name that one's file "
            "in REQUESTS_CA_BUNDLE; the URL needs a name that the certificate has."
        )
    was_cut = isinstance(reason, ProtocolError)
    if was_cut and scheme.lower() == "http":
        return f"(it closed the connection): if it speaks TLS, use https://{rest}"
    said = "it closed the connection" if was_cut else cause(reason)
    return (
        f"({said}). Start a deployment with 'pushgrid serve' or 'pushgrid dev', or name another "
        "one with --url or PUSHGRID_URL."
    )


def cause(error: object) -> str:
    """Return the last part of a chain of messages: what the system said."""
    said = str(error).rpartition(": ")[2].strip("'\")>")
    closing = ")" * (said.count("(") - said.count(")"))
    return f"{said}{closing}" or type(error).__name__
