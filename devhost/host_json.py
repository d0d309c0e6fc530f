"""
Reads host.json; `AzureFunctionsJobHost__…` in the environment overrides it.

Source: azure-functions-host Config/HostJsonFileConfigurationSource.cs and
ScriptJobHostOptionsSetup.cs; Storage.Common Queues/QueuesOptions.cs (2024-10).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from devhost.errors import HostError
from devhost.settings import as_text, read_json_object

_OVERRIDE = re.compile(r"azurefunctionsjobhost(?:__|:)(.+)", re.IGNORECASE | re.DOTALL)
_SEPARATOR = re.compile(r"__|:")
_TIME_SPAN = re.compile(r"(?:(\d+)\.)?([01]?\d|2[0-3]):([0-5]?\d):([0-5]?\d(?:\.\d{1,7})?)")
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 10,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """`extensions.queues`."""

    batch_size: int = 16
    new_batch_threshold: int = 8
    max_polling_interval: timedelta = timedelta(seconds=2)
    max_dequeue_count: int = 5
    #: How long a message is hidden after a failed invocation.
    visibility_timeout: timedelta = timedelta(0)
    base64: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """`singleton`: the lease of a timer."""

    period: timedelta
    recovery_polling_interval: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The options in host.json that this host supports."""

    queues: QueueOptions
    lock: LockOptions
    route_prefix: str
    #: None: unlimited.
    function_timeout: timedelta | None
    #: A level of `logging` by lower-cased category.
    log_levels: Mapping[str, int]


def read_host_json(root: Path, environ: Mapping[str, str]) -> HostOptions:
    """
    Read host.json with the overrides in *environ*.

    Raises:
        HostError: it is missing or malformed, or a value is out of range, as in the real host.
    """
    document = read_json_object(root / "host.json")
    if document is None:
        raise HostError(f"no host.json in {root}: it is not the folder of a function app")
    if document.get("version") != "2.0":
        raise HostError('host.json must say "version": "2.0"')
    flat = dict(_flatten(document, ()))
    for name, text in environ.items():
        if match := _OVERRIDE.fullmatch(name):
            flat[":".join(_SEPARATOR.split(match[1])).lower()] = text
    return _options(_Section(flat))


def parse_time_span(text: str) -> timedelta | None:
    """Parse .NET's `[d.]hh:mm:ss[.fffffff]`; None: it is not of that form."""
    match = _TIME_SPAN.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Section:
    """Settings by lower-cased path, such as `extensions:queues:batchsize`."""

    flat: Mapping[str, str]

    def text(self, path: str, default: str) -> str:
        return self.flat.get(path.replace(".", ":").lower(), default)

    def whole(self, path: str, default: int, low: int, high: int = 2**31 - 1) -> int:
        text = self.text(path, str(default)).strip()
        if not re.fullmatch(r"\d{1,10}", text) or not low <= int(text) <= high:
            raise HostError(f"host.json: {path} must be a number from {low} to {high}")
        return int(text)

    def span(
        self, path: str, default: str, low: timedelta, high: timedelta = timedelta.max
    ) -> timedelta:
        span = parse_time_span(self.text(path, default).strip())
        if span is None or not low <= span <= high:
            limits = f"{low} or more" if high == timedelta.max else f"from {low} to {high}"
            raise HostError(f"host.json: {path} must be a time such as 00:00:02, {limits}")
        return span


def _options(section: _Section) -> HostOptions:
    unlimited = section.text("functionTimeout", "").strip() == "-1"
    second = timedelta(seconds=1)
    return HostOptions(
        queues=_queue_options(section),
        lock=LockOptions(
            # The limits of storage.
            period=section.span(
                "singleton.listenerLockPeriod", "00:01:00", 15 * second, 60 * second
            ),
            recovery_polling_interval=section.span(
                "singleton.listenerLockRecoveryPollingInterval", "00:01:00", second
            ),
        ),
        route_prefix=section.text("extensions.http.routePrefix", "api").strip("/"),
        function_timeout=None if unlimited else section.span("functionTimeout", "00:30:00", second),
        log_levels=_log_levels(section),
    )


def _queue_options(section: _Section) -> QueueOptions:
    batch_size = section.whole("extensions.queues.batchSize", 16, 1, 32)
    threshold = batch_size // 2 * (os.cpu_count() or 1)
    encoding = section.text("extensions.queues.messageEncoding", "base64").lower()
    if encoding not in ("base64", "none"):
        raise HostError("host.json: extensions.queues.messageEncoding must be base64 or none")
    return QueueOptions(
        batch_size=batch_size,
        new_batch_threshold=section.whole("extensions.queues.newBatchThreshold", threshold, 0),
        # Core Tools' environment, Development, makes it 2 s; the default on Azure is a minute.
        max_polling_interval=section.span(
            "extensions.queues.maxPollingInterval", "00:00:02", timedelta(milliseconds=100)
        ),
        max_dequeue_count=section.whole("extensions.queues.maxDequeueCount", 5, 1),
        visibility_timeout=section.span(
            "extensions.queues.visibilityTimeout", "00:00:00", timedelta(0)
        ),
        base64=encoding == "base64",
    )


def _log_levels(section: _Section) -> dict[str, int]:
    levels = {}
    for path, text in section.flat.items():
        _, prefix, category = path.rpartition("logging:loglevel:")
        if prefix and text.lower() not in _LEVELS:
            raise HostError(
                f"host.json: logging.logLevel.{category} "
                "must be Trace, Debug, Information, Warning, Error, Critical or None"
            )
        if prefix:
            levels[category] = _LEVELS[text.lower()]
    return levels


def _flatten(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, (*path, str(key).lower()))
    elif (text := as_text(value)) is not None:
        yield ":".join(path), text
