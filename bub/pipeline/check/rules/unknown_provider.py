"""The provider of a model is known, or has an address."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.base.diagnostics import sure_repair
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.providers import CUSTOM, LOCAL, PROVIDERS
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node
from bub.plugins.shipped import LOCAL_MODEL

CODE = "B197"

_PROVIDER = "[A-Za-z][A-Za-z0-9_.-]*"


def check(plan: Plan) -> None:
    """Find models that nobody can be asked for, as far as is known here.

    A slip for a known provider is a warning. Any other is a note: a person's own file, a variable or a plugin may tell
    where it is asked. A slip beside a plugin is a note, too, that did not come with Bub, which may answer for it.
    """
    known = {*PROVIDERS, LOCAL}
    for path, node, model in _models(plan):
        provider, colon, _ = model.partition(":")
        if not colon and not _has_address(plan, CUSTOM):
            plan.findings.add(
                CODE,
                f"`{model}` does not say which provider to ask",
                node.place,
                severity="note",
                path=path,
                help="write it as `provider:name`, or give the address: `api_base`",
            )
        if not colon or re.fullmatch(_PROVIDER, provider) is None:
            continue
        if provider.lower() == LOCAL and plan.has_shipped_plugins_only and not _lists_local(plan):
            plan.findings.warn(
                CODE,
                f"no plugin answers for `{model}`: profile `{plan.profile}` does not list the plugin `{LOCAL_MODEL}`",
                node.place,
                path=path,
                profile=plan.profile,
                help=f"list `{LOCAL_MODEL}` in the profile's `plugins`, or choose another model",
            )
        if provider.lower() in known or _has_address(plan, provider):
            continue
        repair = sure_repair(provider, known)
        is_slip = repair is not None and plan.has_shipped_plugins_only
        plan.findings.add(
            CODE,
            f"Bub does not know the provider `{provider}`",
            node.place,
            severity="warning" if is_slip else "note",
            path=path,
            help=f"did you mean `{repair}`?" if repair else f"give its address: `providers.{provider}.api_base`",
            fix=f"{repair}:{model.partition(':')[2]}" if is_slip else None,
        )


def _models(plan: Plan) -> Iterator[tuple[str, Node, str]]:
    settings = plan.root.get("settings")
    if settings is None:
        return
    model, others = settings.get("model"), settings.get("fallback_models")
    nodes = [("settings.model", model)] if model is not None else []
    nodes += [(f"settings.fallback_models[{n}]", each) for n, each in enumerate(others.elements() if others else ())]
    for path, node in nodes:
        text = text_of(node)
        if text:
            yield path, node, text.strip()


def _lists_local(plan: Plan) -> bool:
    return any(name == LOCAL_MODEL for name, _ in plan.allowlist)


def _has_address(plan: Plan, provider: str) -> bool:
    """Return whether it is said where a provider is asked; the general address is that of the model's own provider."""
    settings = plan.root.get("settings")
    assert settings is not None
    own = settings.get("providers", provider.lower(), "api_base") or settings.get("providers", provider, "api_base")
    first, colon, _ = (text_of(settings.get("model")) or "").partition(":")
    model = first if colon else CUSTOM
    return own is not None or (provider == model and settings.get("api_base") is not None)
