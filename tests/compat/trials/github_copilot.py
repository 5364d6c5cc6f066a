"""bub-github-copilot: the SDK starts the program `copilot`, makes a session and asks it."""

from __future__ import annotations

from tests.compat.trial import Trial
from tests.compat.world import World

COPILOT = """
import json, os, sys, uuid
assert os.environ["COPILOT_SDK_AUTH_TOKEN"] == "gho_1" and "--stdio" in sys.argv, sys.argv

def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    sys.stdout.buffer.flush()

def tell(session, kind, data):
    event = {"id": str(uuid.uuid4()), "timestamp": "2026-01-01T00:00:00Z", "parentId": None, "type": kind, "data": data}
    send(method="session.event", params={"sessionId": session, "event": event})

while line := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    request = json.loads(sys.stdin.buffer.read(int(line.split(b":")[1])))
    asked, session = request["params"], request["params"].get("sessionId")
    match request["method"]:
        case "ping":
            send(id=request["id"], result={"message": "pong", "timestamp": 1767225600000, "protocolVersion": 3})
        case "session.resume":
            send(id=request["id"], error={"code": -32000, "message": "no such session"})
        case "session.send":
            send(id=request["id"], result={"messageId": "m1"})
            tell(session, "assistant.message", {"messageId": "m2", "content": "Copilot heard: " + asked["prompt"]})
            tell(session, "session.idle", {})
        case _:
            send(id=request["id"], result={"sessionId": session, "workspacePath": None})
"""


async def turn(world: World) -> None:
    world.put("copilot", COPILOT)
    world.configure(cli_path=str(world.folder / "bin" / "copilot"))
    world.variables["COPILOT_GITHUB_TOKEN"] = "gho_1"
    answer = await world.run("hello Copilot")
    assert "Copilot heard: " in answer and "hello Copilot" in answer, answer


TRIAL = Trial(
    package="bub-github-copilot",
    plugin="github-copilot",
    does="if `copilot` cannot continue the session, the package begins a new one, and `copilot` answers",
    against="a fake of the program `copilot`; the setting `cli_path` names it, and github-copilot-sdk speaks to it",
    hooks=("run_model",),
    turn=turn,
)
