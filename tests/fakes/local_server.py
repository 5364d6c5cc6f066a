"""Serves a model file over HTTP with xllamacpp's own server; prints its address and lives until its stdin closes.

It is run as `python local_server.py FILE [OPTION] [KEY…]` and speaks both APIs. With `--tools` the model calls the
first tool that it is offered (`chat.jinja`), else it pays no attention to them. With `--alternating` its template
refuses what Mistral's refuse (`alternating.jinja`), with `--no-system` what Gemma's do (`no_system.jinja`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp

TEMPLATES = {"--tools": "chat.jinja", "--alternating": "alternating.jinja", "--no-system": "no_system.jinja"}


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_ctx = 2048
    params.use_jinja = True
    for option, template in TEMPLATES.items():
        if option in sys.argv:
            params.chat_template = Path(__file__).with_name(template).read_text(encoding="utf-8")
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.api_keys = [argument for argument in sys.argv[2:] if argument not in TEMPLATES]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
