"""A certificate for this machine, made by `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bub.channels.web import Certificate


def make_certificate(folder: Path) -> Certificate:
    """Make a certificate for 127.0.0.1 that signs itself, and its key, in a folder; skip the test without `openssl`."""
    made = Certificate(str(folder / "cert.pem"), str(folder / "key.pem"))
    names = "-subj /CN=x -addext subjectAltName=IP:127.0.0.1"
    said = f"-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 {names}"
    command = ["openssl", "req", *said.split(), "-keyout", made.key, "-out", made.file]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl that could make a certificate")
    return made
