"""What a profile says of tools, and the provider of its model, is what there is: known without importing a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, said

from bub.base.diagnostics import without_notes
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.source.merge import load_text

DEFAULT = "extends: bub:default\nprofiles:\n  default:\n    plugins: [{plugins}]\n    tools: {tools}\n"
OWN = "plugins: {{notes: {{path: {path}}}}}\n"


def profile(tools: str, plugins: str = "local_model") -> str:
    return DEFAULT.format(tools=tools, plugins=plugins)


HELP = "take it out, or list the plugin that brings it; `bub run ,help` shows the tools there are"
ADD = "add it to `allow`, or take it out of `ask`"

MISTAKES = [
    # B211: a tool that nobody brings
    Mistake(
        "B211",
        profile('{allow: ["*"], deny: [«fs.wirte»]}'),
        "no plugin of profile `default` brings a tool `fs.wirte`",
        "did you mean `fs.write`?",
        ("wirte", "write"),
    ),
    Mistake(
        "B211",
        profile("{allow: [fs.read, «notes.add»]}"),
        "no plugin of profile `default` brings a tool `notes.add`",
        HELP,
        (", notes.add", ""),
    ),
    Mistake(
        "B211",
        profile('{allow: ["fs.*", «"notes.*"»]}'),
        "no plugin of profile `default` brings a tool `notes.*`",
        HELP,
        (', "notes.*"', ""),
        severity="warning",
    ),
    # B233: entries that let nothing or everything through
    Mistake(
        "B233",
        profile('{allow: [bash], ask: [bash], unasked: {bash: [ls, «"ls | wc"»]}}'),
        "no command ever begins with `ls | wc`: without a question, Bub runs only one simple command",
        "write the first words of the command, without signs of the shell, such as `git log`",
        ("ls | wc", "wc"),
    ),
    Mistake(
        "B233",
        profile("{allow: [bash], ask: [bash], unasked: {bash: [«git commit»]}}"),
        "no command ever begins with `git commit`: without a question, Bub runs only commands of git that read",
        "these do: blame, cat-file, diff, grep, log, ls-files, ls-tree, merge-base, rev-list, rev-parse, shortlog,"
        " show, status",
        ("git commit", "git log"),
    ),
    Mistake(
        "B233",
        profile("{allow: [bash], ask: [bash], unasked: {bash: [«/usr/bin/env»]}}"),
        "`/usr/bin/env` lets every command through, because `/usr/bin/env` runs any other program",
        "add the words that follow, such as `python -m pytest`",
        ("/usr/bin/env", "ls"),
    ),
    # B234: unasked in vain
    Mistake(
        "B234",
        profile('{allow: ["*"], ask: [fs.write], unasked: {bash: [«ls»]}}'),
        "`bash` is not allowed in profile `default`, so no command of it runs",
        "take it out of `unasked`, or add `bash` to `allow` and to `ask`",
        ('allow: ["*"], ask: [fs.write]', 'allow: ["*", bash], ask: [bash]'),
        severity="warning",
    ),
    # B168: nobody is asked
    Mistake(
        "B168",
        profile("{allow: [fs.read], ask: [fs.read, «fs.write»]}"),
        "profile `default` does not allow `fs.write`, so nobody is asked about it",
        ADD,
        ("allow: [fs.read]", "allow: [fs.read, fs.write]"),
        severity="warning",
    ),
    Mistake(
        "B168",
        profile('{allow: ["*"], ask: [«bash»]}'),
        "profile `default` does not allow `bash`, so nobody is asked about it",
        "add `bash` to `allow`, since no glob allows it; or take it out of `ask`",
        ('["*"]', '["*", bash]'),
        severity="warning",
    ),
    Mistake(
        "B168",
        profile('{allow: ["*"], deny: ["fs.*"], ask: [«fs.write»]}'),
        "profile `default` does not allow `fs.write`, so nobody is asked about it",
        "take it out of `ask`, or out of `deny`: Bub looks at `deny` first",
        ('deny: ["fs.*"]', "deny: [fs.edit]"),
        severity="warning",
    ),
    Mistake(
        "B168",
        profile('{allow: [fs.read, "tape.*"], ask: [«"fs.w*"»]}'),
        "profile `default` does not allow `fs.w*`, so nobody is asked about it",
        ADD,
        ("fs.w*", "fs.r*"),
        severity="warning",
    ),
    Mistake(
        "B168",
        "extends: bub:default\nprofiles:\n  quiet: {tools: {ask: [web.fetch, «bash»]}}\n"
        "routes: [{match: {channel: x}, profile: quiet}]\n",
        "profile `quiet` does not allow `bash`, so nobody is asked about it",
        ADD,
        (", bash]", "]"),
        severity="warning",
    ),
    # B169: bash by a glob
    Mistake(
        "B169",
        profile('{allow: [fs.read, «"bash*"»]}'),
        "`bash*` does not allow `bash`: only its full name does",
        "add `bash` to `allow`; if you mean only the other tools, write `bash.*`",
        ('"bash*"', 'bash, "bash.*"'),
        severity="warning",
    ),
    Mistake(
        "B169",
        profile('{allow: [«"b*"»], ask: [bash]}'),
        "`b*` does not allow `bash`: only its full name does",
        "add `bash` to `allow`; if you mean only the other tools, write `bash.*`",
        ('"b*"', 'bash, "b*"'),
        severity="warning",
    ),
    # B197: a provider that is not known
    Mistake(
        "B197",
        "extends: bub:default\nsettings: {model: «opnai:gpt-5-mini»}\n",
        "Bub does not know the provider `opnai`",
        "did you mean `openai`?",
        ("opnai", "openai"),
        severity="warning",
    ),
    Mistake(
        "B197",
        'extends: bub:default\nsettings: {model: "openai:x", fallback_models: [«"antropic:y"»]}\n',
        "Bub does not know the provider `antropic`",
        "did you mean `anthropic`?",
        ("antropic", "anthropic"),
        severity="warning",
    ),
    Mistake(
        "B197",
        "extends: bub:default\nsettings: {model: «corner:qwen3»}\n",
        "Bub does not know the provider `corner`",
        "give its address: `providers.corner.api_base`",
        ("corner:qwen3}", 'corner:qwen3, providers: {corner: {api_base: "https://corner.example/v1"}}}'),
        severity="note",
    ),
    Mistake(
        "B197",
        "extends: bub:default\nsettings: {model: «gpt-5-mini»}\n",
        "`gpt-5-mini` does not say which provider to ask",
        "write it as `provider:name`, or give the address: `api_base`",
        ("gpt-5-mini}", 'gpt-5-mini, api_base: "https://corner.example/v1"}'),
        severity="note",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.code} {mistake.text[-60:]}")
def test_what_a_profile_says_of_tools_in_vain_is_found_without_plugins(mistake: Mistake) -> None:
    assert_is_found(mistake)


RIGHT = {
    "all tools but one": profile('{allow: ["*"]}'),
    "all tools, as in the shipped profile": profile('{allow: ["*", bash], ask: [bash, fs.write, fs.edit]}'),
    "the others of the shell": profile('{allow: [bash, "bash.*"], ask: [bash]}'),
    "a question about a glob of which one is allowed": profile('{allow: [fs.write], ask: ["fs.*"]}'),
    "a question about everything": profile('{allow: [fs.read], ask: ["*"]}'),
    "questions of the shipped profile, and fewer tools": profile("{allow: [fs.read]}"),
    "questions of a base, and fewer tools": (
        "extends: bub:default\nprofiles:\n  default: {tools: {allow: [fs.read, bash], ask: [bash]}}\n"
        "  less: {extends: default, tools: {allow: [fs.read]}}\n"
        "routes: [{match: {channel: x}, profile: less}]\n"
    ),
    "a question about what only reads": (
        "extends: bub:default\nprofiles: {default: {}, q: {tools: {ask: [web.fetch]}}}\n"
        "routes: [{match: {channel: x}, profile: q}]\n"
    ),
    "a provider with an address": (
        "extends: bub:default\nsettings: {model: 'grok:4', providers: {grok: {api_base: 'https://x.example/v1'}}}\n"
    ),
    "commands that need no question": (
        "extends: bub:default\nprofiles: {default: {tools: {unasked: {bash: [ls, git, git log -n 5]}}}}\n"
    ),
    "a profile that may do less takes over commands": (
        "extends: bub:default\n"
        "profiles: {default: {tools: {unasked: {bash: [ls]}}}, q: {extends: default, tools: {deny: [bash]}}}\n"
        "routes: [{match: {channel: x}, profile: q}]\n"
    ),
    "a model from a variable": "extends: bub:default\nsettings: {model: '${env:MODEL:-opnai:x}'}\n",
    "a known provider in capitals": "extends: bub:default\nsettings: {model: 'OpenAI:x'}\n",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_right_about_tools_and_providers_stays_quiet(text: str) -> None:
    assert said(check(VERSION + text)) == []


def test_a_plugin_may_bring_any_tool_but_a_slip_for_one_of_bubs_own(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text("")

    def found(tools: str) -> list[str]:
        text = VERSION + OWN.format(path="notes.py") + profile(tools, "notes")
        document = load_text(text, base=tmp_path)
        return [f"{each.severity} {each.message}" for each in without_notes(check_loaded(document).diagnostics)]

    assert found('{allow: ["notes.*", notes.add, fs.read], ask: [notes.add]}') == []
    vain = "profile `default` does not allow `notes.*`, so nobody is asked about it"
    assert found("{allow: [fs.read], ask: ['notes.*']}") == [f"warning {vain}"]
    assert found("{ask: [notes.add]}") == []
    wrong = "no plugin of profile `default` brings a tool `fs.raed`"
    assert found("{allow: [fs.raed]}") == [f"warning {wrong}"]


def test_commands_without_a_question_change_nothing_if_nobody_is_asked_about_any() -> None:
    found = check(VERSION + profile("{allow: [bash], ask: [], unasked: {bash: [ls]}}"))
    (finding,) = [each for each in found if each.code == "B234"]
    assert finding.message == "profile `default` asks nobody about commands of `bash`"
    assert finding.help == "add `bash` to `ask`: then Bub asks about all commands except these"
