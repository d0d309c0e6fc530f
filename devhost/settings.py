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
    return LocalSettings(values=values, port=_port(document.get("Host")))


def overlay(
    environ: MutableMapping[str, str], local: Mapping[str, str], given: Mapping[str, str]
) -> tuple[str, ...]:
    """
    Put the app's settings into *environ*: *given* overrides it, and it overrides *local*.

    Returns the names in *local* that have another value in the environment.
    """
    lost = tuple(
        name
        for name, text in local.items()
        if name not in given and environ.get(name, text) != text
    )
    for name, text in local.items():
        environ.setdefault(name, text)
    environ.update(given)
    return lost


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
    except UnicodeDecodeError as fault:
        raise HostError(f"{path.name} is not UTF-8: byte {fault.start}") from fault
    except json.JSONDecodeError as fault:
        raise HostError(
            f"{path.name} is not JSON: line {fault.lineno}, column {fault.colno}: {fault.msg}"
        ) from fault
    except ValueError as fault:
        # Python's limit is 4,300 digits.
        raise HostError(f"{path.name} contains a number that is too long") from fault
    except RecursionError as fault:
        raise HostError(f"{path.name} is nested too deeply") from fault
    if not isinstance(document, dict):
        raise HostError(f"{path.name} must contain a JSON object")
    return document


def as_text(value: object) -> str | None:
    """Return the text of a JSON scalar, or None if *value* is not one."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return None


def _texts(section: object, name: str) -> dict[str, str]:
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise HostError(f"{FILE}: {name} must be an object")
    texts = {key: as_text(value) for key, value in section.items() if value is not None}
    for key, text in texts.items():
        if text is None:
            raise HostError(f"{FILE}: {name}.{key} must be a string")
        if not key or "=" in key or not _is_environment(key) or not _is_environment(text):
            raise HostError(f"{FILE}: {name}.{key!r} cannot be put in the environment")
    return {key: text for key, text in texts.items() if text is not None}


def _is_environment(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    # JSON can contain half of a surrogate pair; UTF-8 cannot.
    except UnicodeEncodeError:
        return False


def _port(section: object) -> int | None:
    port = section.get("LocalHttpPort") if isinstance(section, dict) else None
    if port is None:
        return None
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= LAST_PORT:
        raise HostError(f"{FILE}: Host.LocalHttpPort must be a number from 0 to {LAST_PORT}")
    return port
