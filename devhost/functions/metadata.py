"""Reads and checks the function.json of each function folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from devhost import settings
from devhost.errors import BadFunctionError, HostError

_FUNCTION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,127}")
_QUEUE_NAME = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTrigger:
    kind: ClassVar = "httpTrigger"

    name: str
    #: None: the function's name.
    route: str | None
    #: Upper case; empty: all.
    methods: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTrigger:
    kind: ClassVar = "queueTrigger"

    name: str
    queue: str
    connection: str
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerTrigger:
    kind: ClassVar = "timerTrigger"

    name: str
    schedule: str
    run_on_startup: bool
    use_monitor: bool


Trigger = HttpTrigger | QueueTrigger | TimerTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionMetadata:
    """One function as its function.json describes it."""

    name: str
    script: Path
    entry_point: str
    trigger: Trigger
    #: An `http` output named `$return`.
    returns_http: bool
    disabled: bool


def folders(root: Path) -> list[Path]:
    """Return the folders of functions below *root*, ordered by name as in the real host."""
    return sorted(path.parent for path in root.glob("*/function.json"))


def is_queue_name(name: str) -> bool:
    """Return whether *name* is a legal queue name."""
    return bool(_QUEUE_NAME.fullmatch(name))


def read(folder: Path, environ: Mapping[str, str]) -> FunctionMetadata:
    """
    Return the metadata of the function in *folder*.

    Raises:
        BadFunctionError: it is malformed or has a binding that this host does not support.
    """
    try:
        document = settings.read_json_object(folder / "function.json") or {}
    except HostError as fault:
        raise BadFunctionError(str(fault)) from fault
    if not _FUNCTION_NAME.fullmatch(folder.name):
        raise BadFunctionError("the folder's name is not a legal function name")
    bindings = _bindings(document)
    triggers = [each for each in bindings if str(each["type"]).lower().endswith("trigger")]
    if len(triggers) != 1:
        types = ", ".join(str(each["type"]) for each in bindings)
        raise BadFunctionError(
            f"function.json has {len(triggers)} triggers instead of one; its bindings are {types}"
        )
    trigger = _trigger(triggers[0], environ)
    outputs = [each for each in bindings if each is not triggers[0]]
    for output in outputs:
        _check_output(output, trigger)
    return FunctionMetadata(
        name=folder.name,
        script=_script(folder, document),
        entry_point=_text(document, "entryPoint") or "main",
        trigger=trigger,
        returns_http=bool(outputs),
        disabled=_is_disabled(folder.name, environ),
    )


def _bindings(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = document.get("bindings")
    if not isinstance(listed, list) or not listed:
        raise BadFunctionError("function.json has no bindings")
    for position, each in enumerate(listed):
        if not isinstance(each, dict) or not _text(each, "type") or not _text(each, "name"):
            raise BadFunctionError(f"bindings[{position}] must be an object with a type and a name")
    return listed


def _trigger(binding: Mapping[str, object], environ: Mapping[str, str]) -> Trigger:
    if (_text(binding, "direction") or "in").lower() != "in":
        raise BadFunctionError("the trigger's direction must be in")
    match str(binding["type"]).lower():
        case "httptrigger":
            return _http_trigger(binding)
        case "queuetrigger":
            return _queue_trigger(binding, environ)
        case "timertrigger":
            return TimerTrigger(
                name=str(binding["name"]),
                schedule=_resolved(binding, "schedule", environ),
                run_on_startup=binding.get("runOnStartup") is True,
                use_monitor=binding.get("useMonitor") is not False,
            )
        case _:
            raise BadFunctionError(
                f"this host does not support {binding['type']}; "
                "it supports httpTrigger, queueTrigger and timerTrigger"
            )


def _http_trigger(binding: Mapping[str, object]) -> HttpTrigger:
    methods = binding.get("methods") or []
    if not isinstance(methods, list) or not all(isinstance(each, str) for each in methods):
        raise BadFunctionError("methods must be a list of strings")
    return HttpTrigger(
        name=str(binding["name"]),
        route=_text(binding, "route"),
        methods=frozenset(method.upper() for method in methods),
    )


def _queue_trigger(binding: Mapping[str, object], environ: Mapping[str, str]) -> QueueTrigger:
    queue = _resolved(binding, "queueName", environ).lower()
    if not is_queue_name(queue):
        raise BadFunctionError(
            "queueName is not legal: 3 to 63 of a-z, 0-9 and single inner dashes"
        )
    return QueueTrigger(
        name=str(binding["name"]),
        queue=queue,
        connection=_text(binding, "connection") or settings.STORAGE,
        binary=(_text(binding, "dataType") or "").lower() == "binary",
    )


def _resolved(binding: Mapping[str, object], member: str, environ: Mapping[str, str]) -> str:
    text = _text(binding, member)
    if not text:
        raise BadFunctionError(f"{binding['type']} has no {member}")
    return settings.resolve(text, environ, member)


def _check_output(binding: Mapping[str, object], trigger: Trigger) -> None:
    name, kind = binding["name"], str(binding["type"])
    direction = (_text(binding, "direction") or "in").lower()
    given = (name, kind.lower(), direction)
    if given != ("$return", "http", "out") or not isinstance(trigger, HttpTrigger):
        raise BadFunctionError(
            f"binding {name!r}: {kind} ({direction}) is not supported; "
            "besides the trigger this host supports http (out) named $return"
        )


def _script(folder: Path, document: Mapping[str, object]) -> Path:
    script = folder / (_text(document, "scriptFile") or "__init__.py")
    if not script.is_file():
        raise BadFunctionError(f"{script.name} is missing")
    return script


def _is_disabled(name: str, environ: Mapping[str, str]) -> bool:
    values = (
        environ.get(f"AzureWebJobs.{name}.Disabled"),
        environ.get(f"AzureWebJobs_{name}_Disabled"),
    )
    return any(str(value).strip().lower() in ("true", "1") for value in values)


def _text(document: Mapping[str, object], key: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise BadFunctionError(f"{key} must be a string")
    return value
