"""Reads the command line and the settings, and runs the host."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from devhost import host_json, log, settings
from devhost.azurite import running_azurite
from devhost.errors import HostError
from devhost.host import Host
from devhost.http.server import LOOPBACK, reserved_port, sole_host
from devhost.queue.listener import INVISIBILITY
from devhost.triggers import Plan
from devhost.workers import Workers

_DEFAULT_PORT = 7071
_MOST_WORKERS = 64


def main(
    arguments: Sequence[str] | None = None, at_end: Callable[[], object] = lambda: None
) -> int:
    """Run the host, then *at_end* while its storage still exists; return the exit code."""
    options = _parser().parse_args(arguments)
    console = log.LineOutput()
    log.configure(console, {})
    # Python leaves it ignored in a shell's background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        with contextlib.ExitStack() as stack:
            plan = _plan(options, console, stack)
            if options.worker is None:
                stack.enter_context(sole_host(plan.port, plan.address))
            stack.callback(at_end)
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                if options.workers > 1:
                    return runner.run(_supervise(plan, options, console))
                runner.run(_serve(plan, options, console))
    except HostError as fault:
        console.error(f"devhost: {fault}")
        return 1
    except KeyboardInterrupt:
        console.error("devhost: interrupted")
        return 130
    return 0


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)


async def _serve(plan: Plan, options: argparse.Namespace, console: log.LineOutput) -> None:
    is_alone = options.worker is None
    started = console if is_alone else log.LineOutput(os.fdopen(options.worker, "w"))
    await Host(plan, console, started).run()


async def _supervise(plan: Plan, options: argparse.Namespace, console: log.LineOutput) -> int:
    with reserved_port(plan.port, plan.address) as alone:  # nobody else shares it
        port = alone.getsockname()[1]
    with reserved_port(port, plan.address, is_shared=True):  # also while no worker runs
        command = [sys.executable, "-m", "devhost", "--end-with-stdin", "--root", str(plan.root)]
        command += ["--host", plan.address, "--port", str(port)]
        command += ["--invisibility", str(plan.invisibility.total_seconds())]
        command += ["--tls"] if options.tls else []
        command += ["--admin-functions"] if options.admin_functions else []
        given = [name for name, _ in options.env] + ([settings.STORAGE] if options.azurite else [])
        for name in given:
            command += ["--env", name]  # from the environment, where it is by now
        return await Workers(command, options.workers, console, plan.invisibility).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devhost", description="Run an Azure Functions app on this machine."
    )
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the app (default: .)")
    parser.add_argument(
        "--port",
        type=_port,
        help="port the host listens on, 0 for a free one "
        f"(default: Host.LocalHttpPort in {settings.FILE}, or {_DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host",
        type=_address,
        default=IPv4Address(LOOPBACK),
        metavar="ADDRESS",
        help="IPv4 address to listen on; 0.0.0.0, for containers, is every address of the machine "
        f"(default: {LOOPBACK})",
    )
    parser.add_argument(
        "--admin-functions",
        action="store_true",
        help="start functions by hand (POST /admin/functions/NAME) also for other machines",
    )
    parser.add_argument(
        "--azurite", action="store_true", help="use temporary storage, discarded on exit"
    )
    parser.add_argument(
        "--blob-events",
        action="store_true",
        help="tell the app what clients change in Azurite's blobs, at an address that is printed",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="serve https, with a certificate of this user's own, and print what clients need",
    )
    parser.add_argument(
        "--workers",
        type=_workers,
        default=1,
        metavar="N",
        help="processes that share the port, and so the machine's cores; limits such as "
        "PUSHGRID_ENDPOINT_LIMIT are each one's own (default: 1)",
    )
    # The descriptor to which one of them writes the lines of its start.
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--end-with-stdin",
        action="store_true",
        help="end when standard input is closed, as it is if the process that started it is killed",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME[=VALUE]",
        help="setting that overrides the environment, or one to take from there without a warning "
        "(repeatable)",
    )
    parser.add_argument(
        "--invisibility",
        type=_seconds,
        default=INVISIBILITY,
        metavar="SECONDS",
        help="how long a received message is hidden; for tests (default: 600, as in Azure)",
    )
    return parser


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the maker of uvloop's loops, or None, which is asyncio's own, where it has none."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _plan(
    options: argparse.Namespace, console: log.LineOutput, stack: contextlib.ExitStack
) -> Plan:
    said = console if options.worker is None else log.LineOutput(io.StringIO())  # once, for all
    if options.blob_events and options.workers > 1:
        raise HostError("--blob-events needs one process: leave --workers out")
    root = options.root.resolve()
    if not root.is_dir():
        raise HostError(f"there is no folder {root}")
    local = settings.read_local_settings(root)
    given = dict(options.env)
    # Faults of host.json are reported before Azurite is started.
    host_json.read_host_json(root, os.environ | given)
    port = options.port if options.port is not None else local.port
    port = _DEFAULT_PORT if port is None else port
    if options.azurite:
        if settings.STORAGE in given:
            raise HostError(f"--azurite and --env {settings.STORAGE} exclude each other")
        with reserved_port(port, str(options.host)):
            pass
        azurite = stack.enter_context(running_azurite())
        console.plain(f"storage {azurite.connection_string}")
        given[settings.STORAGE] = azurite.connection_string
    certificate = _certificate(said) if options.tls else None
    for name in settings.overlay(os.environ, local.values, given):
        said.line(f"WARNING setting {name}: the environment overrides {settings.FILE}")
    if not options.host.is_loopback:
        said.line(f"WARNING listening on {options.host}: other machines can send requests")
    os.environ["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"
    if hasattr(time, "tzset"):
        time.tzset()
    read = host_json.read_host_json(root, os.environ)
    log.configure(console, read.log_levels)
    return Plan(
        root=root,
        address=str(options.host),
        port=port,
        options=read,
        environ=os.environ,
        invisibility=options.invisibility,
        certificate=certificate,
        starts_by_hand=options.host.is_loopback or options.admin_functions,
        shares_port=options.worker is not None,
        blob_events=options.blob_events,
    )


def _certificate(console: log.LineOutput) -> Path:
    from devhost.certificate_files import local_certificate, user_folder

    found = local_certificate(user_folder())
    for name, value in found.variables.items():
        console.plain(f"export {name}={shlex.quote(value)}")
    return found.server


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not (equals or name in os.environ):
        raise argparse.ArgumentTypeError("not NAME=VALUE, nor the name of a variable")
    return name, value if equals else os.environ[name]


def _address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an IPv4 address") from None


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > settings.LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 to {_MOST_WORKERS}")
    if int(text) > 1 and not hasattr(socket, "SO_REUSEPORT"):
        raise argparse.ArgumentTypeError("processes can't share a port on this system")
    return int(text)


def _seconds(text: str) -> timedelta:
    try:
        span = timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        span = timedelta(0)
    if not timedelta(seconds=1) <= span <= timedelta(days=7):
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 to 604800 seconds")
    return span
