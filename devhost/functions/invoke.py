"""
Invokes a function: converts its input, calls it on the loop or a thread, converts its output.

Source: PyPI azure-functions-runtime-v1 1.2.0, against which tests/worker compares it.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import random
import threading
import time
import types
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import timedelta
from typing import NamedTuple

import azure.functions as func
from azure.functions.meta import Datum

from devhost import log
from devhost.errors import BrokenFunctionError, InvocationError
from devhost.functions.loader import Function

# Not uuid4: it asks the system, and other threads run before the loop goes on. The app may seed
# Python's own generator.
_random = random.Random()  # noqa: S311 - ids only


class Report(NamedTuple):
    """The result of one invocation."""

    name: str
    invocation_id: str
    milliseconds: float
    fault: BaseException | None  # None: it succeeded


_thread_local = threading.local()


class Invoker:
    """Runs functions: `async def` on the loop, `def` on the app's threads; *report*s each run."""

    def __init__(
        self,
        *,
        threads: Executor,
        timeout: timedelta | None,
        report: Callable[[Report], None],
    ) -> None:
        self._threads = threads
        self._timeout = timeout.total_seconds() if timeout else None
        self._report = report
        self._registry = func.get_binding_registry()
        #: How many invocations are in progress.
        self.running = 0

    async def invoke(
        self, function: Function, data: Datum, trigger_metadata: Mapping[str, Datum] | None
    ) -> Datum | None:
        """
        Call *function* with its trigger's *data* and return its output for `$return`.

        Raises:
            InvocationError: it failed; the failure has been reported.
        """
        started = time.perf_counter()
        invocation_id = str(uuid.UUID(int=_random.getrandbits(128), version=4))
        fault: BaseException | None = None
        self.running += 1
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                return await self._run(function, data, trigger_metadata, invocation_id)
        # Anything the app raises, even SystemExit or CancelledError, is one failed invocation.
        except BaseException as raised:
            fault = raised
            if isinstance(raised, asyncio.CancelledError) and _is_cancelled():
                fault = asyncio.CancelledError("the host ends")  # with no trace of where it waited
                raise
            if isinstance(raised, TimeoutError) and deadline.expired():
                fault = TimeoutError(f"functionTimeout of {self._timeout:g} s exceeded")
            raise InvocationError from raised
        finally:
            self.running -= 1
            milliseconds = (time.perf_counter() - started) * 1000
            self._report(Report(function.metadata.name, invocation_id, milliseconds, fault))

    async def _run(
        self,
        function: Function,
        data: Datum,
        trigger_metadata: Mapping[str, Datum] | None,
        invocation_id: str,
    ) -> Datum | None:
        if function.call is None:
            raise BrokenFunctionError(function.fault)
        trigger = function.metadata.trigger
        arguments = {trigger.name: self._decode(function, data, trigger_metadata)}
        if function.wants_context:
            arguments["context"] = _context(function, invocation_id)
        token = log.running.set(function.metadata.name)
        try:
            if function.is_async:
                returned = await function.call(**arguments)
            else:
                run = contextvars.copy_context().run
                call = functools.partial(run, _call, function.call, arguments, invocation_id)
                returned = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        finally:
            log.running.reset(token)
        return self._encode(function, returned)

    def _decode(
        self, function: Function, data: Datum, trigger_metadata: Mapping[str, Datum] | None
    ) -> object:
        if function.is_generic:
            if data.type == "http":
                raise ValueError("a request cannot be passed as str or bytes")
            return data.value
        converter = self._registry.get(function.metadata.trigger.kind)
        decoded: object = converter.decode(data, trigger_metadata=trigger_metadata)
        return decoded

    def _encode(self, function: Function, returned: object) -> Datum | None:
        if not function.metadata.returns_http:
            if returned is None:
                return None
            raise RuntimeError(
                f"function {function.metadata.name!r} without a $return binding "
                "returned a non-None value"
            )
        try:
            datum: Datum = self._registry.get("http").encode(returned, expected_type=None)
        except NotImplementedError:
            raise TypeError(
                f"an http output cannot be a {type(returned).__name__}; "
                "it can be azure.functions.HttpResponse or str"
            ) from None
        return datum


def _context(function: Function, invocation_id: str) -> types.SimpleNamespace:
    """Return the argument of a function that declares `context`."""
    return types.SimpleNamespace(
        invocation_id=invocation_id,
        thread_local_storage=_thread_local,
        function_name=function.metadata.name,
        function_directory=str(function.metadata.script.parent),
        trace_context=types.SimpleNamespace(trace_parent="", trace_state="", attributes={}),
        retry_context=types.SimpleNamespace(retry_count=0, max_retry_count=0, rpc_exception=None),
    )


def _is_cancelled() -> bool:
    """Return whether the task was cancelled: the app may raise CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _call(
    call: Callable[..., object], arguments: Mapping[str, object], invocation_id: str
) -> object:
    _thread_local.invocation_id = invocation_id
    try:
        return call(**arguments)
    except StopIteration as fault:
        # A future cannot carry it, and the invocation would wait forever.
        raise RuntimeError("the function raised StopIteration") from fault
