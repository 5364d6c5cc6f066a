"""Serves a model file over HTTP with xllamacpp's own server; prints its address and lives until its stdin closes."""

from __future__ import annotations

import sys

import xllamacpp


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_ctx = 1024
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.api_keys = sys.argv[2:]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
