"""Knows what a deployment has: a file can refer to it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Protocol
from urllib.parse import quote

from cli.configuration.resources import ResourceId
from cli.deployment import Deployment
from shared.arm.member_names import FreeNames, Names, Shape

_HIDDEN = "…"
_QUOTED = re.compile(r"(?<!\w)'(.*?)'(?!\w)")
_KEY_SIZE = 32  # bytes, at least
_KNOWN: Mapping[str, Any] = {  # members that expressions may compare or count
    "provisioningState": "Succeeded",
    "publicNetworkAccess": "Enabled",
    "disableLocalAuth": False,
    "isZoneRedundant": False,
    "eventRetentionInDays": 1,
    "inboundIpRules": [],
    "labels": [],
    "privateEndpointConnections": [],
}


class MissingResource(Exception):
    """The deployment does not have a resource that a file refers to."""


class Answers(Protocol):
    """What functions of a template learn about a resource."""

    def document(self, own: ResourceId) -> Mapping[str, Any]:
        """Return its ARM document; raise `MissingResource`."""

    def keys(self, own: ResourceId) -> Mapping[str, Any]:
        """Return its access keys; raise `MissingResource`."""


class Placeholders:
    """
    Answers before anything is deployed: texts such as ``<inputSchema of topic orders>``.

    Endpoints are URIs and keys are Base64, so that expressions can take them apart.
    """

    def document(self, own: ResourceId) -> Mapping[str, Any]:
        """Return a document with every member that is documented."""
        found: dict[str, Any] = _placeholders(own.member_names, own)
        return {**found, "name": own.names[-1]}

    def keys(self, own: ResourceId) -> Mapping[str, Any]:
        """Return two keys."""
        return {name: _key(name, own) for name in ("key1", "key2")}


def _placeholders(shape: Names, own: ResourceId) -> dict[str, Any]:
    return {name: _value(name, inner, own) for name, inner in shape.below.items()}


def _value(name: str, shape: Shape, own: ResourceId) -> Any:
    if name in _KNOWN:
        return _KNOWN[name]
    if isinstance(shape, Names):
        return _placeholders(shape, own)
    return {} if isinstance(shape, FreeNames) else _placeholder(name, own)


def _placeholder(name: str, own: ResourceId) -> str:
    host = f"{'.'.join(map(quote, own.names))}.invalid"
    known = {"endpoint": f"https://{host}/api/events", "hostname": host}
    return known.get(name, f"<{name} of {own.title}>")


def _key(name: str, own: ResourceId) -> str:
    return b64encode(f"<{name} of {own.title}>".ljust(_KEY_SIZE).encode()).decode()


class DeploymentAnswers:
    """Answers of a deployment, which is asked once about each resource."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._documents: dict[ResourceId, Mapping[str, Any]] = {}
        self._keys: dict[ResourceId, Mapping[str, str]] = {}

    def document(self, own: ResourceId) -> Mapping[str, Any]:
        """Return its ARM document."""
        if own.folded not in self._documents:
            self._documents[own.folded] = self._found(own)
        return self._documents[own.folded]

    def keys(self, own: ResourceId) -> Mapping[str, str]:
        """Return its access keys."""
        if own.folded not in self._keys:
            self._found(own)
            self._keys[own.folded] = self._deployment.keys(own.path, None)
        return self._keys[own.folded]

    def without_keys(self, text: str) -> str:
        """Return a text for people, without the keys that it may have as they are."""
        for keys in list(self._keys.values()):
            for key in filter(None, keys.values()):
                text = text.replace(key, _HIDDEN)
        return text

    def _found(self, own: ResourceId) -> Mapping[str, Any]:
        document: Mapping[str, Any] | None = self._deployment.find(own.path)
        if document is None:
            raise MissingResource(f"the deployment has no {own.kind} {own.name}")
        return document


class ResourceAnswers:
    """Answers for the document of one resource; placeholders stand for what is *missing* yet."""

    def __init__(
        self, answers: DeploymentAnswers, missing: AbstractSet[ResourceId] = frozenset()
    ) -> None:
        self._answers = answers
        self._missing = missing
        self.has_keys = False  # whether the document may hold keys, in any form

    def document(self, own: ResourceId) -> Mapping[str, Any]:
        """Return its ARM document."""
        return self._source(own).document(own)

    def keys(self, own: ResourceId) -> Mapping[str, Any]:
        """Return its access keys."""
        self.has_keys = True
        return self._source(own).keys(own)

    def without_keys(self, text: str, known: AbstractSet[str]) -> str:
        """Return a text for people; with keys it quotes nothing but *known* texts of the file."""

        def shown(match: re.Match[str]) -> str:
            return match[0] if match[1] in known else f"'{_HIDDEN}'"

        text = self._answers.without_keys(text)
        return _QUOTED.sub(shown, text) if self.has_keys else text

    def _source(self, own: ResourceId) -> Answers:
        return Placeholders() if own.folded in self._missing else self._answers
