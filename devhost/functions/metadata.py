"""Reads and checks the function.json of each function folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devhost import settings
from devhost.errors import BadFunctionError, HostError

_FUNCTION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,127}")
_BINDING_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}|\$return")
_QUEUE_NAME = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_AUTH_LEVELS = ("anonymous", "function", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTrigger:
    """`httpTrigger`."""

    name: str
    #: None: the function's name.
    route: str | None
    #: Upper case; empty: all.
    methods: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTrigger:
    """`queueTrigger`."""

    name: str
    queue: str
    connection: str
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerTrigger:
    """`timerTrigger`."""

    name: str
    schedule: str
    run_on_startup: bool
    use_monitor: bool


Trigger = HttpTrigger | QueueTrigger | TimerTrigger

BINDING_TYPES: Mapping[type[Trigger], str] = {
    HttpTrigger: "httpTrigger",
    QueueTrigger: "queueTrigger",
    TimerTrigger: "timerTrigger",
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFunction:
    """A folder whose function.json cannot be served, and the reason."""

    name: str
    fault: str


def scan(root: Path, environ: Mapping[str, str]) -> tuple[FunctionMetadata | BadFunction, ...]:
    """Read all functions below *root*, ordered by name as in the real host."""
    found = sorted(path.parent for path in root.glob("*/function.json"))
    return tuple(_read(folder, environ) for folder in found)


def is_queue_name(name: str) -> bool:
    """Return whether *name* is a legal queue name."""
    return bool(_QUEUE_NAME.fullmatch(name))


def _read(folder: Path, environ: Mapping[str, str]) -> FunctionMetadata | BadFunction:
    try:
        document = settings.read_json_object(folder / "function.json") or {}
        return parse(folder, document, environ)
    except HostError as fault:
        return BadFunction(name=folder.name, fault=str(fault))


def parse(
    folder: Path, document: Mapping[str, object], environ: Mapping[str, str]
) -> FunctionMetadata:
    """
    Return the metadata in one function.json *document*.

    Raises:
        BadFunctionError: it is malformed or has a binding that this host does not support.
    """
    if not _FUNCTION_NAME.fullmatch(folder.name):
        raise BadFunctionError("the folder's name is not a legal function name")
    bindings = _bindings(document)
    trigger = _trigger(bindings, environ)
    outputs = [binding for binding in bindings if binding["name"] != trigger.name]
    for output in outputs:
        _check_output(output, trigger)
    return FunctionMetadata(
        name=folder.name,
        script=_script(folder, document),
        entry_point=_text(document, "entryPoint") or "main",
        trigger=trigger,
        returns_http=bool(outputs),
        disabled=_is_disabled(folder.name, document, environ),
    )


def _bindings(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = document.get("bindings")
    if not isinstance(listed, list) or not listed:
        raise BadFunctionError("function.json has no bindings")
    for position, binding in enumerate(listed):
        if not isinstance(binding, dict) or not _text(binding, "type"):
            raise BadFunctionError(f"bindings[{position}] must be an object with a type")
        name = _text(binding, "name") or ""
        if not _BINDING_NAME.fullmatch(name):
            raise BadFunctionError(f"bindings[{position}] has an illegal name: {name!r}")
    names = [binding["name"] for binding in listed]
    for name in names:
        if names.count(name) > 1:
            raise BadFunctionError(f"two bindings are named {name!r}")
    return listed


def _trigger(bindings: Iterable[Mapping[str, object]], environ: Mapping[str, str]) -> Trigger:
    triggers = [each for each in bindings if str(each["type"]).lower().endswith("trigger")]
    if len(triggers) != 1:
        types = ", ".join(str(each["type"]) for each in bindings)
        raise BadFunctionError(
            f"function.json has {len(triggers)} triggers instead of one; its bindings are {types}"
        )
    (binding,) = triggers
    if (_text(binding, "direction") or "in").lower() != "in":
        raise BadFunctionError("the trigger's direction must be in")
    match str(binding["type"]).lower():
        case "httptrigger":
            return _http_trigger(binding)
        case "queuetrigger":
            return _queue_trigger(binding, environ)
        case "timertrigger":
            return _timer_trigger(binding, environ)
        case _:
            raise BadFunctionError(
                f"this host does not support {binding['type']}; "
                "it supports httpTrigger, queueTrigger and timerTrigger"
            )


def _http_trigger(binding: Mapping[str, object]) -> HttpTrigger:
    methods = binding.get("methods")
    if methods is not None and not (
        isinstance(methods, list) and all(isinstance(method, str) for method in methods)
    ):
        raise BadFunctionError("methods must be a list of strings")
    level = (_text(binding, "authLevel") or "function").lower()
    if level not in _AUTH_LEVELS:
        raise BadFunctionError(f"authLevel {level!r} is not anonymous, function or admin")
    return HttpTrigger(
        name=str(binding["name"]),
        route=_text(binding, "route"),
        methods=frozenset(str(method).upper() for method in methods or ()),
    )


def _queue_trigger(binding: Mapping[str, object], environ: Mapping[str, str]) -> QueueTrigger:
    text = _text(binding, "queueName")
    if not text:
        raise BadFunctionError("queueTrigger has no queueName")
    queue = settings.resolve(text, environ, "queueName").lower()
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


def _timer_trigger(binding: Mapping[str, object], environ: Mapping[str, str]) -> TimerTrigger:
    text = _text(binding, "schedule")
    if not text:
        raise BadFunctionError("timerTrigger has no schedule")
    return TimerTrigger(
        name=str(binding["name"]),
        schedule=settings.resolve(text, environ, "schedule"),
        run_on_startup=binding.get("runOnStartup") is True,
        use_monitor=binding.get("useMonitor") is not False,
    )


def _check_output(binding: Mapping[str, object], trigger: Trigger) -> None:
    kind, direction = str(binding["type"]), (_text(binding, "direction") or "").lower()
    if direction not in ("", "in", "out"):
        raise BadFunctionError(
            f"binding {binding['name']!r}: direction {direction} is not supported"
        )
    if kind.lower() != "http" or direction != "out" or not isinstance(trigger, HttpTrigger):
        raise BadFunctionError(
            f"binding {binding['name']!r}: {kind} ({direction or 'in'}) is not supported; "
            "besides the trigger this host supports http (out)"
        )
    if binding["name"] != "$return":
        raise BadFunctionError("the http output must be named $return")


def _script(folder: Path, document: Mapping[str, object]) -> Path:
    named = _text(document, "scriptFile")
    if named:
        script = Path(folder, named)
    elif (folder / "__init__.py").exists():
        script = folder / "__init__.py"
    else:
        scripts = list(folder.glob("*.py"))
        script = scripts[0] if len(scripts) == 1 else folder / "__init__.py"
    if not script.is_file():
        raise BadFunctionError(f"{script.name} is missing")
    return script


def _is_disabled(name: str, document: Mapping[str, object], environ: Mapping[str, str]) -> bool:
    disabled = document.get("disabled")
    # A string names the setting that decides.
    if isinstance(disabled, str):
        disabled = environ.get(disabled.strip("%"), "")
    values = [
        environ.get(f"AzureWebJobs.{name}.Disabled", ""),
        environ.get(f"AzureWebJobs_{name}_Disabled", ""),
        str(disabled),
    ]
    return any(text.strip().lower() in ("true", "1") for text in values)


def _text(document: Mapping[str, object], key: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise BadFunctionError(f"{key} must be a string")
    return value
