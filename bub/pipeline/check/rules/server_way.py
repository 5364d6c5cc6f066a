"""A server is either a program or an address."""

from __future__ import annotations

from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of

CODE = "B244"

_OF_COMMAND, _OF_URL = "env", "headers"


def check(plan: Plan) -> None:
    """Find servers that are neither, or both, and keys that are for the other kind."""
    if plan.root.get("mcp") is None:
        return
    for name, node in late.servers_in(plan.root):
        command, url, path = node.get("command"), node.get("url"), f"mcp.{name}"
        if command is None and url is None:
            advice = "write `command: [PROGRAM, …]` for a program that Bub starts, or `url:` for an address"
            plan.findings.add(
                CODE, f"server `{name}` has neither `command` nor `url`", node.where, path=path, help=advice
            )
        elif command is not None and url is not None:
            problem, advice = f"server `{name}` has a `command` and a `url`", "keep one of the two"
            plan.findings.add(CODE, problem, url.where, path=f"{path}.url", help=advice)
        elif url is not None and not (text_of(url) or "https://").startswith(("http://", "https://", "${")):
            problem = f"the `url` of server `{name}` is no address of the web"
            plan.findings.add(CODE, problem, url.where, path=f"{path}.url", help="begin it with `https://`")
        else:
            key, other = (_OF_URL, "command") if command is not None else (_OF_COMMAND, "url")
            said = node.get(key)
            if said is not None:
                problem = f"`{key}` changes nothing for server `{name}`, which has a `{other}`"
                plan.findings.warn(CODE, problem, said.where, path=f"{path}.{key}", help=f"take `{key}` out")
