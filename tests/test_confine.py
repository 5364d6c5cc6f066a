"""What `reach` shuts is shut: attempts to get out of a confined command, each of which succeeds without `reach`."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from bub.agent.confine import bubblewrap, landlock
from bub.agent.tools.shell import open_shells, shell_tools
from bub.base.confinement.value import Confinement
from bub.tools import ToolContext, ToolError

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="Bub confines commands on Linux")]

IS_ROOT = os.geteuid() == 0
IS_OWN_MACHINE = (
    IS_ROOT and "Seccomp:\t0\n" in Path("/proc/self/status").read_text() if sys.platform == "linux" else False
)
"""Whether nothing else than a test confines: no container, no other user's rights."""
YEAR_2002 = 1009843200
PROTECTED = "CANARY-4711"
"""What nobody inside may read."""

Run = Callable[..., Awaitable[str]]


class House(NamedTuple):
    """A workspace, and what lies around it; `values` is what the commands of attempts are filled with."""

    workspace: Path
    outside: Path
    home: Path
    udp: socket.socket
    values: Mapping[str, str]

    def was_sent_to(self) -> bool:
        """Whether a datagram has come."""
        try:
            return bool(self.udp.recv(10, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False


VICTIM = f"""
import ctypes, sys, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0)  # who may trace processes at all may trace this one
kept = open(sys.argv[1])
secret = ctypes.create_string_buffer(b"{PROTECTED}")
print(ctypes.addressof(secret), kept.fileno(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    workspace, outside, home = (tmp_path / name for name in ("work", "outside", "home"))
    for folder in (workspace, outside, home / ".ssh", home / ".bub"):
        folder.mkdir(parents=True)
    for file in (
        outside / "secret",
        outside / "cut",
        outside / "moved",
        outside / "whole",
        home / ".ssh/id",
        home / ".bub/.env",
        home / ".bashrc",
    ):
        file.write_text(f"{PROTECTED}\n")
    with sqlite3.connect(home / ".bub/inbox.db") as inbox:
        inbox.execute("create table open as select 'q1' as id")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what a Bub that is killed leaves there goes with the test
    monkeypatch.delenv("BUB_HOME", raising=False)
    abstract, shared = f"bub-{tmp_path.name}-{os.getpid()}", f"/dev/shm/bub-{os.getpid()}"
    with ExitStack() as stack:
        tcp, udp = (stack.enter_context(socket.socket(type=kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
        named, hidden = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        monkeypatch.chdir(outside)  # the name of a socket in a folder is short
        for listening, address in (
            (tcp, ("127.0.0.1", 0)),
            (udp, ("127.0.0.1", 0)),
            (named, "sock"),
            (hidden, f"\0{abstract}"),
            (datagrams, "log"),
        ):
            listening.bind(address)
            if listening.type == socket.SOCK_STREAM:
                listening.listen(100)
        victim = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", VICTIM, outside / "secret"], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(victim.kill)
        assert victim.stdout is not None
        address, descriptor = victim.stdout.readline().split()
        yield House(
            workspace,
            outside,
            home,
            udp,
            {
                "out": os.path.relpath(outside, workspace),
                "OUT": str(outside),
                "HOME": str(home),
                "ABSTRACT": abstract,
                "SHARED": shared,
                "TCP": str(tcp.getsockname()[1]),
                "UDP": str(udp.getsockname()[1]),
                "VICTIM": str(victim.pid),
                "ADDRESS": address,
                "FD": descriptor,
                "PARENT": str(os.getpid()),
                "PY": sys.executable,
                "ROOT": "" if IS_ROOT else "unshare -rm ",
            },
        )
        Path(shared).unlink(missing_ok=True)


@pytest.fixture
async def run(house: House) -> Any:
    """Runs a command of the tool, confined as `reach` says; what it prints, also if it fails."""
    async with open_shells() as shells:

        async def there() -> Any:
            return shells

        tools = {tool.name: tool for tool in shell_tools(there)}

        async def call(
            command: str, reach: Confinement | None, *, name: str = "bash", own: tuple[Path, ...] = (), **given: Any
        ) -> str:
            context = ToolContext("s", house.workspace, own_files=own, confinement=reach)
            arguments = {"command": command, **given} if name == "bash" else given
            try:
                return str(await tools[name].call(tools[name].check(arguments), context))
            except ToolError as error:
                return str(error)

        yield call


@pytest.fixture(params=["bubblewrap", "Landlock"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to confine commands that this machine has."""
    if request.param == "Landlock":
        monkeypatch.setattr(bubblewrap, "PROGRAM", "no-such-program")
    lack = (landlock if request.param == "Landlock" else bubblewrap).find_lack()
    if lack:
        pytest.skip(lack)
    return str(request.param)


class Attempt(NamedTuple):
    """A shell command that prints ESCAPED if it got out; then there is the file `lands` outside, and `seen` is true.

    One that `is_rare` gets out only where nothing else confines: in no container, and as root.
    """

    command: str
    lands: str = ""
    is_rare: bool = False
    seen: Callable[[House], bool] = lambda house: True


def python(text: str) -> str:
    """A shell command that runs Python with `libc`; it escapes if nothing is raised, and nothing asserted is wrong."""
    head = "import ctypes, os, socket, fcntl, sqlite3\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    return f"%(PY)s -c '{head}{textwrap.dedent(text).strip()}\nprint(\"ESCAPED\")'"


def connects(address: str, family: str = "UNIX", kind: str = "STREAM") -> str:
    return python(f"socket.socket(socket.AF_{family}, socket.SOCK_{kind}).connect({address})")


ATTEMPTS = {
    # Reading
    "a file outside": Attempt("grep -q CANARY %(OUT)s/secret && echo ESCAPED"),
    "a file outside, from the workspace": Attempt("grep -q CANARY %(out)s/secret && echo ESCAPED"),
    "a file outside, through a link": Attempt("ln -sf %(OUT)s/secret l0; grep -q CANARY l0 && echo ESCAPED"),
    "the keys of the person": Attempt("grep -q CANARY %(HOME)s/.ssh/id && echo ESCAPED"),
    "Bub's own folder": Attempt("grep -q CANARY %(HOME)s/.bub/.env && echo ESCAPED"),
    "the inbox, to say yes": Attempt(
        python('assert sqlite3.connect("%(HOME)s/.bub/inbox.db").execute("select * from open").fetchall()')
    ),
    "which files there are": Attempt("ls %(HOME)s/.ssh | grep -q id && echo ESCAPED"),
    "the passwords of the machine": Attempt("grep -q root /etc/shadow && echo ESCAPED", is_rare=True),
    "the root of this process": Attempt("grep -q CANARY /proc/self/root/%(OUT)s/secret && echo ESCAPED"),
    "the root of Bub": Attempt("grep -q CANARY /proc/%(PARENT)s/root/%(OUT)s/secret && echo ESCAPED"),
    "the folder of Bub": Attempt("grep -q CANARY /proc/%(PARENT)s/cwd/secret && echo ESCAPED"),
    "the environment of Bub": Attempt("tr '\\0' '\\n' < /proc/%(PARENT)s/environ | grep -q ^PATH= && echo ESCAPED"),
    "an open file of another process": Attempt(
        "grep -q CANARY /proc/%(VICTIM)s/fd/%(FD)s && echo ESCAPED", is_rare=True
    ),
    "the command line of Bub": Attempt("tr '\\0' ' ' < /proc/%(PARENT)s/cmdline | grep -q . && echo ESCAPED"),
    # Writing
    "a new file outside": Attempt("echo x > %(OUT)s/new && echo ESCAPED", "new"),
    "an end of a file outside": Attempt("echo x >> %(OUT)s/secret && echo ESCAPED"),
    "through a link": Attempt("ln -sf %(OUT)s/linked l1; echo x > l1 && echo ESCAPED", "linked"),
    "through a hard link": Attempt("ln %(OUT)s/secret l2 && echo x >> l2 && echo ESCAPED"),
    "through a link to a folder": Attempt("ln -sfn %(OUT)s l3; echo x > l3/below && echo ESCAPED", "below"),
    "through the root of this process": Attempt("echo x > /proc/self/root/%(OUT)s/rooted && echo ESCAPED", "rooted"),
    "a folder outside": Attempt("mkdir %(OUT)s/folder && echo ESCAPED", "folder"),
    "away with a file outside": Attempt("touch %(OUT)s/gone; rm %(OUT)s/gone && echo ESCAPED"),
    "a file from outside into the workspace": Attempt("mv %(OUT)s/moved . && cp moved %(OUT)s/ && echo ESCAPED"),
    "a file cut outside": Attempt(
        "truncate -s 0 %(OUT)s/whole && echo ESCAPED", seen=lambda house: not (house.outside / "whole").read_text()
    ),
    "the mode of a file outside": Attempt("chmod 604 %(OUT)s/secret && echo ESCAPED"),
    "the time of a file outside": Attempt(
        "touch -c -d 2001-01-01 %(OUT)s/cut && echo ESCAPED",
        seen=lambda house: (house.outside / "cut").stat().st_mtime < YEAR_2002,
    ),
    "the owner of a file outside": Attempt("chown $(id -u) %(OUT)s/secret && echo ESCAPED"),
    "what runs at the next login": Attempt(
        "echo true >> %(HOME)s/.bashrc && grep -q CANARY %(HOME)s/.bashrc && echo ESCAPED"
    ),
    "what runs at a time": Attempt(
        "mkdir -p %(HOME)s/.config/systemd/user && echo x > %(HOME)s/.config/systemd/user/x.timer && echo ESCAPED",
        "../home/.config/systemd/user/x.timer",
    ),
    "memory that all share": Attempt("echo x > %(SHARED)s && echo ESCAPED", "%(SHARED)s"),
    "temporary files that all share": Attempt("echo x > %(OUT)s/../tmp-file && echo ESCAPED", "../tmp-file"),
    "the kernel's settings": Attempt("exec 5>>/proc/sys/kernel/core_pattern && echo ESCAPED", is_rare=True),
    "a device of its own": Attempt("mknod null c 1 3 && echo x > null && echo ESCAPED", is_rare=True),
    # Other processes
    "a signal to Bub": Attempt("kill -0 %(PARENT)s && echo ESCAPED"),
    "a signal to another process": Attempt("kill -WINCH %(VICTIM)s && echo ESCAPED"),
    "tracing": Attempt(python("assert libc.ptrace(0x4206, %(VICTIM)s, 0, 0) == 0"), is_rare=True),
    "memory of another process": Attempt(
        python(
            """
            class Piece(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]
            mine = ctypes.create_string_buffer(6)
            here, there = Piece(ctypes.addressof(mine), 6), Piece(%(ADDRESS)s, 6)
            assert libc.process_vm_readv(%(VICTIM)s, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 6
            """
        ),
        is_rare=True,
    ),
    "memory of another process as a file": Attempt(
        python('f = open("/proc/%(VICTIM)s/mem", "rb"); f.seek(%(ADDRESS)s); assert f.read(6) == b"CANARY"'),
        is_rare=True,
    ),
    "a descriptor of another process": Attempt(
        python("p = os.pidfd_open(%(VICTIM)s); assert libc.syscall(438, p, %(FD)s, 0) >= 0"), is_rare=True
    ),
    "limits of Bub": Attempt(python("import resource; resource.prlimit(%(PARENT)s, resource.RLIMIT_CPU)")),
    # Networks and sockets
    "a server of this machine": Attempt(connects('("127.0.0.1", %(TCP)s)', "INET")),
    "a server by the other name": Attempt("exec 3<>/dev/tcp/localhost/%(TCP)s && echo ESCAPED"),
    "a datagram": Attempt(
        python('socket.socket(type=socket.SOCK_DGRAM).sendto(b"?", ("127.0.0.1", %(UDP)s))'), seen=House.was_sent_to
    ),
    "a datagram of the newer kind": Attempt(
        python('socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"?", ("::ffff:127.0.0.1", %(UDP)s))'),
        seen=House.was_sent_to,
    ),
    "a socket in a folder": Attempt(connects('"%(out)s/sock"')),
    "a socket without a folder": Attempt(connects('"\\0%(ABSTRACT)s"')),
    "a socket that is connected already": Attempt(
        python('a, b = socket.socketpair(type=socket.SOCK_DGRAM); a.sendto(b"?", "%(out)s/log")')
    ),
    # The kernel
    "a user namespace": Attempt("unshare -Ur true && echo ESCAPED", is_rare=True),
    "a mount": Attempt("mkdir -p m && %(ROOT)ssh -c 'mount -t tmpfs none m && umount m' && echo ESCAPED", is_rare=True),
    "another root": Attempt("%(ROOT)schroot / true && echo ESCAPED", is_rare=True),
    "io_uring": Attempt(python("assert libc.syscall(425, 4, ctypes.create_string_buffer(120)) >= 0"), is_rare=True),
    "a program with the rights of its owner": Attempt("cp /bin/true t && chmod u+s t && echo ESCAPED"),
    "a program that is born with the rights of its owner": Attempt(
        python(
            'os.umask(0); f = os.open("born", os.O_CREAT | os.O_WRONLY, 0o4755); assert os.fstat(f).st_mode & 0o4000'
        )
    ),
    "the mode of a file outside, through a link": Attempt("ln -s %(OUT)s/cut l4; chmod 600 l4 && echo ESCAPED"),
    "the mode of a file outside, from an opened folder": Attempt(
        python('f = os.open("%(out)s", os.O_PATH); os.chmod("cut", 0o600, dir_fd=f)')
    ),
    "rights of a program's owner": Attempt(python("assert libc.prctl(39, 0, 0, 0, 0) == 0")),
    "programs in the kernel": Attempt(
        python("assert libc.syscall(321, 0, ctypes.create_string_buffer(72), 72) >= 0 or ctypes.get_errno() == 22"),
        is_rare=True,
    ),
    "keys that the kernel keeps": Attempt(
        python('assert libc.syscall(248, b"user", b"bub", b"x", 1, -3) >= 0'), is_rare=True
    ),
}


async def try_all(run: Run, house: House, reach: Confinement | None) -> list[str]:
    """The attempts that succeeded, each told by what it prints and by what is outside then."""
    escaped = []
    limiter = trio.CapacityLimiter(3)

    async def attempt(name: str, attempt: Attempt) -> None:
        async with limiter:
            printed = await run(attempt.command % house.values, reach)
        landed = not attempt.lands or (house.outside / (attempt.lands % house.values)).exists()
        landed = landed and attempt.seen(house)
        if "ESCAPED" in printed and landed:
            escaped.append(name)

    async with trio.open_nursery() as nursery:
        for name, each in ATTEMPTS.items():
            nursery.start_soon(attempt, name, each)
    return escaped


async def test_no_attempt_gets_out(run: Run, house: House, way: str) -> None:
    assert await try_all(run, house, Confinement()) == []
    assert PROTECTED in (house.outside / "secret").read_text()


async def test_each_attempt_gets_out_without_reach(run: Run, house: House) -> None:
    escaped = await try_all(run, house, None)
    assert {name for name, each in ATTEMPTS.items() if IS_OWN_MACHINE or not each.is_rare} - set(escaped) == set()


# What still works


def git(*words: str) -> str:
    return f"git -c user.name=a -c user.email=a@b -c init.defaultBranch=main {' '.join(words)}"


WORK = {
    "a shell": ("x=$(mktemp) && cat <<< here > $x && diff $x <(echo here) && echo worked", "worked"),
    "a home": ("mkdir -p ~/.cache/x && touch ~/.cache/x/y && ls ~/.cache/x", "y"),
    "modes and times": (
        "touch s && chmod 700 s && touch -d 2001-01-01 s && cp -p s t && sed -i s/a/b/ t && mkdir n && chmod g+w n && "
        "cd n && mv ../t . && chmod 640 t && ln -s t l && touch -h l && stat -c '%a %y' ../s | cut -c1-14",
        "700 2001-01-01",
    ),
    "git": (
        f"git init -q r && cd r && echo a > a && git add a && {git('commit', '-qm', 'one')} && git log --oneline",
        "one",
    ),
    "Python": (
        "\"$PY\" -c \"import subprocess, ssl, sqlite3; print(subprocess.run(['echo', 'ran']).returncode)\"",
        "ran",
    ),
    "make": ("printf 'all: out\\nout:\\n\\techo made > out\\n' > Makefile && make -s && make -q && cat out", "made"),
    "pytest": (
        'echo \'def test_one(tmp_path): (tmp_path / "a").mkdir()\' > test_a.py && "$PY" -m pytest -q test_a.py',
        "1 passed",
    ),
}


async def test_ordinary_work_goes_on(
    run: Run, house: House, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PY", sys.executable)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    results = {name: await run(command, Confinement()) for name, (command, _) in WORK.items()}
    assert {name: text for name, text in results.items() if WORK[name][1] not in text} == {}
    assert (house.workspace / "out").read_text() == "made\n"


async def test_what_is_listed_is_open(run: Run, house: House, way: str) -> None:
    (house.home / "notes").mkdir()
    (house.home / "notes/todo").write_text("buy milk\n")
    reach = Confinement(write=("workspace", str(house.outside)), read=("~/notes",))
    assert "buy milk" in await run("cat ~/notes/todo", reach)
    assert "written" in await run(f"echo x > {house.outside}/new && echo written", reach)
    assert (house.outside / "new").exists()
    await run("echo more >> ~/notes/todo; touch ~/notes/new", reach)
    assert (house.home / "notes/todo").read_text() == "buy milk\n"
    assert not (house.home / "notes/new").exists()
    assert "CANARY" not in await run(f"cat {house.home}/.ssh/id", reach)


async def test_a_workspace_that_may_only_be_read_is_not_written(run: Run, house: House, way: str) -> None:
    (house.workspace / "build").mkdir()
    reach = Confinement(write=("workspace/build",))
    await run("echo x > new; echo y > build/new", reach)
    assert sorted(path.name for path in house.workspace.rglob("new")) == ["new"]
    assert (house.workspace / "build/new").exists()


async def test_a_network_is_reached_if_the_file_says_so(run: Run, house: House, way: str) -> None:
    reach = Confinement(network="all")
    for name in ("a server of this machine", "a datagram"):
        assert "ESCAPED" in await run(ATTEMPTS[name].command % house.values, reach)
    for name in ("a socket in a folder", "a socket without a folder", "a file outside"):
        assert "ESCAPED" not in await run(ATTEMPTS[name].command % house.values, reach)


async def test_temporary_files_last_from_one_command_to_the_next(run: Run, house: House, way: str) -> None:
    await run('echo kept > "$TMPDIR/one"', Confinement())
    assert await run('cat "$TMPDIR/one"', Confinement()) == "kept\n"


async def test_nothing_of_bub_stays_open_in_a_command(run: Run, house: House, way: str) -> None:
    with (house.outside / "secret").open() as kept:
        os.set_inheritable(kept.fileno(), True)
        count = "import os\nfor n in range(256):\n try: os.fstat(n); print(n)\n except OSError: pass"
        assert await run(f"{sys.executable} -c '{count}'", Confinement()) == "0\n1\n2\n"


# In the background, and what is left


async def test_a_command_in_the_background_is_confined(run: Run, house: House, way: str) -> None:
    await run("cat ../outside/secret; echo over; sleep 100", Confinement(), background=True)
    told = await run("", None, name="bash.output", id="b1", wait=10, text="over")
    assert "over" in told
    assert PROTECTED not in told
    assert "is ended now" in await run("", None, name="bash.kill", id="b1")


HIDDEN = "(setsid env -i sh -c 'exec -a {name} sleep 300 & wait' > /dev/null 2>&1 &); sleep {seconds}"
"""What leaves its group and its environment behind, and has no parent any more."""


def sleepers(name: str) -> int:
    """How many processes are called so, as the machine sees it."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes().startswith(f"{name}\0".encode())
        except OSError:
            continue
    return found


async def settle(name: str, number: int) -> None:
    with trio.fail_after(10):
        while sleepers(name) != number:  # noqa: ASYNC110 (other processes set no event)
            await trio.sleep(0.02)


async def test_what_a_confined_command_leaves_behind_ends_with_it(run: Run, house: House, way: str) -> None:
    name = f"left-{os.getpid()}"
    bash = HIDDEN.replace("sh -c", "bash -c").format(name=name, seconds=100)
    told = await run(bash, Confinement(), timeout=1.5)
    assert "took longer" in told
    await settle(name, 0)
    await run(bash, Confinement(), background=True)
    await settle(name, 1)
    await run("", None, name="bash.kill", id="b1")
    await settle(name, 0)


BUB = """
import sys, trio
from pathlib import Path
from bub.agent.confine import bubblewrap
from bub.agent.tools.shell import open_shells, shell_tools
from bub.base.confinement.value import Confinement
from bub.tools import ToolContext

way, folder, *commands = sys.argv[1:]
if way == "Landlock":
    bubblewrap.PROGRAM = "no-such-program"

async def main():
    async with open_shells() as shells, trio.open_nursery() as nursery:
        async def there():
            return shells
        bash = shell_tools(there)[0]
        context = ToolContext("s", Path(folder), confinement=None if way == "none" else Confinement())
        for command in commands:
            nursery.start_soon(bash.call, bash.check({"command": command}), context)

trio.run(main)
"""


@pytest.mark.parametrize("how", ["none", "bubblewrap", "Landlock"])
async def test_nothing_survives_a_bub_that_is_killed(house: House, how: str) -> None:
    lack = {"bubblewrap": bubblewrap, "Landlock": landlock}[how].find_lack() if how != "none" else ""
    if lack:
        pytest.skip(lack)
    name = f"orphan-{how}-{os.getpid()}"
    hidden = HIDDEN.replace("sh -c", "bash -c").format(name=name, seconds=100)
    # Without `reach` a process is known by its environment, so one without any cannot be found.
    hidden = hidden.replace("env -i ", "") if how == "none" else hidden
    plain = f"exec -a {name} sleep 300"
    bub = subprocess.Popen(  # noqa: ASYNC220 (it is not waited for)
        [sys.executable, "-c", BUB, how, str(house.workspace), hidden, plain]
    )
    try:
        await settle(name, 2)
    finally:
        bub.kill()
        bub.wait()
    await settle(name, 0)


# What says what the agent may do


async def test_no_command_changes_what_says_what_the_agent_may_do(
    run: Run, house: House, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.workspace / "plugins").mkdir()
    own = (house.workspace / "pipelines.yaml", house.workspace / "plugins/guard.py")
    for path in own:
        path.write_text("strict\n")
    command = "; ".join(
        [
            *(f"echo loose > {path}; rm -f {path}; mv {path} away; echo loose > {path}" for path in own),
            "mv plugins other; mkdir plugins; echo loose > plugins/guard.py",
            "cat .env; echo BUB_API_BASE=http://127.0.0.1 > .env; echo done",
        ]
    )
    if way == "Landlock":
        told = await run(command, Confinement(), own=own)
        assert "Landlock opens folders whole, and cannot keep" in told
    else:
        assert "done" in await run(command, Confinement(), own=own)
        assert not (house.workspace / ".env").read_text()
        (house.workspace / ".env").write_text(f"{PROTECTED}\n")
        assert PROTECTED not in await run(command, Confinement(), own=own)
        assert (house.workspace / ".env").read_text() == f"{PROTECTED}\n"
    assert [path.read_text() for path in own] == ["strict\n", "strict\n"]


@pytest.mark.parametrize("is_there", [True, False])
async def test_no_command_writes_the_persons_own_file_though_the_home_folder_is_open(
    run: Run, house: House, way: str, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    own = house.workspace / ".bub"
    if is_there:
        own.mkdir()
    monkeypatch.setenv("HOME", str(house.workspace))
    told = await run(f"mkdir -p {own}; echo loose > {own}/pipelines.yaml; echo done > ran", Confinement())
    assert not (own / "pipelines.yaml").exists()
    assert (house.workspace / "ran").exists() == (way == "bubblewrap")
    assert way == "bubblewrap" or "Landlock opens folders whole" in told


@pytest.mark.parametrize(
    ("reach", "why"),
    [
        (Confinement(read=("~/no-such-folder",)), "`~/no-such-folder` does not exist"),
        (Confinement(write=("~/.bub",)), "is Bub's own folder, which no command may see"),
        (Confinement(write=("build",)), "`build` is no folder"),
    ],
)
async def test_what_cannot_be_enforced_does_not_run(run: Run, house: House, reach: Confinement, why: str) -> None:
    told = await run("touch ran", reach)
    assert told.startswith("the command cannot be confined, so it does not run: ")
    assert why in told
    assert not (house.workspace / "ran").exists()


async def test_a_machine_without_means_runs_nothing(run: Run, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "PROGRAM", "no-such-program")
    monkeypatch.setattr(landlock, "LEAST", 10_000)
    told = await run("touch ran", Confinement())
    assert "bubblewrap is not installed; its Landlock is of version" in told
    assert not (house.workspace / "ran").exists()
