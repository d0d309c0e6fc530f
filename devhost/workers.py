"""Runs the host as several processes on one port, and restarts those that die."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from datetime import timedelta

from devhost.log import LineOutput

_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
_STEADY_SECONDS = 60.0


def next_delay(delay: float, ran: float) -> float:
    """Return the seconds until a start: after a wait of *delay*, the last run took *ran*."""
    is_new = not delay or ran >= _STEADY_SECONDS
    return _FIRST_DELAY if is_new else min(2 * delay, _LONGEST_DELAY)


class Workers:
    """
    Processes that each run *command*, the local host, with ``--worker`` and a descriptor.

    There a worker writes the lines of its start, the last of which begins with "ready". For
    *invisibility* its messages stay hidden from the others.
    """

    def __init__(
        self, command: Sequence[str], count: int, console: LineOutput, invisibility: timedelta
    ) -> None:
        self._command, self._count, self._console = command, count, console
        self._invisibility = invisibility
        self._running: dict[int, Process] = {}
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """
        Run them until SIGINT or SIGTERM; return the exit code.

        If one can't start at first, all end; the first worker alone says why.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)
        starts = [await self._start(1)]
        if starts[0]:
            starts += await asyncio.gather(*map(self._start, range(2, self._count + 1)))
        if all(starts):
            self._console.plain("\n".join(starts[0]))
        else:
            self._end(signal.SIGTERM)
        return max(map(abs, await asyncio.gather(*map(self._keep, [*self._running]))))

    def _signalled(self, number: int) -> None:
        if not self._stop.is_set():
            self._console.line("Stopping; press Ctrl-C again to force")
        self._end(number)

    def _end(self, number: int) -> None:
        self._stop.set()
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _start(self, number: int) -> list[str]:
        """Start a worker; return the lines of its start, or none if it ended before."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                "--worker",
                str(theirs.fileno()),
                stdin=PIPE,  # closed by the end of this process, and the worker ends, too
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in a terminal reaches this process alone
            )
        self._running[number] = process
        if self._stop.is_set():
            process.terminate()
        reader, writer = await asyncio.open_connection(sock=ours)
        lines: list[str] = []
        with contextlib.closing(writer):
            async for line in reader:
                lines.append(line.decode().rstrip())
                if line.startswith(b"ready "):
                    return lines
            await process.wait()  # it says why
        return []

    async def _keep(self, number: int) -> int:
        """Start a worker again whenever it dies; return its last exit code."""
        loop, delay = asyncio.get_running_loop(), 0.0
        while True:
            began = loop.time()
            code = await self._running[number].wait()
            if self._stop.is_set():
                return code
            delay = next_delay(delay, loop.time() - began)
            end = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._console.line(
                f"WARNING worker {number} ended ({end}): starts in {delay:g} s; messages that it "
                f"had received come again within {self._invisibility.total_seconds():g} s"
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stop.wait()
                return 0
            if await self._start(number):
                self._console.line(f"INFO worker {number} serves again")
