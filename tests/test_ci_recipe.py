"""The recipes for CI of the README and of `docs/ci.md`, followed word for word in a fresh repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from fakes.ci import ROOT, VERSION, Repository, act, clone_bub, run, verdicts, write_wheel

SHOWN = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
README = dict(SHOWN.findall((ROOT / "README.md").read_text(encoding="utf-8")))
PAGE = dict(SHOWN.findall((ROOT / "docs" / "ci.md").read_text(encoding="utf-8")))
CONFIG, WORKFLOW = ".pre-commit-config.yaml", ".github/workflows/pipelines.yaml"
SOURCES = "https://example.com/bub.git"

pytestmark = pytest.mark.timeout(400)  # environments are set up

ANSWERS = """\
model: {provider: openrouter, key: sk-or-of-nobody, name: openrouter/free, check: false}
telegram: {token: "123456:abcdefghijklmnopqrstuvwxyz012345678", allow_users: ada}
"""
WEATHER = """
    from bub import hookimpl

    @hookimpl
    def system_prompt(prompt, state):
        return "It rains."
"""


@pytest.fixture(scope="module")
def bub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one got the sources from."""
    return clone_bub(tmp_path_factory.mktemp("bub"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.begin(tmp_path_factory.mktemp("agent"), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runner")


def recipe(files: dict[str, str], bub: Path) -> dict[str, str]:
    """The files of a page, with the address of the sources in place of the one that stands for it."""
    assert SOURCES in files[CONFIG]
    assert f"rev: {VERSION}" in files[CONFIG]
    return {**files, CONFIG: files[CONFIG].replace(SOURCES, str(bub))}


def inputs_of(files: dict[str, str]) -> dict[str, str]:
    """What the workflow of a page hands to the action."""
    steps = yaml.safe_load(files[WORKFLOW])["jobs"]["pipelines"]["steps"]
    assert steps[-1]["uses"].startswith(f"OWNER/bub@{VERSION}")
    inputs: dict[str, str] = steps[-1]["with"]
    return inputs


def onboarded(folder: Path) -> str:
    """The file that `bub onboard` writes for a model behind a key and a bot."""
    (folder / "answers.yaml").write_text(ANSWERS, encoding="utf-8")
    words = ["--config", "pipelines.yaml", "onboard", "--answers", "answers.yaml"]
    (folder / "pipelines.yaml").write_text("version: 1\nextends: bub:default\n", encoding="utf-8")
    done = run([sys.executable, "-m", "bub", *words], folder, {"BUB_HOME": str(folder / "home")})
    assert done.returncode == 0, done.stdout
    text = (folder / "pipelines.yaml").read_text(encoding="utf-8")
    assert {"OPENROUTER_API_KEY", "TELEGRAM_TOKEN"} == set(re.findall(r"\$\{env:(\w+)\}", text))
    return text


def test_the_recipe_of_the_readme_is_green_on_its_file_and_red_at_a_mistake(repository: Repository, bub: Path) -> None:
    files = recipe(README, bub)
    assert {"pipelines.yaml", "house_rules.py", CONFIG, WORKFLOW} <= set(files)
    repository.hold(files)
    green = repository.pre_commit()
    assert verdicts(green) == {"validate": "Passed", "test": "Passed"}, green.stdout

    mistaken = files["pipelines.yaml"].replace("before: run_model", "before: run_modle")
    repository.hold({**files, "pipelines.yaml": mistaken})
    red = repository.pre_commit()
    assert red.returncode == 1
    assert "pipelines.yaml:11:22: error[B120]" in red.stdout


def test_the_action_of_the_readme_is_green_on_its_file_and_red_at_a_mistake(runner: Path, tmp_path: Path) -> None:
    for name in ("pipelines.yaml", "house_rules.py"):
        (tmp_path / name).write_text(README[name], encoding="utf-8")
    green = act(runner, tmp_path, **inputs_of(README))
    assert [step.returncode for step in green] == [0] * len(green), green[-1].stdout

    mistaken = README["pipelines.yaml"].replace("before: run_model", "before: run_modle")
    (tmp_path / "pipelines.yaml").write_text(mistaken, encoding="utf-8")
    red = act(runner, tmp_path, **inputs_of(README))[-1]
    assert red.returncode == 1
    assert "::error file=pipelines.yaml,line=11,col=22,endLine=11,endColumn=31,title=bub B120::" in red.stdout


def test_the_recipe_is_green_on_what_onboard_writes_though_ci_has_no_keys(
    repository: Repository, runner: Path, bub: Path, tmp_path: Path
) -> None:
    text = onboarded(tmp_path)
    strict = recipe({**README, CONFIG: PAGE[CONFIG], "pipelines.yaml": text}, bub)
    repository.hold(strict)
    green = repository.pre_commit()
    assert verdicts(green) == {"validate": "Passed", "test": "Passed"}, green.stdout

    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "pipelines.yaml").write_text(text, encoding="utf-8")
    done = act(runner, folder, **inputs_of(README))
    assert [step.returncode for step in done] == [0] * len(done), done[-1].stdout
    proved = run([sys.executable, "-m", "bub", "validate", "--strict", "--plugins", "."], folder)
    assert (proved.returncode, proved.stdout) == (0, "1 file is fine\n")


def test_the_recipe_is_green_with_a_plugin_of_a_package(repository: Repository, bub: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, package="bub-weather", plugin="weather", code=WEATHER)
    files = recipe(README, bub)
    files["pipelines.yaml"] = files["pipelines.yaml"].replace("[local_model, ", "[local_model, weather, ")
    repository.hold(files)
    assert "error[B160] plugin `weather`" in repository.pre_commit().stdout

    hooks = yaml.safe_load(files[CONFIG])
    for hook in hooks["repos"][0]["hooks"]:
        hook["additional_dependencies"] = [str(wheel)]
    repository.hold({**files, CONFIG: yaml.safe_dump(hooks)})
    green = repository.pre_commit()
    assert verdicts(green) == {"validate": "Passed", "test": "Passed"}, green.stdout


def test_the_action_of_the_page_is_green_with_the_plugin_that_it_names(runner: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path, package="bub-weather", plugin="weather", code=WEATHER)
    folder = tmp_path / "checkout"
    folder.mkdir()
    listing = README["pipelines.yaml"].replace("[local_model, ", "[local_model, weather, ")
    (folder / "pipelines.yaml").write_text(listing, encoding="utf-8")
    (folder / "house_rules.py").write_text(README["house_rules.py"], encoding="utf-8")
    done = act(runner, folder, {"PIP_FIND_LINKS": str(tmp_path)}, **inputs_of(PAGE))
    assert [step.returncode for step in done] == [0] * len(done), done[-1].stdout
    assert inputs_of(PAGE)["plugins"].strip() == "bub-weather==1.2"


def test_a_file_of_another_name_that_is_named_is_checked(runner: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("verison: 1\n", encoding="utf-8")
    red = act(runner, tmp_path, paths="odd.yaml")[-1]
    assert (red.returncode, "::error file=odd.yaml,line=1," in red.stdout) == (1, True)


@pytest.mark.parametrize("page", ["README.md", "docs/ci.md", "docs/examples/ci/README.md"])
def test_no_page_shows_the_trigger_that_hands_secrets_to_strangers(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for workflow in re.findall(r"```yaml\n(name: .*?)```", text, re.DOTALL):
        assert "pull_request" in yaml.safe_load(workflow)[True]
        assert "pull_request_target" not in yaml.safe_load(workflow)[True]
