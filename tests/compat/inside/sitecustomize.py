"""In every Python of a trial: names of services lead to fakes on this machine, and no connection leaves it.

`COMPAT_HOSTS` is an object of JSON, from names to ports of this machine; `COMPAT_CA` is the file with the certificate
that vouches for the fakes. Lines in `/etc/hosts` and one more trusted certificate would do the same, for everybody.
"""

from __future__ import annotations

import json
import os
import socket
import ssl

PORTS = json.loads(os.environ.get("COMPAT_HOSTS", "{}"))
ADDRESSES = {name: f"127.77.0.{number}" for number, name in enumerate(PORTS, 1)}
"""Each name has an address of its own: clients differ in whether they connect to the port that a look-up returns."""

FAKES = {ADDRESSES[name]: ("127.0.0.1", port) for name, port in PORTS.items()}
HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "", None)

look_up = socket.getaddrinfo
connect = socket.socket.connect
connect_ex = socket.socket.connect_ex
make_context = ssl.create_default_context


def look_up_here(host, port, *args, **options):
    name = host.decode() if isinstance(host, bytes) else host
    if name in ADDRESSES:
        return look_up(ADDRESSES[name], port, *args, **options)
    if name in HERE or name.startswith("127.") or name == socket.gethostname():
        return look_up(host, port, *args, **options)
    raise socket.gaierror(socket.EAI_NONAME, f"{name} is none of the services of this trial")


def translate(address):
    """Where a connection really goes. Raises ConnectionRefusedError if it would leave this machine."""
    if not isinstance(address, tuple):
        return address  # a socket in the file system
    host, *more = address
    if host in FAKES:
        return FAKES[host]
    if host in HERE or host.startswith("127."):
        return (host, *more)
    raise ConnectionRefusedError(f"{host} is none of the services of this trial")


def make_trusting_context(*args, **options):
    context = make_context(*args, **options)
    context.load_verify_locations(os.environ["COMPAT_CA"])
    return context


if "COMPAT_HOSTS" in os.environ:
    socket.getaddrinfo = look_up_here
    socket.socket.connect = lambda sock, address: connect(sock, translate(address))
    socket.socket.connect_ex = lambda sock, address: connect_ex(sock, translate(address))
    ssl.create_default_context = make_trusting_context
