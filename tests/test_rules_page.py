"""Findings about `gateway.studio`, before a gateway starts."""

from __future__ import annotations

import pytest
from conftest import Write

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.validate import check_files, check_outline
from bub.pipeline.source.discovery import PipelineFile
from bub.pipeline.source.merge import load_text


def check(section: str, more: str = "") -> list[Diagnostic]:
    text = f"version: 1\nextends: bub:default\nsettings:\n  gateway: {{studio: {section}}}\n{more}"
    return check_outline(outline_of(load_text(text)))


@pytest.mark.parametrize("listen", ["0.0.0.0:9465", "192.168.1.2:9465", "[::]:9465", "bub.example.org:9465"])
def test_a_page_that_others_reach_is_encrypted(listen: str) -> None:
    (found,) = check(f'{{listen: "{listen}", write: true}}')
    assert (found.code, found.severity, found.range.start.line) == ("B253", "error", 4)
    assert listen in found.message
    assert check(f'{{listen: "{listen}", public_url: "https://bub.example.org"}}') == []
    assert check(f'{{listen: "{listen}", tls: {{certificate: a.pem, key: b.pem}}}}') == []


@pytest.mark.parametrize("listen", ["127.0.0.1:9465", "localhost:0", "[::1]:9465", "${env:LISTEN}", "${env:HOST}:9465"])
def test_a_page_of_this_machine_is_taken(listen: str) -> None:
    assert check(f'{{listen: "{listen}"}}') == []


@pytest.mark.parametrize("listen", ["x", "0.0.0.0", ":9465", "0.0.0.0:99999", "bub.example.org:web", "a b:9465"])
def test_what_is_no_address_is_only_a_value_that_does_not_fit(write: Write, listen: str) -> None:
    text = f'version: 1\nextends: bub:default\nsettings: {{gateway: {{studio: {{listen: "{listen}"}}}}}}\n'
    file = PipelineFile("pipelines.yaml", write("pipelines.yaml", text))
    assert [found.code for found in check_files([file]).diagnostics] == ["B105"]


def test_what_the_file_says_holds_in_a_profile() -> None:
    profile = 'profiles: {day: {settings: {gateway: {studio: {listen: "0.0.0.0:1"}}}}}\n'
    assert check('{public_url: "https://bub.example.org"}', profile) == []
    (found,) = check("{write: true}", profile)
    assert found.path == "profiles.day.settings.gateway.studio.listen"
