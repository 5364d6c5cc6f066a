"""Where values come from: each place that has a say, and none that has not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from fakes.installed import install_section

from bub.base.json_schema import Steps
from bub.pipeline.plan.origins import Lookup, is_for_another_provider, is_variable, leaves_of, lookup_of, origins_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.source.merge import load_text

SECRET = "wagtail-3f9a7c1e"

TEXT = """
    version: 1
    extends: bub:default
    settings:
      model: "openai:a"
      providers: {my-own: {api_base: "http://one.example"}}
    profiles:
      base: {description: the base, plugins: []}
      ci: {extends: base, settings: {model: "openai:b"}}
"""


def lookup(text: str = TEXT, profile: str = "default", base: Path | None = None, **environ: str) -> Lookup:
    return lookup_of(make_plan(load_text(dedent(text), file="p.yaml", base=base), profile), environ)


def said(found: Lookup, *steps: str) -> list[tuple[object, str]]:
    return [(origin.value.plain(), origin.where) for origin in origins_of(found, steps)]


def test_a_file_says_itself_what_it_extends_whatever_its_parent_does(tmp_path: Path) -> None:
    (tmp_path / "parent.yaml").write_text("version: 1\nextends: bub:default\n", encoding="utf-8")
    found = lookup("version: 1\nextends: parent.yaml\n", base=tmp_path)
    assert said(found, "extends") == [("parent.yaml", "p.yaml:2:10")]


def test_a_profile_takes_over_all_but_what_is_its_own() -> None:
    found = lookup()
    assert said(found, "profiles", "ci", "plugins") == [([], "p.yaml:8:42")]
    assert said(found, "profiles", "ci", "description") == []
    assert said(found, "profiles", "base", "description") == [("the base", "p.yaml:8:23")]
    assert said(found, "profiles", "ci", "extends") == [("base", "p.yaml:9:17")]
    assert said(found, "profiles", "nobody", "plugins") == []


def test_a_variable_finds_the_name_that_the_file_wrote() -> None:
    found = lookup(BUB_PROVIDERS_MY_OWN_API_BASE="http://two.example")
    steps = ("settings", "providers", "my-own", "api_base")
    assert [value for value, _ in said(found, *steps)] == ["http://one.example", "http://two.example"]
    assert is_variable(found, steps, "BUB_PROVIDERS_MY_OWN_API_BASE")
    assert not is_variable(found, ("settings", "model"), "BUB_PROVIDERS_MY_OWN_API_BASE")


def test_what_is_below_a_path_is_told_and_nothing_beside_it() -> None:
    found = lookup(BUB_MODEL="openai:c", BUB_PROVIDERS_OTHER_API_BASE="http://three.example")
    below = {".".join(map(str, steps)): origin.where for steps, origin in leaves_of(found, ("settings", "providers"))}
    assert below == {
        "settings.providers.my-own.api_base": "p.yaml:6:34",
        "settings.providers.other.api_base": "BUB_PROVIDERS_OTHER_API_BASE in the environment",
    }


def test_an_empty_mapping_is_a_value_and_one_with_values_is_none() -> None:
    found = lookup("version: 1\nsettings: {weather: {}, wind: {from: [], to: {}}}\n")
    below = [".".join(map(str, steps)) for steps, _ in leaves_of(found, ("settings",))]
    assert below == ["settings.weather", "settings.wind.from", "settings.wind.to"]


def test_a_variable_is_shown_without_the_user_of_its_address_and_without_defaults_of_secrets() -> None:
    address = f"https://user:{SECRET}@one.example/v1?region=eu&token={SECRET}"
    found = lookup(BUB_API_BASE=address, BUB_SYSTEM_PROMPT=f"a ${{env:MY_TOKEN:-{SECRET}}}")
    assert said(found, "settings", "api_base") == [
        ("https://…@one.example/v1?region=eu&token=…", "BUB_API_BASE in the environment")
    ]
    (prompt, _), *_ = said(found, "settings", "system_prompt") or [("", "")]
    assert SECRET not in str(prompt)


def test_the_environment_is_stronger_than_the_file_beside_and_each_has_its_place(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("BUB_MODEL=openai:d\n", encoding="utf-8")
    found = lookup(base=tmp_path, BUB_MODEL="openai:c")
    values = said(found, "settings", "model")
    assert [value for value, _ in values] == ["openai:a", "openai:d", "openai:c"]
    assert values[1][1].endswith(".env:1")
    assert values[2][1] == "BUB_MODEL in the environment"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (SECRET, "a literal in p.yaml:3:21"),
        ("${env:KEY}", "${env:KEY}"),
        ("Bearer ${env:KEY}", "${env:KEY}…"),
        (f"${{env:KEY:-{SECRET}}}", "${env:KEY:-…}"),
        ("${env:KEY:-}", "${env:KEY:-…}"),
        (f"${{env:KEY}}{SECRET}${{file:k.txt}}", "${env:KEY}…${file:k.txt}…"),
    ],
)
def test_a_secret_is_shown_as_where_it_comes_from(written: str, shown: str) -> None:
    found = lookup(f"version: 1\nx: 1\nsettings: {{api_key: '{written}'}}\n")
    (origin,) = origins_of(found, ("settings", "api_key"))
    assert (origin.value.value, origin.secret) == (shown, True)


@pytest.mark.parametrize(
    ("steps", "hidden"),
    [
        (("x-notes", "token", "who"), True),
        (("x-notes", "who"), False),
        (("tests", "t", "message", "token"), True),
        (("tests", "token", "message", "who"), False),
    ],
)
def test_outside_of_the_settings_a_name_tells_and_in_notes_any_name_above(steps: Steps, hidden: bool) -> None:
    text = f"""
        version: 1
        x-notes: {{token: {{who: {SECRET}}}, who: {SECRET}}}
        tests:
          t: {{message: {{token: {SECRET}}}}}
          token: {{message: {{who: {SECRET}}}}}
    """
    (origin,) = origins_of(lookup(text), steps)
    assert origin.secret is hidden
    assert (SECRET in str(origin.value.plain())) is not hidden


def test_a_truth_value_is_no_secret_and_a_number_of_that_name_is() -> None:
    found = lookup("version: 1\nsettings: {weather: {token: true, api_key: 5}}\n")
    (truth,), (number,) = (origins_of(found, ("settings", "weather", name)) for name in ("token", "api_key"))
    assert (truth.value.value, truth.secret) == (True, False)
    assert number.secret


def test_a_key_is_left_out_only_where_it_was_given_for_another_provider(tmp_path: Path) -> None:
    text = f"version: 1\nsettings: {{model: 'openai:a', api_key: {SECRET}}}\n"
    assert not is_for_another_provider(lookup(text), "api_key")
    assert not is_for_another_provider(lookup(text), "api_base")
    assert is_for_another_provider(lookup(text, BUB_MODEL="anthropic:b"), "api_key")
    (tmp_path / ".env").write_text("BUB_MODEL=anthropic:b\n", encoding="utf-8")
    assert is_for_another_provider(lookup(text, base=tmp_path), "api_key")
    both = lookup(text, base=tmp_path, BUB_MODEL="openai:c")
    assert not is_for_another_provider(both, "api_key"), "the environment is stronger than the file beside"
    named = lookup(text, BUB_MODEL="anthropic:b", BUB_PROVIDERS_OPENAI_API_KEY="k")
    assert is_for_another_provider(named, "api_key"), "a provider's own key is no general one"
    (tmp_path / ".env").write_text("MODEL=openai:b\n", encoding="utf-8")
    text += "profiles: {default: {settings: {model: '${env:MODEL}'}}}\n"
    assert not is_for_another_provider(lookup(text, base=tmp_path, MODEL=""), "api_key"), "an empty variable is none"


@pytest.mark.parametrize(
    ("declared", "is_known"), [("{optional: true}", True), ("{}", True), ("{path: weather.py}", False)]
)
def test_the_schema_of_a_package_is_not_that_of_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str, is_known: bool
) -> None:
    schema = {"properties": {"roof": {"type": "string", "writeOnly": True}}}
    monkeypatch.syspath_prepend(install_section(tmp_path / "site", schema))
    found = lookup(f"version: 1\nplugins: {{weather: {declared}}}\nsettings: {{weather: {{roof: flat}}}}\n")
    (roof,) = origins_of(found, ("settings", "weather", "roof"))
    assert (roof.value.value == "flat", roof.secret) == (not is_known, is_known)
