"""Other people's CI: the pre-commit hooks in a real git repository, the steps of the GitHub action in real shells.

The recipes of the README and of `docs/ci.md` are followed word for word. All tests use the same environments, since to
set one up costs more than all that is done in it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from fakes.ci import ACTION, OWNER_AND_NAME, ROOT, VERSION, Repository, act, clone_bub, run, verdicts, write_wheel
from fakes.packages import needs_time
from fakes.release import ADDRESS

pytestmark = pytest.mark.timeout(400)  # environments are set up

FINE = "version: 1\nextends: bub:default\n"
WRONG = "version: 1\nextends: bub:default\nstages:\n  run_modle: {timeout: 2m}\n"
TESTED = """\
version: 1
extends: bub:default
tests:
  a greeting gets a reply:
    message: {content: hello}
    mock: {run_model: {return: hi there}}
    expect: {outbounds: [{content: hi there}]}
"""
FAILING = TESTED.replace("outbounds: [{content: hi", "outbounds: [{content: ho")


# pre-commit


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A git repository that uses the hooks of this checkout."""
    return Repository.begin(tmp_path_factory.mktemp("agent"), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def bub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one got the sources from."""
    return clone_bub(tmp_path_factory.mktemp("bub"))


@pytest.fixture(scope="module")
def config(bub: Path) -> dict[str, str]:
    text = f"repos:\n  - repo: {bub}\n    rev: {VERSION}\n    hooks: [{{id: bub-validate}}, {{id: bub-test}}]\n"
    return {".pre-commit-config.yaml": text}


def test_pre_commit_checks_pipeline_files_and_runs_their_tests(repository: Repository, config: dict[str, str]) -> None:
    repository.hold({**config, "pipelines.yaml": TESTED, "other.yaml": "on: push\n"})
    fine = repository.pre_commit()
    assert fine.returncode == 0, fine.stdout
    assert verdicts(fine) == {"validate": "Passed", "test": "Passed"}

    repository.hold({**config, "bots/pipelines.yaml": WRONG, "pipelines.yaml": TESTED})
    wrong = repository.pre_commit()
    assert wrong.returncode == 1
    assert "bots/pipelines.yaml:4:3: error[B" in wrong.stdout
    assert "did you mean `run_model`?" in wrong.stdout
    assert "Traceback" not in wrong.stdout

    repository.hold(
        {**config, "pipelines.yaml": TESTED.replace("outbounds: [{content: hi", "outbounds: [{content: ho")}
    )
    failing = repository.pre_commit()
    assert failing.returncode == 1
    assert verdicts(failing) == {"validate": "Passed", "test": "Failed"}
    assert "a greeting gets a reply" in failing.stdout


def test_pre_commit_passes_where_there_are_no_tests_or_no_pipelines(
    repository: Repository, config: dict[str, str]
) -> None:
    repository.hold({**config, "pipelines.yaml": FINE})
    assert verdicts(repository.pre_commit()) == {"validate": "Passed", "test": "Passed"}
    repository.hold({**config, "other.yaml": "on: push\n", ".github/workflows/pipelines.yaml": "on: push\njobs: {}\n"})
    assert verdicts(repository.pre_commit()) == {"validate": "Passed", "test": "Passed"}


def test_pre_commit_checks_the_files_that_extend_what_changes(repository: Repository, config: dict[str, str]) -> None:
    base = f"{FINE}hooks: {{moderate: {{kind: gate, takes: [prompt]}}}}\n"
    child = "version: 1\nextends: base.yaml\nstages: {moderate: {before: run_model}}\n"
    repository.hold({**config, "base.yaml": base, "bot.yaml": child, "later/pipelines.yaml": WRONG})
    assert verdicts(repository.pre_commit("base.yaml"))["validate"] == "Passed"

    (repository.folder / "base.yaml").write_text(base.replace("moderate", "moderation"), encoding="utf-8")
    wrong = repository.pre_commit("base.yaml").stdout.partition("bub test")[0]
    assert "bot.yaml:3:10: error[B" in wrong
    assert "later/pipelines.yaml" not in wrong, "it does not change"


# The action


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that the steps of a job share."""
    return tmp_path_factory.mktemp("runner")


def test_the_action_annotates_the_offending_token(runner: Path, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(FINE)
    assert act(runner, tmp_path)[-1].returncode == 0

    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "pipelines.yaml").write_text(WRONG)
    failed = act(runner, tmp_path)[-1]
    assert failed.returncode == 1
    (annotation,) = [line for line in failed.stdout.splitlines() if line.startswith("::error ")]
    assert "file=bots/pipelines.yaml,line=4," in annotation

    (tmp_path / "bots" / "pipelines.yaml").unlink()
    (tmp_path / "pipelines.yaml").write_text(f"{FINE}description: no\n")
    assert act(runner, tmp_path)[-1].returncode == 0
    assert act(runner, tmp_path, strict="true")[-1].returncode == 1
    bub = [str(runner / "bub" / "bin" / "bub"), "validate", "--baseline", "known.json", "--write-baseline", "."]
    assert run(bub, tmp_path).returncode == 0
    assert act(runner, tmp_path, strict="true", baseline="known.json")[-1].returncode == 0


def test_the_action_runs_tests_only_when_asked_to(runner: Path, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(FAILING)
    assert act(runner, tmp_path)[-1].returncode == 0
    failed = act(runner, tmp_path, test="true")[-1]
    assert failed.returncode == 1
    assert "a greeting gets a reply" in failed.stdout


def test_the_action_proves_only_when_asked_to(runner: Path, tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(
        "import json\nfrom bub import hookimpl\n@hookimpl\ndef moderate(prompt):\n"
        "    try: json.loads('1')\n    except ValueError: return None\n"
    )
    guarded = "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model, timeout: 5s}}\n"
    listed = "plugins: {guard: {path: guard.py}}\nprofiles: {default: {plugins: [guard]}}\n"
    (tmp_path / "pipelines.yaml").write_text(FINE + guarded + listed)
    assert act(runner, tmp_path)[-1].returncode == 0
    failed = act(runner, tmp_path, prove="true")[-1]
    assert failed.returncode == 1
    assert "::error file=guard.py,line=5" in failed.stdout


def test_the_action_writes_sarif(runner: Path, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(WRONG)
    assert act(runner, tmp_path, sarif="found.sarif")[-1].returncode == 1
    assert '"2.1.0"' in (tmp_path / "found.sarif").read_text(encoding="utf-8")


GREETER = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        return prompt
"""
LISTING = f"{FINE}profiles: {{default: {{plugins: [greeter]}}}}\n"


@needs_time
def test_the_action_installs_the_plugins_that_the_workflow_names(runner: Path, tmp_path: Path) -> None:
    index, folder = tmp_path / "index", tmp_path / "checkout"
    index.mkdir()
    folder.mkdir()
    write_wheel(index, package="bub-greeter", plugin="greeter", code=GREETER)
    (folder / "pipelines.yaml").write_text(LISTING)
    missing = act(runner, folder)[-1]
    assert (missing.returncode, "error file=pipelines.yaml,line=3," in missing.stdout) == (1, True)

    found = {"PIP_FIND_LINKS": str(index)}
    fine = act(runner, folder, found, plugins="bub-greeter>=1.2\n", strict="true", test="true")
    assert [step.returncode for step in fine] == [0, 0, 0], fine[-1].stdout


@pytest.mark.parametrize("named", ["./greeter", ".", "-e .", "-r requirements.txt", "greeter/", "x @ file:///x.whl"])
def test_the_action_installs_nothing_of_the_checked_out_files(runner: Path, tmp_path: Path, named: str) -> None:
    (tmp_path / "pipelines.yaml").write_text(FINE)
    (refused,) = act(runner, tmp_path, plugins=named)
    assert refused.returncode == 2
    assert refused.stdout.startswith("::error title=bub::The input `plugins` names packages")


@needs_time
def test_a_wheel_that_is_checked_out_is_not_the_one_that_is_named(runner: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, package="bub-own", plugin="own", code=GREETER)
    (tmp_path / "pipelines.yaml").write_text(FINE)
    (failed,) = act(runner, tmp_path, {"PIP_NO_INDEX": "1"}, plugins=wheel.name)
    assert failed.returncode != 0
    assert not list(runner.rglob("bub_own"))


@needs_time
def test_no_module_of_the_checked_out_files_is_run(runner: Path, tmp_path: Path) -> None:
    folder, fresh = tmp_path / "checkout", tmp_path / "runner"
    folder.mkdir()
    fresh.mkdir()
    (folder / "pipelines.yaml").write_text(FINE)
    for module in ("venv", "pip", "logging", "json", "yaml", "bub", "sitecustomize"):
        (folder / f"{module}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w'); raise SystemExit(78)\n")
    small = write_wheel(tmp_path, package="small", plugin="small", code="")
    assert act(fresh, folder, {"GITHUB_ACTION_PATH": str(small)})[0].returncode == 0
    assert act(runner, folder)[-1].returncode == 0
    assert not (tmp_path / "run").exists()


def test_an_input_of_the_action_is_never_read_as_shell(runner: Path, tmp_path: Path) -> None:
    (tmp_path / "it's $(touch pwned)").mkdir()
    (tmp_path / "it's $(touch pwned)" / "pipelines.yaml").write_text(FINE)
    done = act(runner, tmp_path, paths="\n \nit's $(touch pwned)\n", sarif="$(touch pwned).sarif")[-1]
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "pwned").exists()
    for step in yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]:
        assert "${{" not in step["run"]


# The recipes of the pages

SHOWN = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
README = dict(SHOWN.findall((ROOT / "README.md").read_text(encoding="utf-8")))
PAGE = dict(SHOWN.findall((ROOT / "docs" / "ci.md").read_text(encoding="utf-8")))
CONFIG, WORKFLOW = ".pre-commit-config.yaml", ".github/workflows/pipelines.yaml"
SOURCES = ADDRESS
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


def recipe(files: dict[str, str], bub: Path) -> dict[str, str]:
    """The files of a page, with the address of the sources in place of the one that stands for it."""
    assert SOURCES in files[CONFIG]
    assert f"rev: {VERSION}" in files[CONFIG]
    return {**files, CONFIG: files[CONFIG].replace(SOURCES, str(bub))}


def inputs_of(files: dict[str, str]) -> dict[str, str]:
    """What the workflow of a page hands to the action."""
    steps = yaml.safe_load(files[WORKFLOW])["jobs"]["pipelines"]["steps"]
    assert steps[-1]["uses"].startswith(f"{OWNER_AND_NAME}@{VERSION}")
    inputs: dict[str, str] = steps[-1]["with"]
    return inputs


def onboarded(folder: Path) -> str:
    """The folder's file that `bub onboard` writes for a model behind a key and a bot."""
    (folder / "answers.yaml").write_text(ANSWERS, encoding="utf-8")
    words = ["--config", "pipelines.yaml", "onboard", "--answers", "answers.yaml"]
    (folder / "pipelines.yaml").write_text("version: 1\nextends: bub:default\n", encoding="utf-8")
    done = run([sys.executable, "-m", "bub", *words], folder, {"BUB_HOME": str(folder / "home")})
    assert done.returncode == 0, done.stdout
    text, own = ((one / "pipelines.yaml").read_text(encoding="utf-8") for one in (folder, folder / "home"))
    assert re.findall(r"\$\{env:(\w+)\}", text) == ["TELEGRAM_TOKEN"]
    assert re.findall(r"\$\{env:(\w+)\}", own) == ["OPENROUTER_API_KEY"]  # the model is the person's, in every folder
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
    assert verdicts(green) == {"validate": "Passed", "test": "Passed", "prove": "Passed"}, green.stdout

    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "pipelines.yaml").write_text(text, encoding="utf-8")
    done = act(runner, folder, **inputs_of(README))
    assert [step.returncode for step in done] == [0] * len(done), done[-1].stdout
    proved = run([sys.executable, "-m", "bub", "validate", "--strict", "--plugins", "."], folder)
    assert (proved.returncode, proved.stdout) == (0, "1 file is fine\n")


@needs_time
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


@needs_time
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
