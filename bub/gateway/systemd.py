"""Tells systemd what a gateway is at, as `sd_notify` does: for units of `Type=notify`."""

from __future__ import annotations

import socket
import time

from bub.log import log_warning

_PATIENCE = 1.0
"""How long, in seconds, systemd may take to take a line."""


class Systemd:
    """The service manager that listens at `address`, which it names in `$NOTIFY_SOCKET`; without one, nothing is sent.

    It may be a path or, behind an `@`, the name of an abstract socket.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._is_ready = False

    def tell_ready(self) -> None:
        """Tell that all channels have begun, or that a reload is over."""
        self._is_ready = True
        self._tell("READY=1")

    def tell_reloading(self) -> None:
        """Tell that a reload begins. While it still starts, or ends, that is no news."""
        if self._is_ready:
            self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def tell_reloaded(self) -> None:
        """Tell that a reload is over."""
        if self._is_ready:
            self.tell_ready()

    def tell_stopping(self) -> None:
        """Tell that it begins to end."""
        self._is_ready = False
        self._tell("STOPPING=1")

    def _tell(self, what: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.settimeout(_PATIENCE)
                line.connect(address)
                line.sendall(what.encode())
        except (OSError, ValueError) as error:  # it is there to help, not to keep it from running
            log_warning("gateway.systemd_not_told", what=what.partition("\n")[0], error=error)
