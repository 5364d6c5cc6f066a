"""What generated pipelines have shown to pass unsaid: it is found before a turn, and what is right stays quiet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, marked
from fakes.mistakes import said as told

from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError, without_notes

Write = Callable[[str, str], Path]

PLUGIN = "plugins: {toy: {path: toy.py}}\nprofiles: {default: {plugins: [toy]}}\n"


def found_in(write: Write, pipeline: str, toy: str) -> tuple[Diagnostic, ...]:
    """What a start finds in a pipeline with one plugin, notes included."""
    write("toy.py", f"from bub import hookimpl\n\n\n{toy}\n")
    framework = BubFramework(write("pipelines.yaml", VERSION + pipeline + PLUGIN))
    try:
        framework.load_hooks()
    except PipelineError as error:
        return error.diagnostics
    return framework.findings


def said(findings: tuple[Diagnostic, ...]) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.severity, finding.message) for finding in findings]


# B219: below who always answers.

LAST = "@hookimpl(trylast=True)\ndef {hook}(message): ...\n"


@pytest.mark.parametrize(
    ("hook", "parent"),
    [
        ("run_model", "default"),
        ("run_model_stream", "default"),
        ("resolve_session", "default"),
        ("resolve_session", "classic"),  # which skips failures, but there is none
    ],
)
def test_who_is_asked_after_builtin_where_that_always_answers_is_told(write: Write, hook: str, parent: str) -> None:
    toy, (place,) = marked(f"from bub import hookimpl\n\n\n@hookimpl(trylast=True)\ndef «{hook}»(message): ...")
    (finding,) = found = without_notes(
        found_in(write, f"extends: bub:{parent}\n", toy.removeprefix("from bub import hookimpl\n\n\n"))
    )
    message = (
        f"plugin `toy` implements `{hook}`, but Bub never asks it: Bub asks `builtin` first, and `builtin` always"
        " answers"
    )
    assert said(found) == [("B219", "warning", message)]
    assert (finding.file, finding.range) == ("toy.py", place)
    assert finding.help == "take `trylast` off, or leave `builtin` out with `only`"


@pytest.mark.parametrize(
    ("pipeline", "toy"),
    [
        ("extends: bub:default\n", "@hookimpl\ndef run_model(message): ..."),
        ("extends: bub:default\n", LAST.format(hook="build_prompt")),
        # It is asked if `builtin` fails.
        ("extends: bub:classic\n", LAST.format(hook="run_model")),
        # `builtin` is left out, at this stage or at another one.
        ("extends: bub:default\nstages: {run_model: {only: [toy]}}\n", LAST.format(hook="run_model")),
        (
            "extends: bub:default\nstages: {again: {after: run_model, kind: firstresult, hook: run_model, only: [toy],"
            " into: second, default: none}}\n",
            LAST.format(hook="run_model"),
        ),
    ],
)
def test_who_is_asked_sometimes_stays_quiet(write: Write, pipeline: str, toy: str) -> None:
    assert said(found_in(write, pipeline, toy)) == []


# B221: a condition on replies.

CHECKED = """extends: bub:default
hooks: {check_reply: {kind: KIND, takes: [message]}}
stages:
  check_reply: {before: dispatch_outbound, for_each: outbounds, when: {FIELD: "guest-*"}}
