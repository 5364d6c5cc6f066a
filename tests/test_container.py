"""The Containerfile and the Compose file of the page: as far as one can tell without building an image."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bub.base.redis.address import StoreAddress

ROOT = Path(__file__).parent.parent
FILE = ROOT / "Containerfile"
if not FILE.exists():
    pytest.skip("the Containerfile is part of a checkout only", allow_module_level=True)

LINES = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)).splitlines()
STEPS = [tuple(line.split(" ", 1)) for line in LINES if line]
LAST = STEPS[max(number for number, (word, _) in enumerate(STEPS) if word == "FROM") :]


def said(word: str) -> list[str]:
    return [rest for its, rest in LAST if its == word]


def test_what_is_built_needs_nothing_that_is_not_copied() -> None:
    copied = [name for word, rest in STEPS if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    needed = [*wheel, *project["project"]["license-files"], "pyproject.toml", "hatch_build.py", "README.md"]
    assert [one for one in needed if not any(Path(one).is_relative_to(name) for name in copied)] == []


def test_the_last_stage_has_no_compiler_and_no_root() -> None:
    assert len([word for word, _ in STEPS if word == "FROM"]) == 2
    assert "slim" in said("FROM")[0]
    assert not re.search(r"\b(apt|apk|gcc|pip|build-essential)\b", " ".join(said("RUN")))
    [user] = said("USER")
    assert user.isdigit() and int(user) > 0
    assert [rest for rest in said("COPY") if not rest.startswith("--from=build ")] == []


def test_health_is_asked_for_where_it_is_served() -> None:
    [check], [command] = said("HEALTHCHECK"), said("CMD")
    words = json.loads(command)
    assert f"http://{words[words.index('--listen') + 1]}/healthz" in check
    compile(json.loads(check[check.index("[") :])[2], "check", "exec")


def compose() -> dict[str, Any]:
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    [found] = re.findall(r"```yaml\n(services:.*?)```", text, re.DOTALL)
    file: dict[str, Any] = yaml.safe_load(found)
    return file


def test_the_commands_of_the_compose_file_are_those_of_bub() -> None:
    vocabulary = (ROOT / "bub/cli/completion/vocabulary.json").read_text(encoding="utf-8")
    services = compose()["services"]
    gateways = [one for one in services.values() if one["image"] == "bub"]
    assert {one["command"][one["command"].index("--roles") + 1] for one in gateways} == {"turns", "channels"}
    for one in gateways:
        assert [word for word in one["command"] if word.startswith("--") and f'"{word}"' not in vocabulary] == []
        assert StoreAddress.parse(one["environment"]["BUB_GATEWAY_STORE"]).host in services
        assert one["read_only"] and "/var/lib/bub" in one["volumes"]
    words = services["redis"]["command"]
    assert words[words.index("--appendonly") + 1] == "yes" and "--appendfsync" in words and "noeviction" in words
    [volume] = {one.partition(":")[0] for one in services["redis"]["volumes"]}
    assert volume in compose()["volumes"]
