"""The channel that docs/channels.md shows, as it stands there: it answers whoever connects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from fakes.line import opened
from fakes.toys import Toy, Workshop

PAGE = Path(__file__).parent.parent / "docs" / "channels.md"

pytestmark = pytest.mark.anyio


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not where the tests are")
async def test_the_channel_of_the_page_answers_each_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    listening = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listening[0].socket.getsockname()[1]
    await listening[0].aclose()
    (tmp_path / "lines.py").write_text(code.replace("4000", str(port)), encoding="utf-8")
    workshop = Workshop(tmp_path, monkeypatch)
    workshop.plugin("echo", Toy(run_model=lambda prompt: f"you said {prompt}"))
    framework = workshop("""
        extends: bub:default
        plugins: {lines: {path: lines.py}, echo: {path: echo.py}}
        profiles: {default: {plugins: [lines, echo]}}
    """)
    async with opened(framework) as manager:
        async with await trio.open_tcp_stream("127.0.0.1", port) as caller:
            for word in (b"hello", b"again"):
                await caller.send_all(word + b"\n")
                assert await caller.receive_some() == b"you said " + word + b"\n"
        assert manager.names == ("lines",)
