"""Findings about `gateway.store`, before a gateway starts."""

from __future__ import annotations

import json

import pytest

from bub.base.diagnostics import Diagnostic
from bub.base.installing.extras import install_command
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.rules import store_unusable
from bub.pipeline.check.validate import check_outline
from bub.pipeline.source.merge import load_text


def check(store: str, more: str = "") -> list[Diagnostic]:
    text = f"version: 1\nextends: bub:default\nsettings:\n  gateway: {{store: {json.dumps(store)}}}\n{more}"
    return check_outline(outline_of(load_text(text)))


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("redis://h:port", "no port that is a number"),
        ("redis://:${env:KEY}@h?partition=4", "no option `partition`"),
        ("redis://h/x", "the database of a store"),
        ("redis://h?lease=1", "`lease` is a duration"),
        ("redis://h?partitions=0", "`partitions` is a number"),
        ("redis+unix://run", "the address of a socket names its file"),
        ("redis://h?prefix=a:b", "the prefix of a store"),
    ],
)
def test_an_address_that_leads_nowhere_is_an_error_at_its_place(store: str, words: str) -> None:
    (found,) = check(store)
    assert (found.code, found.severity, found.range.start.line, found.range.start.column) == ("B252", "error", 4, 20)
    assert words in found.message
    assert found.help


@pytest.mark.parametrize(
    "store",
    [
        "redis://h",
        "rediss://ada:${env:KEY}@h:${env:PORT}/1?partitions=64&lease=5s&prefix=x",
        "${env:STORE}",
        "redis+unix:///run/redis.sock",
        "redis://${env:LOGIN}@h",
    ],
)
def test_an_address_that_may_lead_somewhere_is_taken(store: str) -> None:
    assert check(store) == []


@pytest.mark.parametrize("store", ["redis://:hunter2@h", "redis://ada:hunter2${env:MORE}@h"])
def test_a_password_that_stands_in_the_file_is_told_and_not_shown(store: str) -> None:
    (found,) = check(store)
    assert (found.code, found.severity) == ("B040", "warning")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("chosen", ["jsonl", "sqlite"])
def test_a_store_of_tapes_beside_it_means_nothing(chosen: str) -> None:
    (found,) = check("redis://h", f"  tapes: {{store: {chosen}}}\n")
    assert (found.severity, found.path, found.range.start.line) == ("warning", "settings.tapes.store", 5)


def test_a_store_of_a_profile_that_a_route_leads_to_is_noted() -> None:
    more = "profiles: {other: {settings: {gateway: {store: 'redis://other'}}}, default: {}}\n"
    (found,) = check("redis://h", more)
    assert (found.severity, found.path) == ("note", "profiles.other.settings.gateway.store")


def test_a_missing_package_is_told_with_the_command_that_installs_it_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_unusable, "find_spec", lambda name: None)
    (found,) = check("redis://h")
    assert found.severity == "warning"
    assert found.help == f"install it where the gateway runs; on this machine: `{install_command('redis')}`"
