"""Each setting that says how models are asked is one that some request heeds."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain

import msgspec

from bub.base.diagnostics import Related, Severity, sure_repair
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.providers import APIS, LOCAL, PROVIDERS, quirks_of, read_reasoning, split_model
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node

CODE = "B107"


class _Idle(msgspec.Struct, frozen=True):
    """A setting that no request heeds, and why."""

    path: str
    node: Node
    message: str
    help: str
    severity: Severity = "note"
    related: tuple[Related, ...] = ()


def check(plan: Plan) -> None:
    """Find fallbacks of no model or of the same one, keys, addresses and windows that no model is asked with, and what
    a model cannot do of the thinking that the settings ask for.

    A variable may choose another model, so what depends on which it is is a note.
    """
    settings = plan.root.get("settings")
    if settings is None or not settings.is_mapping:
        return
    found = (_fallbacks, _overruled, _of_nobody, _windows_of_nobody, _unheeded_reasoning)
    for idle in chain.from_iterable(find(settings) for find in found):
        plan.findings.add(
            CODE,
            idle.message,
            idle.node.where,
            severity=idle.severity,
            path=f"settings.{idle.path}",
            help=idle.help,
            related=idle.related,
        )


def _fallbacks(settings: Node) -> Iterator[_Idle]:
    model, others = settings.get("model"), settings.get("fallback_models")
    own = text_of(model)
    if others is not None and model is None and list(others.elements()):
        message = "Bub never falls back on these: no `model` is set, here or in your own file"
        yield _Idle("fallback_models", others, message, "set `model`, which Bub asks first")
    for index, node in enumerate(others.elements() if others is not None else ()):
        if own is not None and model is not None and text_of(node) == own and "$" not in own:
            message = f"`{own}` is the model itself, so Bub never falls back on it"
            related = (Related("the model", model.place.file, model.place.range),)
            yield _Idle(f"fallback_models[{index}]", node, message, "name another model", "warning", related)


def _overruled(settings: Node) -> Iterator[_Idle]:
    """The general key and address, if the provider of the model has its own."""
    provider, colon, _ = (text_of(settings.get("model")) or "").partition(":")
    for key in ("api_key", "api_base") if colon and "$" not in provider else ():
        general, own = settings.get(key), settings.get("providers", provider.lower(), key)
        if general is not None and own is not None:
            message = f"Bub never uses `{key}`: `providers.{provider.lower()}.{key}` counts instead"
            related = (Related("this one counts", own.where.file, own.where.range),)
            yield _Idle(key, general, message, "take one of the two out", related=related)


def _of_nobody(settings: Node) -> Iterator[_Idle]:
    """The entries of providers that nobody knows, that have no address, and that no model names."""
    others = settings.get("fallback_models")
    models = [settings.get("model"), *(others.elements() if others is not None else ())]
    named = {(text_of(node) or "").partition(":")[0].lower() for node in models if node is not None}
    entries, known = settings.get("providers"), {*PROVIDERS, LOCAL}
    for name, node in entries.items() if entries is not None else ():
        if name.lower() in known | named or node.get("api_base") is not None or not node.is_mapping:
            continue
        meant = sure_repair(name, known)
        message = f"Bub never uses `providers.{name}`: it has no address, and Bub knows no provider `{name}`"
        advice = f"did you mean `{meant}`?" if meant else f"give its address: `providers.{name}.api_base`"
        yield _Idle(f"providers.{name}", node, message, advice, "warning" if meant else "note")


def _windows_of_nobody(settings: Node) -> Iterator[_Idle]:
    """The windows of models that the settings do not name, if they name others of the same provider."""
    others = settings.get("fallback_models")
    models = [settings.get("model"), *(others.elements() if others is not None else ())]
    named = [split_model(text) for node in models if (text := text_of(node) or "") and "$" not in text]
    entries = settings.get("providers")
    for provider, entry in entries.items() if entries is not None else ():
        own = [name for of, name in named if of == provider.lower()]
        windows = entry.get("context") if entry.is_mapping else None
        for glob, node in windows.items() if windows is not None and windows.is_mapping else ():
            if own and not any(fnmatchcase(name, glob) for name in own):
                message = f"`providers.{provider}.context` names `{glob}`, but the settings name no such model"
                advice = f"write it as you write the model, `{own[0]}`, or as a glob that matches the model"
                yield _Idle(f"providers.{provider}.context.{glob}", node, message, advice)


def _unheeded_reasoning(settings: Node) -> Iterator[_Idle]:
    """The reasoning that the model, or one to fall back on, cannot do; nothing of models that a variable chooses."""
    node = settings.get("reasoning")
    try:
        wanted = read_reasoning(node.value if node is not None else None)
    except ValueError:
        return  # the schema says so, or a reference stands there
    if node is None or wanted is None:
        return
    others = settings.get("fallback_models")
    for model in (settings.get("model"), *(others.elements() if others is not None else ())):
        text = text_of(model) or ""
        provider, name = split_model(text)
        if model is None or "$" in text or ":" not in text or provider == LOCAL:
            continue
        api = text_of(settings.get("providers", provider, "api"))
        problem = quirks_of(provider, api if api in APIS else None).thinking_of(name).find_problem(wanted)
        if problem:
            related = (Related("the model", model.place.file, model.place.range),)
            message, advice = f"`{text}` {problem}", "choose another level, or leave `reasoning` to the provider"
            yield _Idle("reasoning", node, message, advice, "warning", related)