"""
CHECKING = "@hookimpl\ndef check_reply(message): ..."


@pytest.mark.parametrize(
    ("kind", "severity", "so"), [("gate", "error", ", so it lets everything pass"), ("observer", "warning", "")]
)
def test_a_condition_that_asks_replies_for_who_wrote_the_message_is_found(
    write: Write, kind: str, severity: str, so: str
) -> None:
    pipeline, (place,) = marked(VERSION + CHECKED.replace("KIND", kind).replace('"guest-*"', "«guest-*»"))
    pipeline = pipeline.replace("FIELD", "sender_id").removeprefix(VERSION)
    (finding,) = found = found_in(write, pipeline, CHECKING)
    message = f"stage `check_reply` asks each of `outbounds` for its sender_id, but no reply has one{so}"
    assert said(found) == [("B221", severity, message)]
    assert finding.range.start.line == place.start.line
    assert finding.help == 'give the replies one, with `sender_id: "{sender_id}"` in the `default` that makes them'


@pytest.mark.parametrize("field", ["channel", "chat_id", "content", "session_id", "kind"])
def test_a_condition_that_asks_replies_for_what_they_have_stays_quiet(write: Write, field: str) -> None:
    pipeline = CHECKED.replace("KIND", "gate").replace("FIELD", field)
    assert said(found_in(write, pipeline, CHECKING)) == []


@pytest.mark.parametrize(
    ("more", "toy"),
    [
        ("  render_outbound: {default: [{content: hi, sender_id: '{sender_id}', channel: cli, chat_id: x}]}\n", ""),
        ("", "@hookimpl\ndef render_outbound(): ..."),
        ("  message_sending: {kind: modifying, for_each: outbounds, changes: [message], after: render_outbound}\n",
         "@hookimpl\ndef message_sending(): ..."),
        ("  before_dispatch: {kind: claiming, before: run_model, hook: inbound_claim}\n",
         "@hookimpl\ndef inbound_claim(): ..."),
    ],
)  # fmt: skip
def test_replies_that_may_have_any_field_are_asked_for_it(write: Write, more: str, toy: str) -> None:
    pipeline = CHECKED.replace("KIND", "gate").replace("FIELD", "sender_id")
    assert said(found_in(write, pipeline + more, f"{CHECKING}\n\n\n{toy}")) == []


# B198: a condition on a message, and routes that give it to another profile.

GATE = "extends: bub:default\nhooks: {guard: {kind: gate}}\n"
TO_STRICT = "routes: [{match: {channel: 'tele*'}, profile: strict}]"
IN_FILE = f"{GATE}stages: {{guard: {{before: run_model, when: {{channel: «telegram»}}}}}}\nprofiles: {{strict: "
IN_DEFAULT = f"{GATE}profiles: {{default: {{stages: {{guard: {{before: run_model, when: WHEN}}}}}}, strict: {{}}}}\n"
IN_WORK = "extends: bub:default\nprofiles: {work: {stages: {load_state: {when: WHEN}}}}\nroutes: "
AWAY = "but route 1 leads every such message to profile `strict`"
TAKE_OVER = "put the stage into profile `strict`, or take it out"

LATE = "extends: bub:ethos\nhooks: {polish: {kind: KIND, takes: [TAKES]}}\nstages: {polish: {WHERE}}"
ANEW = ", or let it change each reply: `for_each: outbounds`"


def late(kind: str, takes: str, where: str) -> str:
    return LATE.replace("KIND", kind).replace("TAKES", takes).replace("WHERE", where)


MISTAKES = [
    Mistake(
        "B198",
        f"{IN_FILE}{{stages: {{guard: {{enabled: false}}}}}}}}\n{TO_STRICT}",
        f"stage `guard` asks for channel `telegram`, {AWAY}",
        TAKE_OVER,
        ("enabled: false", "timeout: 5s"),
        related="the route",
        severity="warning",
    ),
    Mistake(
        "B198",
        IN_DEFAULT.replace("WHEN", "{channel: «telegram»}") + TO_STRICT,
        f"stage `guard` asks for channel `telegram`, {AWAY}",
        TAKE_OVER,
        ("strict: {}", "strict: {extends: default}"),
        related="the route",
        severity="warning",
    ),
    Mistake(
        "B198",
        IN_DEFAULT.replace("when: WHEN", "«when»: {chat_id: '42', content: '/go*'}")
        + "routes: [{match: {channel: '*', chat_id: '4?', content: '/*'}, profile: strict}]",
        f"stage `guard` asks for chat_id `42`, content `/go*`, {AWAY}",
        TAKE_OVER,
        ("'42'", "'52'"),
        related="the route",
        severity="warning",
    ),
    Mistake(
        "B198",
        IN_WORK.replace("WHEN", "{channel: «telegram»}")
        + "[{match: {channel: cli, chat_id: '1'}, profile: work}, {match: {channel: 'c*'}, profile: work}]",
        "stage `load_state` asks for channel `telegram`, but no route leads such a message to profile `work`",
        "ask for messages that a route leads to this profile, or take it out",
        ("telegram", '"cl?"'),
        related="a route to the profile",
        severity="warning",
    ),
    Mistake(  # one field contradicts the one route, the other field the other
        "B198",
        IN_WORK.replace("when: WHEN", "«when»: {channel: telegram, chat_id: '1'}")
        + "[{match: {channel: cli}, profile: work}, {match: {chat_id: '2*'}, profile: work}]",
        "stage `load_state` asks for channel `telegram`, chat_id `1`, but no route leads such a message to profile"
        " `work`",
        "ask for messages that a route leads to this profile, or take it out",
        ("telegram", "cli"),
        related="a route to the profile",
        severity="warning",
    ),
    # B199: changes that come too late
    Mistake(
        "B199",
        late("modifying", "model_output", "after: render_outbound, «changes»: [model_output]"),
        "stage `polish` changes `model_output`, but `render_outbound` above it has already made the replies from it",
        f"move it above `render_outbound`, with `before: render_outbound`{ANEW}",
        ("after: render", "before: render"),
        related="stage `render_outbound` takes `model_output`",
        severity="warning",
    ),
    Mistake(
        "B199",
        late("modifying", "prompt", "after: run_model, «changes»: [prompt]"),
        "stage `polish` changes `prompt`, but `run_model` above it has already asked the model",
        "move it above `run_model`, with `before: run_model`",
        ("after", "before"),
        related="stage `run_model` takes `prompt`",
        severity="warning",
    ),
    Mistake(
        "B199",
        late("modifying", "message", "after: dispatch_outbound, «for_each»: outbounds, changes: [message]"),
        "stage `polish` changes `outbounds`, but `dispatch_outbound` above it has already sent them",
        "move it above `dispatch_outbound`, with `before: dispatch_outbound`",
        ("after", "before"),
        related="stage `dispatch_outbound` takes `outbounds`",
        severity="warning",
    ),
    Mistake(
        "B199",
        late("gate", "message", "after: dispatch_outbound, «for_each»: outbounds"),
        "stage `polish` judges `outbounds`, but `dispatch_outbound` above it has already sent them",
        "move it above `dispatch_outbound`, with `before: dispatch_outbound`",
        ("after", "before"),
        related="stage `dispatch_outbound` takes `outbounds`",
        severity="warning",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.code} {mistake.message}")
def test_what_comes_to_nothing_where_it_stands_is_found_and_its_mended_twin_is_not(mistake: Mistake) -> None:
    assert_is_found(mistake)


QUIET = [
    # The profile that gets the messages has the stage too, or a message may still come.
    f"{IN_FILE}{{}}}}\n{TO_STRICT}".replace("«telegram»", "telegram"),
    f"{IN_FILE}{{}}}}\n{TO_STRICT}".replace("«telegram»", "cli"),
    IN_DEFAULT.replace("WHEN", "{channel: 't*'}") + TO_STRICT,
    IN_DEFAULT.replace("WHEN", "{channel: telegram, chat_id: '42'}")
    + "routes: [{match: {channel: telegram, sender_id: bob}, profile: strict}]",
    IN_DEFAULT.replace("WHEN", "{channel: telegram}")
    + 'routes: [{match: {channel: "${env:CHANNEL:-cli}"}, profile: strict}]',
    IN_DEFAULT.replace("WHEN", "{channel: telegram}")
    + "routes: [{match: {channel: telegram, chat_id: '1'}, profile: default},"
    " {match: {channel: telegram}, profile: strict}]",
    # A stage above may have made another message, or it is asked of replies.
    IN_DEFAULT.replace("WHEN", "{content: '/*'}").replace("bub:default", "bub:classic")
    + "routes: [{match: {content: '/*'}, profile: strict}]",
    IN_DEFAULT.replace("before: run_model", "for_each: outbounds, before: dispatch_outbound").replace(
        "WHEN", "{channel: telegram}"
    )
    + TO_STRICT,
    # One of the routes to the profile may lead such a message there.
    IN_WORK.replace("WHEN", "{channel: telegram}")
    + "[{match: {channel: cli}, profile: work}, {match: {chat_id: '1'}, profile: work}]",
    # Changes of what is still to be used, and a change of the reply itself.
    late("modifying", "model_output", "before: render_outbound, changes: [model_output]"),
    late("modifying", "message", "after: render_outbound, for_each: outbounds, changes: [message]"),
    late("modifying", "state", "after: render_outbound, changes: [state]"),
    late("gate", "model_output", "after: render_outbound"),
]


@pytest.mark.parametrize("text", QUIET)
def test_what_still_comes_to_something_stays_quiet(text: str) -> None:
    assert told(check(VERSION + text)) == []


# B224: a session is called after its channel and chat.

WATCHED = "extends: bub:default\nhooks: {watch: {kind: gate}}\nstages: {watch: {after: load_state, when: WHEN}}\n"
WATCHING = "@hookimpl\ndef watch(message): ..."


@pytest.mark.parametrize("parent", ["default", "classic"])
@pytest.mark.parametrize(
    ("when", "others"),
    [
        ("{session_id: 'cli:local*', chat_id: '42'}", "chat_id `42`"),
        ("{session_id: 'cli:*', channel: telegram}", "channel `telegram`"),
        ("{session_id: '*:4?', chat_id: '55', channel: 'c*'}", "channel `c*` and chat_id `55`"),
    ],
)
def test_a_session_of_another_chat_than_the_one_that_is_asked_for_is_told(
    write: Write, when: str, others: str, parent: str
) -> None:
    asked = when.split("'")[1]
    message = f"stage `watch` asks for session_id `{asked}` and {others}, but Bub names a session `CHANNEL:CHAT_ID`"
    pipeline = WATCHED.replace("WHEN", when).replace("bub:default", f"bub:{parent}")
    assert said(found_in(write, pipeline, WATCHING)) == [("B224", "warning", message)]


@pytest.mark.parametrize(
    ("when", "more"),
    [
        ("{session_id: 'cli:4*', chat_id: '42', channel: cli}", ""),
        ("{session_id: '*:4?', chat_id: '5*', channel: 'c*'}", ""),  # such as `cli:5:42`
        ("{session_id: work, chat_id: '42'}", ""),  # as `bub run --session-id work` calls it
        ("{session_id: 'cli:*', channel: telegram}", "\n@hookimpl\ndef resolve_session(message): ..."),
    ],
)
def test_a_session_that_a_message_or_a_plugin_names_stays_quiet(write: Write, when: str, more: str) -> None:
    assert said(found_in(write, WATCHED.replace("WHEN", when), WATCHING + more)) == []
