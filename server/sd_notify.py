"""
Tells systemd how the server is.

Source: sd_notify(3): a datagram of assignments to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"


class ServiceManager:
    """Sends states to *address*; without one, nobody wants them."""

    def __init__(self, address: str | None) -> None:
        # A name that begins with @ is in Linux' own name space, not in the file system.
        self._address = f"\0{address[1:]}" if address and address[0] == "@" else address

    def tell(self, *states: str) -> None:
        """Send *states*; what does not reach the service manager has no effect on the server."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
            there.connect(self._address)
            there.sendall("\n".join(states).encode())

    def tell_reloading(self) -> None:
        """Say that the configuration is read again, until `READY`."""
        self.tell(
            "RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
        )
