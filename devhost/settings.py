"""
Reads the app's settings: the command line overrides the environment, that local.settings.json.

Functions read them from the environment, as on Azure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from devhost.errors import BadFunctionError, HostError

FILE = "local.settings.json"
STORAGE = "AzureWebJobsStorage"
LAST_PORT = 65535

_REFERENCE = re.compile(r"%([^%\s]+)%")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """The contents of local.settings.json; empty if there is no such file."""

    values: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None


def read_local_settings(root: Path) -> LocalSettings:
    """
    Read local.settings.json, which may be absent.

    Raises:
        HostError: it is malformed or encrypted.
    """
    document = read_json_object(root / FILE)
    if document is None:
        return LocalSettings()
    if document.get("IsEncrypted"):
        raise HostError(f"{FILE} is encrypted: decrypt it with `func settings decrypt`.")
    values = _texts(document.get("Values"), "Values")
    connections = _texts(document.get("ConnectionStrings"), "ConnectionStrings")
    values |= {f"ConnectionStrings:{name}": text for name, text in connections.items()}
    host = document.get("Host")
    port = host.get("LocalHttpPort") if isinstance(host, dict) else None
    if port is not None and (type(port) is not int or not 0 <= port <= LAST_PORT):
        raise HostError(f"{FILE}: Host.LocalHttpPort must be a number from 0 to {LAST_PORT}")
    return LocalSettings(values=values, port=port)


def overlay(
    environ: MutableMapping[str, str], local: Mapping[str, str], given: Mapping[str, str]
) -> tuple[str, ...]:
    """
    Put the app's settings into *environ*: *given* overrides it, and it overrides *local*.

    Returns the names in *local* that have another value in the environment.

    Raises:
        HostError: the environment can't have a setting of *local*.
    """
    lost = []
    for name, text in local.items():
        try:
            if environ.setdefault(name, text) != text and name not in given:
                lost.append(name)
        except (ValueError, OSError) as fault:
            raise HostError(f"{FILE}: {name!r} cannot be put in the environment") from fault
    environ.update(given)
    return tuple(lost)


def resolve(text: str, environ: Mapping[str, str], where: str) -> str:
    """
    Replace each `%NAME%` in a binding's *text* by that setting.

    Raises:
        BadFunctionError: a setting is missing; *where* is the member of the binding that names it.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environ:
            raise BadFunctionError(
                f"setting {name}, named by {where}, is missing: "
                f"set it in {FILE} (Values) or with --env"
            )
        return environ[name]

    return _REFERENCE.sub(value, text)


def read_json_object(path: Path) -> dict[str, object] | None:
    """
    Return the JSON object in *path*, or None where there is no such file.

    Raises:
        HostError: the file has other contents.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise HostError(f"{path.name} cannot be read: {fault.strerror}") from fault
    except (ValueError, RecursionError) as fault:
        raise HostError(f"{path.name} is not JSON: {fault}") from fault
    if not isinstance(document, dict):
        raise HostError(f"{path.name} must contain a JSON object")
    return document


def as_text(value: object) -> str | None:
    """Return the text of a JSON scalar, or None if *value* is not one."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _texts(section: object, name: str) -> dict[str, str]:
    if not isinstance(section, dict | None):
        raise HostError(f"{FILE}: {name} must be an object")
    texts: dict[str, str] = {}
    for key, value in (section or {}).items():
        text = as_text(value)
        if text is not None:
            texts[key] = text
        elif value is not None:
            raise HostError(f"{FILE}: {name}.{key} must be a string")
    return texts
