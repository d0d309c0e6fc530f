"""Reads the command line and the settings, and runs the host."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from ipaddress import IPv4Address
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
        command += ["--invisibility", str(options.invisibility)]
        command += ["--tls"] if options.tls else []
        command += ["--admin-functions"] if options.admin_functions else []
        command += ["--ends-as-azure"] if options.ends_as_azure else []
        # Settings are in the environment by now.
        return await Workers(command, options.workers, console, plan.invisibility).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devhost", description="Run an Azure Functions app on this machine."
    )
    add = parser.add_argument
    add("--root", type=Path, default=Path(), help="folder of the app (default: .)")
    add(
        "--port",
        type=_from_to(int, 0, settings.LAST_PORT),
        help="port the host listens on, 0 for a free one "
        f"(default: Host.LocalHttpPort in {settings.FILE}, or {_DEFAULT_PORT})",
    )
    add(
        "--host",
        type=IPv4Address,
        default=IPv4Address(LOOPBACK),
        metavar="ADDRESS",
        help="IPv4 address to listen on; 0.0.0.0, for containers, is every address of the machine "
        f"(default: {LOOPBACK})",
    )
    add(
        "--admin-functions",
        action="store_true",
        help="start functions by hand (POST /admin/functions/NAME) also for other machines",
    )
    add("--azurite", action="store_true", help="use temporary storage, discarded on exit")
    add(
        "--blob-events",
        action="store_true",
        help="tell the app what clients change in Azurite's blobs, at an address that is printed",
    )
    add(
        "--tls",
        action="store_true",
        help="serve https, with a certificate of this user's own, and print what clients need",
    )
    add(
        "--workers",
        type=_from_to(int, 1, 64),
        default=1,
        metavar="N",
        help="processes that share the port, and so the machine's cores; limits such as "
        "PUSHGRID_ENDPOINT_LIMIT are each one's own (default: 1)",
    )
    # The descriptor to which one of them writes the lines of its start.
    add("--worker", type=int, help=argparse.SUPPRESS)
    add(
        "--end-with-stdin",
        action="store_true",
        help="end when standard input is closed, as it is if the process that started it is killed",
    )
    add(
        "--env",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME[=VALUE]",
        help="setting that overrides the environment, or one to take from there without a warning "
        "(repeatable)",
    )
    add(
        "--ends-as-azure",
        action="store_true",
        help="end after 24 s without storage, with exit code 0; at a stop drop what is being "
        "received, wait 10 s in all, and call neither at_stop, at_end nor atexit functions",
    )
    add(
        "--invisibility",
        type=_from_to(float, 1, 604_800),
        default=INVISIBILITY.total_seconds(),
        metavar="SECONDS",
        help="how long a received message is hidden; for tests (default: 600, as in Azure)",
    )
    return parser


def _from_to(kind: type[int | float], low: int, high: int) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low} to {high}")
        return value

    return number


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not (equals or name in os.environ):
        raise argparse.ArgumentTypeError("not NAME=VALUE, nor the name of a variable")
    return name, value if equals else os.environ[name]


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
    notes = console if options.worker is None else log.LineOutput(io.StringIO())  # once, for all
    if options.blob_events and options.workers > 1:
        raise HostError("--blob-events needs one process: leave --workers out")
    root = options.root.resolve()
    if not root.is_dir():
        raise HostError(f"there is no folder {root}")
    local = settings.read_local_settings(root)
    given = dict(options.env)
    # Before Azurite is started: it may be faulty.
    read = host_json.read_host_json(root, {**local.values, **os.environ, **given})
    ports = (options.port, local.port, _DEFAULT_PORT)
    port = next(each for each in ports if each is not None)
    if options.azurite:
        if settings.STORAGE in given:
            raise HostError(f"--azurite and --env {settings.STORAGE} exclude each other")
        with reserved_port(port, str(options.host)):
            pass
        azurite = stack.enter_context(running_azurite())
        console.plain(f"storage {azurite.connection_string}")
        given[settings.STORAGE] = azurite.connection_string
    certificate = _certificate(notes) if options.tls else None
    for name in settings.overlay(os.environ, local.values, given):
        notes.line(f"WARNING setting {name}: the environment overrides {settings.FILE}")
    if not options.host.is_loopback:
        notes.line(f"WARNING listening on {options.host}: other machines can send requests")
    os.environ["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"
    log.configure(console, read.log_levels)
    return Plan(
        root=root,
        address=str(options.host),
        port=port,
        options=read,
        environ=os.environ,
        invisibility=timedelta(seconds=options.invisibility),
        certificate=certificate,
        starts_by_hand=options.host.is_loopback or options.admin_functions,
        shares_port=options.worker is not None,
        ends_as_azure=options.ends_as_azure,
        blob_events=options.blob_events,
    )


def _certificate(console: log.LineOutput) -> Path:
    from devhost.certificate_files import local_certificate, user_folder

    found = local_certificate(user_folder())
    for name, value in found.variables.items():
        console.plain(f"export {name}={shlex.quote(value)}")
    return found.server
