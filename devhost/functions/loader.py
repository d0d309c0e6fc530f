"""
Imports functions as the Python worker does and keeps each one's fault.

Source: PyPI azure-functions-runtime-v1 1.2.0, against which tests/worker compares it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import inspect
import sys
import traceback
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import azure.functions as func

from devhost.errors import HostError, class_and_message
from devhost.functions.metadata import FunctionMetadata

NAMESPACE = "__app__"
_CONTEXT = "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function to call, or the reason why each call of it fails."""

    metadata: FunctionMetadata
    #: None: it could not be loaded, for the reason in *fault*.
    call: Callable[..., Any] | None = None
    is_async: bool = False
    wants_context: bool = False
    #: Annotated `str` or `bytes`: it gets the trigger's data itself.
    is_generic: bool = False
    fault: str | None = None
    #: The app's part of the traceback, if the fault was raised there.
    trace: str = ""


class FunctionLoadError(Exception):
    """The worker would refuse the function; the text is the worker's."""


def prepare(root: Path) -> None:
    """Make *root*'s folders importable below `__app__`, and its other modules by name."""
    namespace = types.ModuleType(NAMESPACE)
    namespace.__path__ = [str(root)]
    sys.modules[NAMESPACE] = namespace
    # Last, as on Azure, where an installed package of the same name wins. `-m` has put its own
    # folder first, which the app must not import from.
    removed = (root, Path(__file__).parents[2])
    sys.path[:] = [each for each in sys.path if Path(each).resolve() not in removed]
    sys.path.append(str(root))
    importlib.invalidate_caches()


def load(metadata: FunctionMetadata) -> Function:
    """
    Import one function and check its signature; the function's fault is kept with it.

    Raises:
        HostError: an exception with a true ``ends_host`` says that no part of the app can work.
    """
    try:
        call = _import(metadata)
        wants_context = _check_signature(call, metadata)
    except FunctionLoadError as fault:
        text = f"cannot load the {metadata.name} function: {fault}"
        return _broken(metadata, FunctionLoadError(text))
    # Ctrl-C during the import.
    except KeyboardInterrupt:
        raise
    # A module may raise anything, even SystemExit; the other functions are served.
    except BaseException as fault:
        if getattr(fault, "ends_host", False):
            raise HostError(f"the app can't start: {class_and_message(fault)}") from fault
        return _broken(metadata, fault, app_traceback(fault))
    return Function(
        metadata=metadata,
        call=call,
        is_async=inspect.iscoroutinefunction(call),
        wants_context=wants_context,
        is_generic=typing.get_type_hints(call).get(metadata.trigger.name) in (str, bytes),
    )


def _broken(metadata: FunctionMetadata, fault: BaseException, trace: str = "") -> Function:
    return Function(metadata=metadata, fault=class_and_message(fault), trace=trace)


def app_traceback(fault: BaseException) -> str:
    """Return the app's part of the traceback of *fault* and its causes; empty if it has none."""
    lines = traceback.TracebackException.from_exception(fault)
    return "".join(lines.format()).rstrip() if _keep_app_frames(lines) else ""


def _keep_app_frames(lines: traceback.TracebackException) -> bool:
    frames = [frame for frame in lines.stack if not frame.filename.startswith(_NOT_THE_APPS)]
    lines.stack = traceback.StackSummary.from_list(frames)
    if lines.__cause__ and not _keep_app_frames(lines.__cause__):
        lines.__cause__ = None
    if lines.__context__ and not _keep_app_frames(lines.__context__):
        lines.__context__ = None
    return bool(frames)


def _others_code(own: Path, packages: Path) -> tuple[str, ...]:
    """
    Return how the paths begin whose code is not the app's: this package's and the libraries'.

    Where this package is installed, the app is installed beside it.
    """
    installed = packages / "azure" if own.is_relative_to(packages) else packages
    modules = (asyncio, concurrent.futures, importlib)
    standard = (Path(str(each.__file__)).parent for each in modules)
    return ("<frozen importlib", *map(str, (own, installed, *standard)))


_NOT_THE_APPS = _others_code(Path(__file__).parents[1], Path(func.__file__).parents[2])


def _import(metadata: FunctionMetadata) -> Callable[..., Any]:
    script = metadata.script
    if script.suffix != ".py":
        raise FunctionLoadError(f"scriptFile {script.name} is not a .py file")
    parts = [NAMESPACE, metadata.name]
    if script.stem.lower() != "__init__":
        parts.append(script.stem)
    module = importlib.import_module(".".join(parts))
    call = getattr(module, metadata.entry_point, None)
    if call is None or not callable(call):
        raise FunctionLoadError(f"{script.name} has no function {metadata.entry_point}")
    return typing.cast("Callable[..., Any]", call)


def _check_signature(call: Callable[..., Any], metadata: FunctionMetadata) -> bool:
    parameters, hints = inspect.signature(call).parameters, typing.get_type_hints(call)
    trigger = metadata.trigger
    wants_context = _CONTEXT in parameters and trigger.name != _CONTEXT
    if wants_context and getattr(hints.get(_CONTEXT, func.Context), "__name__", "") != "Context":
        raise FunctionLoadError(
            'the "context" parameter is expected to be of type azure.functions.Context, '
            f'got "{hints[_CONTEXT]!r}"',
        )
    declared = set(parameters) - ({_CONTEXT} if wants_context else set())
    if extra := declared - {trigger.name}:
        raise FunctionLoadError(
            f"the following parameters are declared in Python but not in function.json: {extra!r}",
        )
    if trigger.name not in declared:
        raise FunctionLoadError(
            "the following parameters are declared in function.json but not in Python: "
            + repr({trigger.name}),
        )
    _check_annotations(hints, metadata)
    return wants_context


def _check_annotations(hints: Mapping[str, Any], metadata: FunctionMetadata) -> None:
    name, kind = metadata.trigger.name, metadata.trigger.kind
    converter = func.get_binding_registry().get(kind)
    if name in hints and not isinstance(hints[name], type):
        raise FunctionLoadError(f"binding {name} has invalid non-type annotation {hints[name]!r}")
    annotation = hints.get(name, str)
    if annotation not in (str, bytes) and not converter.check_input_type_annotation(annotation):
        raise FunctionLoadError(
            f'type of {name} binding in function.json "{kind}" does not match its Python '
            f'annotation "{annotation.__name__}"',
        )
    returned = hints.get("return", str)
    if not metadata.returns_http:
        return
    if not isinstance(returned, type):
        raise FunctionLoadError(f"has invalid non-type return annotation {returned!r}")
    if not issubclass(returned, (func.HttpResponse, str)):
        raise FunctionLoadError(
            f'Python return annotation "{returned.__name__}" does not match binding type "http"',
        )
