"""Of which edits `bub diff` says that something became dangerous, and of which it does not: each with its twin."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.base.diagnostics import PipelineError
from bub.pipeline.show.compare import compare
from bub.pipeline.show.differences.changes import Change
from bub.pipeline.source.merge import load_text

PIPELINE = dedent(
    """\
    version: 1
    extends: bub:default
    description: what it is for
    hooks:
      moderate: {kind: gate, takes: [prompt, session_id]}
      tool_gate: {timeout: 9s}
      redact: {kind: modifying, takes: [message]}
    stages:
      moderate: {before: run_model, timeout: 5s}
      redact: {for_each: outbounds, changes: [message], before: dispatch_outbound, on_failure: propagate}
      run_model: {timeout: 2m}
      save_state: {timeout: 20s}
    plugins:
      guard: {path: plugins/guard.py}
      shell: {path: plugins/shell.py}
    profiles:
      default:
        plugins: [local_model, telegram, guard]
        tools: {allow: ["*", bash], deny: [web.fetch], ask: [bash, fs.write, fs.edit]}
        budget: {steps: 20, tokens_per_day: 100000}
        channels: [telegram]
      guests:
        plugins: [telegram, guard]
        tools: {allow: [fs.read], ask: []}
        reach: {write: [workspace/drafts], read: [~/papers]}
        budget: {steps: 5, tokens_per_day: 10000}
        channels: [telegram]
    routes:
      - {match: {channel: telegram, sender_id: "4711"}, profile: default}
      - {match: {channel: telegram}, profile: guests}
      - {match: {channel: cli}, profile: default}
    settings:
      model: "openrouter:openrouter/free"
      fallback_models: ["openrouter:small"]
      providers:
        openrouter: {api_key: "${env:OPENROUTER_API_KEY}"}
        workshop: {api_base: "https://workshop.example/v1"}
      files: {folders: [~/notes]}
      bash: {env: [GITHUB_TOKEN]}
      gateway: {listen: "127.0.0.1:9464"}
      telegram: {token: "${env:BOT}", allow_users: [ada, "4711"], base_url: "http://localhost:8081"}
      guard: {words: [a, b], listen: "127.0.0.1:8080"}
      http:
        listen: "127.0.0.1:8750"
        clients: {ada: {token: "${env:ADA}", profiles: [guests]}}
        webhooks: {alarm: {secret: "${env:ALARM}", callback: {url: "https://ours.example/x", secret: "${env:ALARM}"}}}
    """
)

Edit = tuple[str, str]

REPLIES = '[{content: "{model_output}", session_id: "{session_id}", channel: "{channel}", chat_id: "{chat_id}"}]'


def edited(*edits: Edit) -> str:
    text = PIPELINE
    for old, new in edits:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return text


def changes(old: str, new: str) -> list[Change]:
    documents = (load_text(text, base=Path("/nowhere")) for text in (old, new))
    return list(compare(*documents).changes)


def dangers(old: str, new: str) -> list[str]:
    """The messages of what became dangerous, each once."""
    found = [change.message for change in changes(old, new) if change.severity == "danger"]
    return list(dict.fromkeys(found))


def stage(text: str) -> list[Edit]:
    """One more stage, or more said of an inherited one."""
    return [("  save_state:", f"  {text}\n  save_state:")]


def listing(profile: str, plugins: str) -> list[Edit]:
    """Another list of plugins."""
    were = {"default": "[local_model, telegram, guard]", "guests": "[telegram, guard]"}[profile]
    return [(f"  {profile}:\n    plugins: {were}", f"  {profile}:\n    plugins: {plugins}")]


USERS = 'allow_users: [ada, "4711"]'
STAGE = "{before: run_model, timeout: 5s}"
TOOLS = '{allow: ["*", bash], deny: [web.fetch], ask: [bash, fs.write, fs.edit]}'
LAST_ROUTE = "  - {match: {channel: telegram}, profile: guests}\n"
TERMINAL_ROUTE = "  - {match: {channel: cli}, profile: default}\n"
REDACT = "{for_each: outbounds, changes: [message], before: dispatch_outbound, on_failure: propagate}"
FIRST_ROUTE = '  - {match: {channel: telegram, sender_id: "4711"}, profile: default}\n'

MONITOR, PAGE = 'gateway: {listen: "127.0.0.1:9464"', 'studio: {listen: "127.0.0.1:9465"}'

DANGEROUS: dict[str, tuple[list[Edit], str]] = {
    # Who reaches the agent
    "everybody may write": ([(USERS, 'allow_users: ["*"]')], "more people may talk"),
    "one more may write": ([(USERS, 'allow_users: [ada, "4711", mallory]')], "more people may talk"),
    "the gateway listens for all": ([('"127.0.0.1:9464"', '"0.0.0.0:9464"')], "other machines reach it"),
    "the gateway listens in a network": ([('"127.0.0.1:9464"', '"192.168.1.7:9464"')], "other machines reach it"),
    "the gateway listens for all of IPv6": ([('"127.0.0.1:9464"', '"[::]:9464"')], "other machines reach it"),
    "a channel of a plugin listens for all": ([('"127.0.0.1:8080"', '"0.0.0.0:8080"')], "other machines reach it"),
    "the gateway serves a page": ([(MONITOR, f"{MONITOR}, {PAGE}")], "can say yes to what agents ask"),
    "the page listens for all": (
        [(MONITOR, f"{MONITOR}, {PAGE.replace('127.0.0.1', '0.0.0.0')}")],
        "can say yes to what agents ask",
    ),
    "a proxy leads to the page": (
        [(MONITOR, MONITOR + ', studio: {public_url: "https://bub.example"}')],
        "other machines reach the page there",
    ),
    "the page may write": ([(MONITOR, f"{MONITOR}, studio: {{write: true}}")], "can change what runs"),
    "a program more may ask": (
        [("clients: {ada:", 'clients: {bob: {token: "${env:BOB}"}, ada:')],
        "one more program may ask the agent",
    ),
    "a program reaches a profile more": ([("profiles: [guests]}", "profiles: [guests, default]}")], "more profiles"),
    "a program brings tools": (
        [("profiles: [guests]}", "profiles: [guests], client_tools: true}")],
        "the program chooses tools",
    ),
    "a webhook more": (
        [("webhooks: {alarm", 'webhooks: {bell: {secret: "${env:BELL}"}, alarm')],
        "senders to one more webhook reach the agent",
    ),
    "programs may ask a webhook": ([("{alarm: {", "{alarm: {clients: [ada], ")], "more programs reach the agent"),
    "a webhook calls back elsewhere": ([("ours.example", "evil.example")], "Bub sends everything there"),
    "a proxy leads to the API": (
        [("clients: {ada", 'public_url: "https://bub.example"\n    clients: {ada')],
        "other machines reach webhooks and the API there",
    ),
    "the API listens for all": ([('"127.0.0.1:8750"', '"0.0.0.0:8750"')], "other machines reach it"),
    # Who gets which profile
    "strangers get the strong profile": (
        [("{channel: telegram}, profile: guests", "{channel: telegram}, profile: default")],
        "strangers may do more than profile `guests` let them",
    ),
    "the route of strangers is gone": ([(LAST_ROUTE, "")], "strangers may do more than profile `guests` let them"),
    "the route of strangers is narrower": (
        [("{channel: telegram}, profile: guests", '{channel: telegram, chat_id: "-1*"}, profile: guests')],
        "strangers may do more than profile `guests` let them",
    ),
    "a route for one more goes before that of strangers": (
        [(LAST_ROUTE, '  - {match: {sender_id: "666"}, profile: default}\n' + LAST_ROUTE)],
        "strangers may do more than profile `guests` let them",
    ),
    "the route of the owner is for everybody": (
        [(', sender_id: "4711"}', "}")],
        "strangers may do more than profile `guests` let them",
    ),
    "strangers get a new, stronger profile": (
        [
            ("{channel: telegram}, profile: guests", "{channel: telegram}, profile: friends"),
            ("routes:", "  friends: {extends: guests, tools: {allow: [fs.read, bash]}}\nroutes:"),
        ],
        "tool `bash` may be used",
    ),
    "the profile that is gone leaves strangers to the default": (
        [
            (LAST_ROUTE, ""),
            (PIPELINE[PIPELINE.index("  guests:") : PIPELINE.index("routes:")], ""),
        ],
        "strangers may do more than profile `guests` let them",
    ),
    # What tools may do
    "strangers may use a tool": ([("{allow: [fs.read]", "{allow: [fs.read, bash]")], "tool `bash` may be used"),
    "strangers may use all tools": ([("{allow: [fs.read]", '{allow: ["*"]')], "tool `*` may be used"),
    "nobody is asked": ([("ask: [bash, fs.write", "ask: [fs.write")], "nobody is asked any more before tool `bash`"),
    "the questions are gone": ([(", ask: [bash, fs.write, fs.edit]", ", ask: []")], "before tool `fs.edit`"),
    "what was denied is not": ([("deny: [web.fetch], ", "deny: [], ")], "tool `web.fetch` is no longer denied"),
    "the list of tools is gone": ([("tools: {allow: [fs.read], ask: []}", "tools: {ask: []}")], "no longer lists"),
    "a profile is built on a stronger one": (
        [("  guests:\n", "  guests:\n    extends: default\n"), ("    tools: {allow: [fs.read], ask: []}\n", "")],
        "tool `*` may be used",
    ),
    "a folder more": ([("[~/notes]", "[~/notes, /srv/data]")], "the tools for files read and write"),
    "a wider folder": ([("[~/notes]", "['~']")], "the tools for files read and write"),
    "the file with the keys": ([("[~/notes]", "[~/notes, .env]")], "the tools for files read and write"),
    "private addresses": ([("  bash: {env", "  web: {allow_private: true}\n  bash: {env")], "reads from this machine"),
    "private addresses, if a variable says so": (
        [("  bash: {env", '  web: {allow_private: "${env:PRIVATE:-true}"}\n  bash: {env')],
        "reads from this machine",
    ),
    "a variable more for commands": (
        [("[GITHUB_TOKEN]", "[GITHUB_TOKEN, AWS_SECRET_ACCESS_KEY]")],
        "commands get the secrets in these variables",
    ),
    # Where messages and keys go
    "another address of the provider": (
        [("openrouter: {api_key", 'openrouter: {api_base: "https://evil.example/v1", api_key')],
        "messages and keys go there",
    ),
    "another address of the model": (
        [("  files:", "  api_base: https://evil.example/v1\n  files:")],
        "messages and keys go there",
    ),
    "no encryption": ([("https://workshop", "http://workshop")], "messages and keys go there"),
    "another address of Telegram": (
        [("http://localhost:8081", "https://evil.example")],
        "Bub sends everything there, tokens too",
    ),
    "a proxy": (
        [("base_url:", 'proxy: "http://evil.example:3128", base_url:')],
        "Bub sends everything there, tokens too",
    ),
    "another provider": ([("openrouter:openrouter/free", "openai:gpt-5-mini")], "messages go to `openai`"),
    "another provider, if a variable is not set": (
        [("openrouter:openrouter/free", "${env:MODEL:-openai:gpt-5-mini}")],
        "messages go to `openai`",
    ),
    "a fallback of another provider": (
        [('["openrouter:small"]', '["openrouter:small", "groq:x"]')],
        "messages go to `groq`",
    ),
    "a provider of one's own that was not asked before": (
        [("openrouter:openrouter/free", "workshop:qwen3")],
        "messages go to `workshop`",
    ),
    "another provider in one profile": (
        [("    tools: {allow: [fs.read]", '    settings: {model: "groq:x"}\n    tools: {allow: [fs.read]')],
        "messages go to `groq`",
    ),
    "a header for the provider": (
        [("openrouter: {api_key", 'openrouter: {headers: {x-copy-to: "me"}, api_key')],
        "each request to the provider carries it",
    ),
    "another chat gets the reply": (
        [
            (
                "  save_state:",
                f"  render_outbound: {{default: {REPLIES.replace('{chat_id}', '-100666')}}}\n  save_state:",
            )
        ],
        "replies go to another chat as well",
    ),
    "another chat gets a copy": (
        stage(f"render_outbound: {{default: {REPLIES[:-1]}, {{content: x, channel: telegram, chat_id: '666'}}]}}"),
        "replies go to another chat as well",
    ),
    "a secret is put into the prompt": (
        [("  save_state:", '  build_prompt: {default: "{content} ${env:AWS_SECRET_ACCESS_KEY}"}\n  save_state:')],
        "becomes a part of the turn",
    ),
    "a file is put into the reply": (
        [
            (
                "  save_state:",
                f"  render_outbound: {{default: {REPLIES.replace('{model_output}', '${file:.env}')}}}\n  save_state:",
            )
        ],
        "becomes a part of the turn",
    ),
    "a secret is written down": (
        [("${env:OPENROUTER_API_KEY}", "sk-or-v1-0123456789abcdef")],
        "everybody who reads the file can read it",
    ),
    "a secret is written down as a default": (
        [("${env:BOT}", "${env:BOT:-123:abcdefgh}")],
        "everybody who reads the file can read it",
    ),
    # Limits
    "the budget is gone": (
        [("    budget: {steps: 5, tokens_per_day: 10000}\n", "")],
        "nothing limits what the agent spends",
    ),
    "the limit of a day is gone": (
        [("{steps: 20, tokens_per_day: 100000}", "{steps: 20}")],
        "nothing limits what the agent spends",
    ),
    "the limit of steps is gone": ([("{steps: 20, tokens", "{tokens")], "Bub uses the usual 100 instead"),
    "a limit is as good as gone": (
        [("tokens_per_day: 10000}", "tokens_per_day: 10000000}")],
        "it is too high to limit much",
    ),
    # Gates and checks
    "a gate's time-out is gone": ([(", timeout: 5s}", "}")], "the turn never ends"),
    "the time-out of the gate of tools is gone": (
        [("tool_gate: {timeout: 9s}", "redacted: {kind: void}")],
        "the turn never ends",
    ),
    "a gate is off": ([(STAGE, "{before: run_model, timeout: 5s, enabled: false}")], "`moderate` is switched off"),
    "a gate is off for one profile": (
        [("    tools: {allow: [fs.read]", "    stages: {moderate: {enabled: false}}\n    tools: {allow: [fs.read]")],
        "`moderate` is switched off",
    ),
    "a gate is gone": (
        [("  moderate: {kind: gate, takes: [prompt, session_id]}\n", ""), (f"  moderate: {STAGE}\n", "")],
        "gate `moderate` is gone",
    ),
    "a gate is below what it guards": ([(STAGE, "{after: run_model, timeout: 5s}")], "no longer runs before"),
    "a gate is for fewer messages": (
        [(STAGE, "{before: run_model, timeout: 5s, when: {channel: telegram}}")],
        "is for messages with channel `telegram`",
    ),
    "a gate asks nobody": ([(STAGE, "{before: run_model, timeout: 5s, only: []}")], "`only` of gate `moderate`"),
    "a gate sees less": ([("takes: [prompt, session_id]", "takes: [session_id]")], "`takes` of gate `moderate`"),
    "a stage that the gate does not see calls the same": (
        [("  save_state:", "  sneaky: {before: moderate, kind: firstresult, hook: run_model}\n  save_state:")],
        "does not run before `sneaky`",
    ),
    "the plugin of the gate is not listed": (listing("default", "[local_model, telegram]"), "may rely on it"),
    "the plugin of the gate may be missing": (
        [("guard: {path: plugins/guard.py}", "guard: {path: plugins/guard.py, optional: true}")],
        "may rely on it",
    ),
    "what redacts replies is off": (
        [("{for_each: outbounds,", "{enabled: false, for_each: outbounds,")],
        "Bub sends what it held back",
    ),
    "what redacts replies is gone": (
        [("  redact: {kind: modifying, takes: [message]}\n", ""), (f"  redact: {REDACT}\n", "")],
        "Bub sends what it held back",
    ),
    "what fails to redact lets pass": ([(", on_failure: propagate}", "}")], "Bub lets through what it had to check"),
    "what redacts replies stands below what sends them": (
        [("before: dispatch_outbound, on_failure", "after: dispatch_outbound, on_failure")],
        "stage `redact` no longer runs before `dispatch_outbound`",
    ),
    "replies are sent above what redacts them": (
        stage("dispatch_outbound: {before: redact}"),
        "stage `redact` no longer runs before `dispatch_outbound`",
    ),
    "replies are also sent above what redacts them": (
        stage("early: {hook: dispatch_outbound, kind: broadcast, for_each: outbounds, before: redact}"),
        "stage `redact` does not run before `early`",
    ),
    "fewer replies are redacted": (
        [("{for_each: outbounds,", "{when: {channel: telegram}, for_each: outbounds,")],
        "is for messages with channel `telegram`",
    ),
    "another plugin redacts": ([("{for_each: outbounds,", "{only: [telegram], for_each: outbounds,")], "`only`"),
    "the point that redacts asks nobody": (
        [("redact: {kind: modifying", "redact: {only: [], kind: modifying")],
        "`only`",
    ),
    "what redacts calls another hook": (
        [
            ("{for_each: outbounds,", "{hook: soften, for_each: outbounds,"),
            ("  redact: {kind", "  soften: {kind: modifying, takes: [message]}\n  redact: {kind"),
        ],
        "`hook` of stage `redact`",
    ),
    "what redacts only looks": (
        [
            ("redact: {kind: modifying", "redact: {kind: void"),
            ("changes: [message], before: dispatch_outbound, on_failure: propagate}", "before: dispatch_outbound}"),
        ],
        "`kind` of",
    ),
    "a reply leaves by another channel": (
        stage(f"render_outbound: {{default: {REPLIES.replace('channel:', 'output_channel: telegram, channel:')}}}"),
        "replies go to another chat as well",
    ),
    "a gate's time-out is up to a variable": (
        [(STAGE, '{before: run_model, timeout: "${env:PATIENCE}"}')],
        "the turn never ends",
    ),
    # What commands reach
    "commands are confined no more": (
        [("        reach: {write: [workspace/drafts], read: [~/papers]}\n".removeprefix("    "), "")],
        "they reach everything that the person reaches",
    ),
    "commands reach a network": ([("[~/papers]", "[~/papers], network: all")], "commands reach a network"),
    "commands may write more": ([("[workspace/drafts]", "[workspace]")], "commands may write `workspace`"),
    "commands may write if nothing says what": (
        [("write: [workspace/drafts], ", "")],
        "commands may write `workspace`",
    ),
    "commands may read more": ([("[~/papers]", "[~/papers, ~/.ssh]")], "commands may read `~/.ssh`"),
    # Code
    "a plugin more": (listing("guests", "[telegram, guard, shell]"), "plugin `shell` will be imported"),
    "another file for a plugin": (
        [("plugins/guard.py", "plugins/other.py")],
        "will be imported from `plugins/other.py`",
    ),
    "a package in place of the file": ([("guard: {path: plugins/guard.py}", "guard: {}")], "from an installed package"),
    "a file in place of a shipped plugin": (
        [("  guard: {path", "  telegram: {path: plugins/telegram.py}\n  guard: {path")],
        "will be imported from `plugins/telegram.py`",
    ),
}

HARMLESS: dict[str, list[Edit]] = {
    "a program may not ask any more": [('clients: {ada: {token: "${env:ADA}", profiles: [guests]}}', "clients: {}")],
    "a program asks less often": [("profiles: [guests]}", "profiles: [guests], rate: {per_minute: 6}}")],
    "a webhook says it in other words": [("{alarm: {", '{alarm: {text: "{message}", ')],
    # What commands reach
    "commands are confined": [(TOOLS, f"{TOOLS}\n    reach: {{}}")],
    "commands may write nothing any more": [("[workspace/drafts]", "[]")],
    "commands may write less": [("[workspace/drafts]", "[workspace/drafts/new]")],
    "commands may read what they may write": [("[~/papers]", "[~/papers, workspace/drafts/old]")],
    "commands may read nothing more": [(", read: [~/papers]", "")],
    "that no network is reached is said": [("[~/papers]", "[~/papers], network: none")],
    # Who reaches the agent
    "fewer may write": [(USERS, "allow_users: [ada]")],
    "the same may write, in another order": [(USERS, 'allow_users: ["4711", "@Ada"]')],
    "the same may write, but in one chat only": [(USERS, f'{USERS}, allow_chats: ["4711"]')],
    "nobody may write": [(f", {USERS}", "")],
    "another port": [("127.0.0.1:9464", "127.0.0.1:9465")],
    "another name of this machine": [("127.0.0.1:9464", "localhost:9464")],
    "nothing listens": [('  gateway: {listen: "127.0.0.1:9464"}\n', "")],
    # Who gets which profile
    "the owner gets the weak profile": [('"4711"}, profile: default', '"4711"}, profile: guests')],
    "the route of the owner is gone": [(FIRST_ROUTE, "")],
    "whoever sits at the machine gets a stronger profile": [
        ("{channel: cli}, profile: default", "{channel: cli}, profile: mine"),
        ("routes:", "  mine: {extends: default, plugins: [guard, telegram, local_model], tools: {ask: []}}\nroutes:"),
    ],
    "strangers of one more channel get the weak profile": [
        (LAST_ROUTE, LAST_ROUTE + "  - {match: {channel: slack}, profile: guests}\n")
    ],
    "strangers get a new, weaker profile": [
        ("{channel: telegram}, profile: guests", "{channel: telegram}, profile: nobody"),
        ("routes:", "  nobody: {extends: guests, tools: {allow: []}}\nroutes:"),
    ],
    "a profile is called otherwise": [("  guests:\n", "  visitors:\n"), ("profile: guests", "profile: visitors")],
    "a profile that nobody gets": [("routes:", "  mine: {extends: default, tools: {ask: []}}\nroutes:")],
    "the fields of a route in another order": [
        ('{channel: telegram, sender_id: "4711"}', '{sender_id: "4711", channel: telegram}')
    ],
    "routes that never meet change places": [(LAST_ROUTE + TERMINAL_ROUTE, TERMINAL_ROUTE + LAST_ROUTE)],
    # What tools may do
    "a tool less": [('["*", bash], deny', '["*"], deny')],
    "one tool of those that were allowed by a glob": [('["*", bash], deny', "[fs.read, fs.list, bash], deny")],
    "one more is asked about": [("ask: [bash, fs.write", "ask: [web.fetch, bash, fs.write")],
    "all are asked about": [("ask: [bash, fs.write, fs.edit]", 'ask: ["*"]')],
    "the order of tools": [("ask: [bash, fs.write, fs.edit]", "ask: [fs.edit, bash, fs.write]")],
    "one more is denied": [("deny: [web.fetch]", "deny: [web.fetch, bash]")],
    "what is not allowed anyway is not denied any more": [
        ("{allow: [fs.read], ask: []}", "{allow: [fs.read], deny: [], ask: []}")
    ],
    "what was asked about is not allowed any more": [
        (TOOLS, '{allow: ["*"], deny: [web.fetch], ask: [fs.write, fs.edit]}')
    ],
    "what is denied is allowed as well": [
        ('["*", bash], deny: [web.fetch]', '["*", bash, web.fetch], deny: [web.fetch]')
    ],
    "a folder in one that may be read": [("[~/notes]", "[~/notes/work]")],
    "a folder in one that may be read, too": [("[~/notes]", "[~/notes, ~/notes/work]")],
    "no folder": [("  files: {folders: [~/notes]}\n", "")],
    "no private addresses": [("  bash: {env", "  web: {allow_private: false}\n  bash: {env")],
    "no variable for commands": [("env: [GITHUB_TOKEN]", "env: []")],
    # Where messages and keys go
    "encryption": [('base_url: "http://localhost:8081"', 'base_url: "https://localhost:8081"')],
    "the address of the provider, said": [
        ("openrouter: {api_key", 'openrouter: {api_base: "https://openrouter.ai/api/v1/", api_key')
    ],
    "Telegram itself in place of a server of one's own": [(', base_url: "http://localhost:8081"', "")],
    "another model of the same provider": [("openrouter:openrouter/free", "openrouter:anthropic/claude-sonnet-4-5")],
    "the same model from a variable": [("openrouter:openrouter/free", "${env:MODEL:-openrouter:openrouter/free}")],
    "the small local model": [("openrouter:openrouter/free", "local:smollm2")],
    "the models change places": [
        ('model: "openrouter:openrouter/free"', 'model: "openrouter:small"'),
        ('["openrouter:small"]', '["openrouter:openrouter/free"]'),
    ],
    "no other model": [('  fallback_models: ["openrouter:small"]\n', "")],
    "another variable for the key": [("${env:OPENROUTER_API_KEY}", "${env:MY_KEY}")],
    "the words of a reply": stage(
        f"render_outbound: {{default: {REPLIES.replace('{model_output}', 'Hi! {model_output}')}}}"
    ),
    # Limits
    "a lower limit": [("tokens_per_day: 100000", "tokens_per_day: 50000")],
    "a limit that is a little higher": [("steps: 20", "steps: 25")],
    "a limit more": [("{steps: 20,", "{tool_calls: 10, steps: 20,")],
    "a request may take longer": [("  files:", "  timeout: 5m\n  files:")],
    "one channel less": [("    channels: [telegram]\n", "    channels: []\n")],
    # Gates and checks
    "a gate has more time": [("timeout: 5s", "timeout: 30s")],
    "a gate has less time": [("timeout: 5s", "timeout: 1s")],
    "a time-out in other words": [("run_model: {timeout: 2m}", "run_model: {timeout: 120s}")],
    "the time-out of a gate moves to its hook point": [
        (", timeout: 5s}", "}"),
        ("moderate: {kind: gate,", "moderate: {kind: gate, timeout: 5s,"),
    ],
    "the time-out of what is no gate is gone": [("  run_model: {timeout: 2m}\n", "")],
    "one more gate": [
        ("  tool_gate:", "  screen: {kind: gate, takes: [prompt]}\n  tool_gate:"),
        ("  run_model: {timeout", "  screen: {before: run_model}\n  run_model: {timeout"),
    ],
    "a gate is called otherwise": [
        (f"  moderate: {STAGE}", "  screen: {hook: moderate, before: run_model, timeout: 5s}")
    ],
    "a gate asks those that it asked": [(STAGE, "{before: run_model, timeout: 5s, only: [guard]}")],
    "a gate stands higher": [
        (STAGE, "{before: build_prompt, timeout: 5s}"),
        ("takes: [prompt, session_id]", "takes: [session_id, prompt]"),
    ],
    "a gate sees more": [("takes: [prompt, session_id]", "takes: [prompt, session_id, message]")],
    "a gate's time-out may be another": [(STAGE, '{before: run_model, timeout: "${env:PATIENCE:-5s}"}')],
    "what redacts replies is called otherwise": [(f"  redact: {REDACT}", f"  clean: {{hook: redact, {REDACT[1:]}")],
    "what redacts replies stands higher": [
        ("before: dispatch_outbound, on_failure", "after: render_outbound, on_failure")
    ],
    "what redacts replies asks those that it asked": [
        ("{for_each: outbounds,", "{only: [guard], for_each: outbounds,")
    ],
    "one more looks through replies, above what redacts them": [
        ("  tool_gate:", "  polish: {kind: modifying, takes: [message]}\n  tool_gate:"),
        (
            "  redact: {for_each",
            "  polish: {for_each: outbounds, changes: [message], before: redact}\n  redact: {for_each",
        ),
    ],
    "the keys of a gate in another order": [(STAGE, "{timeout: 5s, before: run_model}")],
    "a stage that is no gate is off": [("save_state: {timeout: 20s}", "save_state: {enabled: false}")],
    "a stage below the gate": [
        ("  save_state:", "  noted: {after: run_model, kind: void, hook: agent_done}\n  save_state:")
    ],
    "a stage is tried again": [("{timeout: 2m}", "{timeout: 2m, retry: {times: 2}}")],
    # Code
    "a shipped plugin less": [("[local_model, telegram, guard]", "[local_model, guard]")],
    "a shipped plugin more": [("    plugins: [telegram, guard]", "    plugins: [local_model, telegram, guard]")],
    "a shipped plugin may be missing": [("  guard: {path", "  telegram: {optional: true}\n  guard: {path")],
    "a plugin is called otherwise": [
        ("  guard: {path", "  rules: {path"),
        ("telegram, guard]", "telegram, rules]"),
        ("telegram, guard]", "telegram, rules]"),
    ],
    "the file of a plugin in other words": [("plugins/guard.py", "./plugins/guard.py")],
    "a plugin that no profile lists": [("  guard: {path", "  more: {path: more.py}\n  guard: {path")],
    "the order of plugins": [("[local_model, telegram, guard]", "[telegram, local_model, guard]")],
    # Layout
    "a comment": [("version: 1", "# a comment\nversion: 1")],
    "a description": [("what it is for", "something else")],
    "a test": [("settings:\n", "tests: {a test: {message: {content: x}, expect: {profile: default}}}\nsettings:\n")],
    "the settings move to the profiles": [
        ("  files: {folders: [~/notes]}\n", ""),
        ("    plugins: [local_model", "    settings: {files: {folders: [~/notes]}}\n    plugins: [local_model"),
        ("    plugins: [telegram,", "    settings: {files: {folders: [~/notes]}}\n    plugins: [telegram,"),
    ],
    "the key of the model moves to the top": [
        ('openrouter: {api_key: "${env:OPENROUTER_API_KEY}"}', "openrouter: {}"),
        ("  files:", '  api_key: "${env:OPENROUTER_API_KEY}"\n  files:'),
    ],
    "the budget moves to the profile that it is built on": [
        ("  guests:\n", "  weak: {budget: {steps: 5, tokens_per_day: 10000}}\n  guests:\n    extends: weak\n"),
        ("    budget: {steps: 5, tokens_per_day: 10000}\n", ""),
    ],
    "words of a plugin": [("[a, b]", "[a, b, c]")],
}


@pytest.mark.parametrize("name", DANGEROUS)
def test_what_became_dangerous_is_called_so_and_why(name: str) -> None:
    edits, why = DANGEROUS[name]
    found = dangers(PIPELINE, edited(*edits))
    assert [message for message in found if why in message] != [], found


@pytest.mark.parametrize("name", HARMLESS)
def test_what_became_no_more_dangerous_is_not_called_so(name: str) -> None:
    new = edited(*HARMLESS[name])
    assert new != PIPELINE
    assert dangers(PIPELINE, new) == []


def test_each_way_back_from_what_opens_something_is_harmless() -> None:
    both_ways = {"another file for a plugin", "a package in place of the file"}
    openings = ("everybody", "one more", "the gateway", "a folder", "nobody")
    once = [name for name in DANGEROUS if name.startswith(openings)]
    assert len(once) >= 6
    for name in once:
        assert dangers(edited(*DANGEROUS[name][0]), PIPELINE) == [], name
    for name in both_ways:
        assert dangers(edited(*DANGEROUS[name][0]), PIPELINE) != [], name


# What has a beginning of its own


def test_who_is_no_longer_listed_where_a_chat_is_makes_room_for_everybody_in_it() -> None:
    old = edited((USERS, 'allow_users: [ada], allow_chats: ["-1"]'))
    assert "more people may talk" in dangers(old, old.replace("allow_users: [ada], ", ""))[0]
    assert dangers(old, old.replace(', allow_chats: ["-1"]', ', allow_chats: ["-1", "-2"]')) != []
    assert dangers(old.replace("[ada], allow", "[], allow"), old) == []


def test_a_channel_that_begins_to_run_is_dangerous_if_it_lets_strangers_in() -> None:
    unlisted = edited(*listing("default", "[local_model, guard]"))
    assert dangers(unlisted, PIPELINE) == []
    open_to_all = PIPELINE.replace(USERS, 'allow_users: ["*"]')
    said = ["strangers may talk to the agent on Telegram: Bub answers there now"]
    assert dangers(unlisted.replace(USERS, 'allow_users: ["*"]'), open_to_all) == said
    assert dangers(open_to_all.replace("channels: [telegram]", "channels: []"), open_to_all) == said
    assert dangers(open_to_all, open_to_all.replace("channels: [telegram]", "channels: [all]")) == []


def test_routes_that_meet_and_change_places_may_let_strangers_in() -> None:
    forum = '  - {match: {chat_id: "-7"}, profile: default}\n'
    behind, before = (PIPELINE.replace(LAST_ROUTE, both) for both in (LAST_ROUTE + forum, forum + LAST_ROUTE))
    assert "strangers may do more than profile `guests` let them" in dangers(behind, before)[0]
    assert dangers(before, behind) == []


def test_a_limit_above_the_usual_one_that_goes_is_lower_then() -> None:
    high = PIPELINE.replace("steps: 20", "steps: 140")
    assert dangers(high, high.replace("steps: 140, ", "")) == []


def test_a_new_profile_counts_if_sessions_choose_theirs() -> None:
    more = [("routes:", "  mine: {extends: default, tools: {ask: []}}\nroutes:")]
    chosen = PIPELINE.replace("  tool_gate:", "  personality_switched: {kind: modifying}\n  tool_gate:")
    assert dangers(PIPELINE, edited(*more)) == []
    assert "nobody is asked any more before tool `bash` is used" in dangers(chosen, chosen.replace(*more[0]))


NEW_PROFILE = ("routes:", "  mine: {extends: default, tools: {ask: []}}\nroutes:")
SCHEDULE = 'schedules: {night: {cron: "0 8 * * *", message: Hi, session: "telegram:7", profile: %s}}'
ALARM = 'alarm: {secret: "${env:ALARM}",'


@pytest.mark.parametrize(
    "naming",
    [
        ("settings:", f"{SCHEDULE % 'mine'}\nsettings:"),
        ("profiles: [guests]", "profiles: [guests, mine]"),
        (ALARM, f"{ALARM} profile: mine,"),
        ("  guests:\n", f"  guests:\n    {SCHEDULE % 'mine'}\n"),
        ("settings:", SCHEDULE % '"${env:P:-mine}"' + "\nsettings:"),
        ("profiles: [guests]", 'profiles: [guests, "${env:P:-mine}"]'),
        (ALARM, f'{ALARM} profile: "${{env:P:-mine}}",'),
        (ALARM, f'{ALARM} profile: "${{env:P}}",'),
    ],
    ids=[
        "schedule",
        "client",
        "webhook",
        "schedule of a profile to start with",
        "default of a reference of a schedule",
        "default of a reference of a client",
        "default of a reference of a webhook",
        "reference that may be any profile",
    ],
)
def test_a_new_profile_counts_if_something_beside_routes_names_it(naming: Edit) -> None:
    assert "tool `bash`" in " ".join(dangers(PIPELINE, edited(NEW_PROFILE, naming)))


def test_a_new_profile_does_not_count_if_what_names_it_is_off_or_only_in_itself() -> None:
    off = SCHEDULE.replace("profile: %s", "profile: mine, enabled: false")
    said = "nobody is asked any more before tool `bash` is used"
    assert said not in dangers(PIPELINE, edited(NEW_PROFILE, ("settings:", f"{off}\nsettings:")))
    itself = NEW_PROFILE[1].replace("ask: []}", f"ask: []}}, {SCHEDULE % 'mine'}")
    assert said not in dangers(PIPELINE, edited((NEW_PROFILE[0], itself)))


def test_a_new_profile_that_a_reference_may_name_is_told_with_that_reference() -> None:
    [said] = [
        change.message
        for change in changes(PIPELINE, edited(NEW_PROFILE, (ALARM, f'{ALARM} profile: "${{env:P}}",')))
        if change.kind == "profiles.added"
    ]
    assert said == (
        "profile `mine` is new; its messages got `default` before; perhaps it gets the requests to the webhook "
        "`alarm`, because Bub does not know the value of `${env:P}`"
    )


def test_a_new_profile_is_compared_with_the_one_that_the_webhook_or_client_reached_before() -> None:
    old = edited((ALARM, f"{ALARM} profile: guests,"))
    profile = NEW_PROFILE[1].replace("ask: []", 'ask: [bash, fs.write, fs.edit], deny: [web.fetch], allow: ["*", bash]')
    for naming in ((f"{ALARM} profile: guests", f"{ALARM} profile: mine"), ("[guests]}}", "[guests, mine]}}")):
        new = old.replace("routes:", profile, 1).replace(*naming)
        assert "tool `bash` may be used" in " ".join(dangers(old, new))


@pytest.mark.parametrize(
    ("naming", "got"),
    [
        (("settings:", f"{SCHEDULE % 'mine'}\nsettings:"), "it got the messages of the schedule `night` before"),
        (("[guests]}}", "[guests, mine]}}"), "it got the requests of the HTTP client `ada` that name it before"),
        ((ALARM, f"{ALARM} profile: mine,"), "it got the requests to the webhook `alarm` before"),
        (
            ("  tool_gate:", "  personality_switched: {kind: modifying}\n  tool_gate:"),
            "it got the messages of sessions that choose it before",
        ),
        (
            (ALARM, f'{ALARM} profile: "${{env:P}}",'),
            "perhaps it got the requests to the webhook `alarm`, because Bub does not know the value of `${env:P}`",
        ),
    ],
    ids=["schedule", "client", "webhook", "sessions", "reference"],
)
def test_a_profile_that_is_gone_with_what_named_it_is_told_with_the_messages_that_it_got(
    naming: Edit, got: str
) -> None:
    gone = [change.message for change in changes(edited(NEW_PROFILE, naming), PIPELINE)]
    assert f"profile `mine` is gone; {got}" in gone


def test_a_profile_that_is_gone_names_all_that_gave_it_messages() -> None:
    old = edited(NEW_PROFILE, ("settings:", f"{SCHEDULE % 'mine'}\nsettings:"), (ALARM, f"{ALARM} profile: mine,"))
    assert (
        "profile `mine` is gone; it got the messages of the schedule `night` and the requests to the webhook `alarm` "
        "before" in [change.message for change in changes(old, PIPELINE)]
    )


def test_a_profile_that_is_gone_is_compared_with_the_one_that_its_webhook_reaches_now() -> None:
    old = edited((NEW_PROFILE[0], "  mine: {tools: {allow: [fs.read]}}\nroutes:"), (ALARM, f"{ALARM} profile: mine,"))
    new = edited((ALARM, f"{ALARM} profile: default,"))
    assert "profile `mine` is gone; its messages get `default` now" in [one.message for one in changes(old, new)]
    assert "tool `bash` may be used" in " ".join(dangers(old, new))


def test_gates_that_change_places_guard_the_same() -> None:
    one = [("  tool_gate:", "  screen: {kind: gate, takes: [prompt]}\n  tool_gate:")]
    first, second = "  screen: {before: run_model}\n", f"  moderate: {STAGE}\n"
    text = edited(*one)
    assert dangers(text.replace(second, first + second), text.replace(second, second + first)) == []


def test_what_a_gate_says_at_its_hook_point_may_move_to_its_stage() -> None:
    at_point = edited((", timeout: 5s}", "}"), ("moderate: {kind: gate,", "moderate: {kind: gate, timeout: 5s,"))
    assert dangers(at_point, PIPELINE) == []
    assert dangers(at_point, edited((", timeout: 5s}", "}"))) != []


def test_a_provider_that_is_called_otherwise_is_asked_at_the_same_address() -> None:
    old = edited(("openrouter:openrouter/free", "workshop:qwen3"))
    assert dangers(old, old.replace("workshop:", "lab:")) == []
    taken_over = old.replace("openrouter: {api_key", 'openrouter: {api_base: "https://workshop.example/v1", api_key')
    assert "messages and keys go there" in dangers(old, taken_over)[0]


def test_the_usual_address_in_place_of_ones_own_is_another_one() -> None:
    own = edited(("openrouter: {api_key", 'openrouter: {api_base: "http://127.0.0.1:4000/v1", api_key'))
    [said] = dangers(own, PIPELINE)
    assert said.endswith("messages and keys go to the usual address of `openrouter`")


def test_a_model_of_this_machine_gets_messages_without_danger() -> None:
    assert dangers(PIPELINE, edited(("openrouter:openrouter/free", "ollama:qwen3"))) == []
    elsewhere = ("  files:", "  api_base: https://ollama.example/v1\n  files:")
    assert dangers(PIPELINE, edited(("openrouter:openrouter/free", "ollama:qwen3"), elsewhere)) != []


def test_globs_of_tools_are_compared_by_what_they_match() -> None:
    def freed(old: str, new: str) -> bool:
        return dangers(*(edited(("{allow: [fs.read], ask: []}", tools)) for tools in (old, new))) != []

    assert not freed('{allow: ["fs.*"]}', '{allow: ["fs.*", fs.read, "fs.w*"]}')
    assert not freed('{allow: ["*"], deny: [fs.write]}', '{allow: ["fs.*", "*"], deny: [fs.write]}')
    assert not freed('{allow: ["*"], ask: ["fs.*"]}', "{allow: [fs.read], ask: [fs.read]}")
    assert not freed('{allow: ["*", bash]}', "{ask: []}")
    assert not freed('{allow: [fs.read], deny: ["notes.*"]}', "{allow: [fs.read]}")
    assert freed('{allow: ["*"], deny: ["notes.*"]}', '{allow: ["*"], deny: ["notes.?"]}')
    assert freed('{allow: ["*.read"], ask: ["net.*"]}', '{allow: ["*.read"], ask: []}')
    assert freed("{allow: []}", "{ask: []}")
    assert freed('{ask: ["*"]}', "{ask: []}")


# Files with mistakes


MISTAKES = [
    ("version: 1", "vresion: 1"),
    ("kind: gate", "kind: gaet"),
    ("before: run_model, timeout", "before: run_modle, timeout"),
    ("[fs.read]", "fs.read"),
    ("extends: bub:default\n", "extends: bub:default\nextends: bub:default\n"),
    ("profile: guests", "profile: gusets"),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_file_with_mistakes_is_compared_as_far_as_it_can_be_read(mistake: Edit) -> None:
    opened = (USERS, 'allow_users: ["*"]')
    assert any("more people may talk" in said for said in dangers(PIPELINE, edited(opened, mistake)))
    assert any("more people may talk" in said for said in dangers(edited(mistake), edited(opened)))


WRONG: tuple[Any, ...] = (
    *(None, True, 3, -1.5, "", "x", "${env:X}", "${broken"),
    *([], ["x", 3, None], [[]], {}, {"x": {"y": 1}}),
)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_value_of_the_wrong_type_keeps_files_from_being_compared(data: st.DataObject) -> None:
    plain = deepcopy(PLAIN)
    for _ in range(data.draw(st.integers(1, 3))):
        owner, key = data.draw(st.sampled_from(list(places_in(plain))))
        owner[key] = deepcopy(data.draw(st.sampled_from(WRONG)))
    broken = yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False)
    for sides in ((PIPELINE, broken), (broken, PIPELINE)):
        try:
            changes(*sides)
        except PipelineError as error:
            assert {finding.path for finding in error.diagnostics} >= {"extends"}


PLAIN = yaml.safe_load(PIPELINE)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in which a value stands: what holds it, and the key or the number."""
    for key, below in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(below, dict | list):
            yield from places_in(below)
