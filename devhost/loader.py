"""Loads functions the way the Python worker does, and keeps what is wrong with each of them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import sys
import traceback
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azure.functions as func

from devhost.metadata import BINDING_TYPES, FunctionMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = "__app__"
_CONTEXT = "context"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function ready to be called, or the reason why each call of it fails."""

    metadata: FunctionMetadata
    call: Callable[..., Any]
    is_async: bool = False
    wants_context: bool = False
    fault: str | None = None


class _UnusableError(Exception):
    """The worker would refuse the function."""


def prepare(root: Path) -> None:
    """Make *root*'s folders importable below `__app__`, and what they share by its own name."""
    namespace = types.ModuleType(NAMESPACE)
    namespace.__path__ = [str(root)]
    sys.modules[NAMESPACE] = namespace
    # Last, as in Azure: an installed package of the same name wins there as well. And `-m` has put
    # the folder it was started from first, which is none of the app's business.
    ours = (root, Path(__file__).parents[1])
    sys.path[:] = [each for each in sys.path if Path(each).resolve() not in ours]
    sys.path.append(str(root))
    importlib.invalidate_caches()


def load(metadata: FunctionMetadata) -> Function:
    """Import one function and check its signature; never raises for a fault of the function."""
    try:
        call = _import(metadata)
        wants_context = _check_signature(call, metadata)
    except _UnusableError as fault:
        return _broken(metadata, str(fault))
    # A module may raise anything at all, and may even try to leave: the other functions go on.
    except (Exception, SystemExit) as fault:  # noqa: BLE001
        _log.error("%s cannot be imported\n%s", metadata.name, _apps_traceback(fault))
        return _broken(metadata, f"import failed: {type(fault).__name__}: {fault}")
    return Function(
        metadata=metadata,
        call=call,
        is_async=inspect.iscoroutinefunction(call),
        wants_context=wants_context,
    )


def _broken(metadata: FunctionMetadata, fault: str) -> Function:
    def call(**_: object) -> None:
        raise RuntimeError(fault)

    return Function(metadata=metadata, call=call, fault=fault)


def _apps_traceback(fault: BaseException) -> str:
    lines = traceback.TracebackException.from_exception(fault)
    frames = [
        frame
        for frame in lines.stack
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    lines.stack = traceback.StackSummary.from_list(frames)
    return "".join(lines.format()).rstrip()


def _import(metadata: FunctionMetadata) -> Callable[..., Any]:
    script = metadata.script
    if script.suffix != ".py":
        raise _UnusableError(f"scriptFile must be a .py file: {script.name}")
    parts = [NAMESPACE, metadata.name]
    if script.stem.lower() != "__init__":
        parts.append(script.stem)
    module = importlib.import_module(".".join(parts))
    call = getattr(module, metadata.entry_point, None)
    if call is None or not callable(call):
        raise _UnusableError(f"{script.name} has no function {metadata.entry_point}")
    return typing.cast("Callable[..., Any]", call)


def _check_signature(call: Callable[..., Any], metadata: FunctionMetadata) -> bool:
    parameters = inspect.signature(call).parameters
    trigger = metadata.trigger
    wants_context = _CONTEXT in parameters and trigger.name != _CONTEXT
    declared = set(parameters) - ({_CONTEXT} if wants_context else set())
    if extra := sorted(declared - {trigger.name}):
        raise _UnusableError(f"parameters not in function.json: {', '.join(extra)}")
    if trigger.name not in declared:
        raise _UnusableError(f"function.json's {trigger.name!r} is not a parameter")
    _check_annotations(call, metadata, wants_context=wants_context)
    return wants_context


def _check_annotations(
    call: Callable[..., Any], metadata: FunctionMetadata, *, wants_context: bool
) -> None:
    try:
        hints = typing.get_type_hints(call)
    except NameError as fault:
        raise _UnusableError(f"an annotation cannot be resolved: {fault}") from fault
    if wants_context and not _is_class_below(hints.get(_CONTEXT, func.Context), func.Context):
        raise _UnusableError("context must be annotated azure.functions.Context")
    name, kind = metadata.trigger.name, BINDING_TYPES[type(metadata.trigger)]
    converter = func.get_binding_registry().get(kind)
    annotation = hints.get(name, Any)
    fits = isinstance(annotation, type) and converter.check_input_type_annotation(annotation)
    if annotation is not Any and not fits:
        raise _UnusableError(f"the annotation of {name} does not fit a {kind}")
    if metadata.returns_http:
        returned = hints.get("return", str)
        if isinstance(returned, type) and not issubclass(returned, (func.HttpResponse, str)):
            raise _UnusableError(
                "the return annotation must be azure.functions.HttpResponse or str"
            )


def _is_class_below(annotation: object, wanted: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, wanted)
