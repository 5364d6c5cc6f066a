"""The words of generated pipelines: what they are about, what is called how in them, and what conditions ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Node = dict[str, Any]

OWN_FILE: Node = {
    "stages": {
        "resolve_session": {"kind": "firstresult", "into": "session_id", "default": "{channel}:{chat_id}"},
        "load_state": {"kind": "broadcast", "combine": "merge", "into": "state"},
        "build_prompt": {"kind": "firstresult", "into": "prompt", "default": "{content}"},
        "run_model": {"kind": "stream", "hook": "run_model_stream", "into": "model_output"},
        "render_outbound": {
            "kind": "broadcast",
            "combine": "concat",
            "into": "outbounds",
            "default": [{"content": "{model_output}", "channel": "{channel}", "chat_id": "{chat_id}"}],
        },
        "dispatch_outbound": {"kind": "broadcast", "for_each": "outbounds"},
    }
}
"""What a file that extends nothing begins with."""

IDS = {
    "gate": ("moderate", "bouncer", "customs", "vet_words"),
    "claiming": ("take_over",),
    "modifying": ("polish",),
    "observer": ("watch_it",),
    "void": ("shout_out",),
    "firstresult": ("ponder",),
    "broadcast": ("gather",),
}
"""What generated stages and their hooks are called, by kind."""

FIRED = "permit"
"""A gate that `brain` or `helper` fires in a stage; `tool_gate` is the agent's."""

BRAIN = "brain"
PLUGINS = ("guard", "warden", "helper", BRAIN)
"""The plugins of every file, lowest priority first; `brain` answers, or brings the agent a model."""

LISTS = ("outbounds", "gather_value")
"""The values that stages run for each item of."""

FLAWS = (
    *("",) * 6,
    *("only", "unmarked", "unfired", "items", "last", "nobody", "left out", "missing", "off", "stages off"),
)
"""What may be wrong with a file: half of them have nothing wrong on purpose."""

AIMS: Mapping[str, str] = {
    "anything": "whatever comes",
    "unfired": "a gate that nobody fires",
    "last": "a gate that is fired by who is never asked",
    "items": "a gate that asks replies for what they do not have",
    "elsewhere": "a gate whose messages all get a profile where it is off",
    "session": "a gate that asks for the session of another chat",
    "beside": "a gate that stages stand beside which would not wait for it",
    "claimed": "a claim that stages stand beside which would not wait for it",
    "below": "a check of what a stream has said",
    "too late": "a change of the answer when the replies are made",
    "slow": "gates with time-outs whose functions nothing can interrupt",
    "only": "a gate of which `only` names one of the two that implement it",
    "only another": "a gate of which `only` names who does not implement it",
    "nobody": "a gate that nobody implements",
    "unmarked": "a gate whose functions are no hooks",
}
"""What a generated file is about: each is a part of the pipelines for which some rule, or the engine, has to answer."""

SERVICES: Mapping[str, str] = {
    "resolve_session": "firstresult",
    "load_state": "broadcast",
    "build_prompt": "firstresult",
    "save_state": "broadcast",
    "dispatch_outbound": "broadcast",
    "render_outbound": "broadcast",
}
"""Known hooks that `helper` may implement too."""

CHANNELS = ("cli", "telegram", "work-1")
ON = "${env:TOYS_ARE_ON:-true}"
"""What `enabled` may say beside true and false. A check without the environment takes what may be on for on."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "channel": ("cli", "tele*", "work-[0-9]", "*"),
    "chat_id": ("4*", "local*"),
    "sender_id": ("ann", "b?b"),
    "content": ("/*", "hello*", ",*"),
    "session": ("new", "known"),
    "session_id": ("cli:*", "*:4*"),
}
"""What `when` and `match` ask in generated files."""

BESIDE = ("beside", "claimed")
"""The aims for which a stage stands at the top, and others may run beside it but for its kind."""

KINDS_OF: Mapping[str, tuple[str, ...]] = {
    "beside": ("gate",),
    "claimed": ("claiming",),
    "items": ("gate",),
    "elsewhere": ("gate",),
    "session": ("gate",),
    "only": ("gate",),
    "only another": ("gate",),
    "nobody": ("gate",),
    "unmarked": ("gate",),
    "too late": ("modifying",),
}
"""The kinds of the stages in files that are about few."""

ONCE = ("elsewhere", "session", "too late")
"""The aims for which no stage runs for each item: a reply may go elsewhere than its message came from."""

ONLY: Mapping[str, str] = {"only": PLUGINS[0], "only another": BRAIN}
"""Whom gates ask in files that are about `only`."""

AIMED: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "items": ({"sender_id": "ann"}, {"sender_id": "b?b", "channel": "cli"}),
    "elsewhere": ({"channel": "cli"}, {"channel": "telegram", "chat_id": "4*"}, {"channel": "work-1", "content": "/*"}),
    "session": ({"session_id": "cli:*", "channel": "tele*"}, {"session_id": "*:4*", "chat_id": "local"}),
}
"""What gates ask in files that are about conditions."""
