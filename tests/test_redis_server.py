"""The Redis of the tests: what it keeps over a kill, and who may speak to it."""

from __future__ import annotations

import socket

import pytest
from fakes.redis_server import RedisError, RedisServer, serving_redis


def test_a_server_answers_at_its_socket_and_at_its_port(redis: RedisServer) -> None:
    redis.ask("SET", "a", 1)
    with socket.create_connection(("127.0.0.1", redis.port), 10) as line:
        line.sendall(b"GET a\r\n")
        assert line.recv(20) == b"$1\r\n1\r\n"


def test_each_test_begins_with_an_empty_server(redis: RedisServer) -> None:
    assert redis.ask("KEYS", "*") == []


def test_a_server_that_is_killed_has_what_it_was_told_to_keep() -> None:
    with serving_redis(appendonly=True, appendfsync="always", password="such a secret") as server:
        server.ask("XADD", "stream", "*", "v", "1")
        port = server.port
        server.restart()
        assert server.ask("XLEN", "stream") == 1
        assert server.port == port
        assert server.address == f"redis://:such%20a%20secret@127.0.0.1:{port}"


def test_a_full_server_refuses_what_would_need_more() -> None:
    with serving_redis(maxmemory="1mb") as server:
        with pytest.raises(RedisError, match="OOM"):
            server.ask("SET", "a", b"a" * 2_000_000)
            server.ask("SET", "b", b"b")
        server.ask("CONFIG", "SET", "maxmemory", "0")
        server.ask("SET", "b", b"b")
