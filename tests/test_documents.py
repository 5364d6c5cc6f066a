"""PDFs go to the providers that take them, and as text to the others; pictures go to no model that refuses them."""

from __future__ import annotations

import io
import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from fakes.paper import pdf
from fakes.scripted import ANTHROPIC, OPENAI, Called, refusal
from fakes.talk import Talk
from pypdf import PdfReader, PdfWriter

from bub.agent.costs.budget import estimate_tokens
from bub.agent.documents import pdf as reading
from bub.agent.documents.pdf import read_pdf
from bub.agent.tools.files import file_tools
from bub.errors import ModelError
from bub.pipeline.plan.providers import ANTHROPIC as BY_ANTHROPIC
from bub.pipeline.plan.providers import OPENAI as BY_OPENAI
from bub.pipeline.plan.providers import PROVIDERS, RESPONSES
from bub.tools import ToolContext, ToolError

TWO = pdf(["The first page", "The second page"])
LONG = pdf([f"This is page {number}. {'word ' * 50}" for number in range(1, 501)])


def paper(data: bytes, name: str = "report.pdf") -> dict[str, Any]:
    url = f"data:application/pdf;base64,{b64encode(data).decode()}"
    return {"kind": "document", "mime_type": "application/pdf", "url": url, "name": name}


PICTURE = {"kind": "image", "mime_type": "image/png", "url": "data:image/png;base64,YWJj", "name": "cat.png"}


def encrypted() -> bytes:
    writer, file = PdfWriter(), io.BytesIO()
    writer.append(PdfReader(io.BytesIO(TWO)))
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(file)
    return file.getvalue()


def told(request: dict[str, Any]) -> str:
    """What the newest message of the user says."""
    content = [message for message in request["messages"] if message["role"] == "user"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


# PDFs


@pytest.mark.anyio
async def test_a_pdf_is_text_for_a_provider_that_takes_none(talk: Talk) -> None:
    async with talk.open():
        await talk.say("read", media=[paper(TWO)])
        await talk.say("and?")
    first, later = await talk.asked()
    line = f"[document: report.pdf, application/pdf, {len(TWO):,} bytes, 2 pages, as text]"
    text = "[page 1]\nThe first page\n\n[page 2]\nThe second page"
    assert told(first).split("\n", 1)[1] == f"{line}\n{text}\n[end of the document]"
    assert later["messages"][: len(first["messages"])] == first["messages"]


@pytest.mark.anyio
async def test_a_pdf_goes_as_it_is_to_a_provider_that_takes_it(talk: Talk) -> None:
    providers = "anthropic: {api_base: '%s/v1', api_key: sk-a-very-secret-key}"
    async with talk.open(providers=providers % talk.address, more="  max_tokens: 10"):
        await talk.say(",model anthropic:claude-sonnet-4-5")
        await talk.say(ANTHROPIC.answer("Read."), media=[paper(TWO)])
        talk.model = "claude-sonnet-4-5"
    body = (await talk.asked())[-1]
    (document,) = [part for part in body["messages"][-1]["content"] if part["type"] == "document"]
    assert document["source"]["data"] == b64encode(TWO).decode()
    assert document["title"] == "report.pdf"


@pytest.mark.parametrize(
    ("provider", "api", "models", "others"),
    [
        ("openai", BY_OPENAI, ["gpt-4o-mini", "gpt-5.2", "o3"], ["gpt-3.5-turbo", "gpt-4-0613", "o1-mini"]),
        ("openai", RESPONSES, ["gpt-5"], []),
        ("openai", BY_ANTHROPIC, [], ["gpt-5"]),
        ("anthropic", BY_ANTHROPIC, ["claude-sonnet-4-5", "claude-3-5-haiku-latest"], ["claude-3-haiku-20240307"]),
        ("openrouter", BY_OPENAI, ["anthropic/claude-opus-4.1", "google/gemini-3-pro"], ["qwen/qwen3-max"]),
        ("ollama", BY_OPENAI, [], ["llava"]),
    ],
)
def test_who_takes_pdfs(provider: str, api: str, models: list[str], others: list[str]) -> None:
    known = PROVIDERS[provider]
    assert all(known.takes_pdfs(model, api) for model in models)
    assert not any(known.takes_pdfs(model, api) for model in others)


@pytest.mark.anyio
async def test_of_a_long_pdf_the_rest_can_be_read(talk: Talk) -> None:
    async with talk.open():
        await talk.say("read", media=[paper(LONG)])
        (first,) = await talk.asked()
        said = told(first)
        line = re.search(r"\[… from page (\d+) on, ([\d,]+) characters .* `(\w+)` gives part 1 to (\d+) …\]", said)
        assert line is not None
        page, _, handle, parts = line.groups()
        assert "500 pages, as text]" in said
        assert len(said) < 64_500
        assert f"[page {int(page) - 1}]" in said and f"[page {page}]" not in said
        whole = []
        for part in range(1, int(parts) + 1):
            read = Called("spill_read", json.dumps({"handle": handle, "part": part}), f"c{part}")
            await talk.say(OPENAI.answer(calls=[read]), OPENAI.answer("Read."))
            whole.append(talk.of_kind("tool_result")[0]["content"])
        bodies = await talk.asked()
    assert whole[0].startswith(f"[page {page}]\nThis is page {page}.")
    assert "This is page 500." in whole[-1]
    assert bodies[-1]["messages"][: len(first["messages"])] == first["messages"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (encrypted(), "it is encrypted"),
        (TWO[: len(TWO) // 3].replace(b"obj", b"xxx"), "it is broken"),
        (pdf(["", ""]), "its pages hold no text, perhaps pictures of one"),
    ],
)
async def test_a_pdf_that_cannot_be_read_is_named_with_the_reason(talk: Talk, data: bytes, why: str) -> None:
    async with talk.open():
        await talk.say("read", media=[paper(data)])
    assert told((await talk.asked())[0]).endswith(f"bytes: it cannot be read: {why}]")


def test_a_pdf_that_takes_too_long_is_read_as_far_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is enough for the beginning of 3,000 pages, or for nothing at all, and not for their end."""
    monkeypatch.setattr(reading, "SECONDS", 1.0)
    found = read_pdf(pdf([f"This is page {number}. {'word ' * 200}" for number in range(1, 3001)]))
    assert found.problem in ("", "it is broken, or wants too much time or memory")
    assert len(found.texts) < 3000
    if found.texts:
        assert f"[{3000 - len(found.texts):,} more pages could not be read in time]" in found.text


def test_fs_read_shows_the_text_of_a_pdf(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(TWO)
    (tmp_path / "closed.pdf").write_bytes(encrypted())
    (read,) = [tool for tool in file_tools() if tool.name == "fs.read"]
    context = ToolContext("s", tmp_path)
    assert read.function("report.pdf", 1, 2, context=context) == "[page 1]\nThe first page\n[go on with offset=3]"
    assert "The second page" in read.function("report.pdf", 3, 9, context=context)
    with pytest.raises(ToolError, match="is a PDF that cannot be read: it is encrypted"):
        read.function("closed.pdf", 1, 9, context=context)


# Models that take no pictures

NO_PICTURES = {"error": {"message": "unknown variant `image_url`, expected `text`", "type": "invalid_request_error"}}


@pytest.mark.anyio
async def test_a_model_that_refuses_pictures_is_asked_without_them_from_then_on(talk: Talk) -> None:
    script = (refusal(NO_PICTURES, 400), OPENAI.answer("I cannot see it."))
    async with talk.open():
        assert (await talk.say(*script, media=[PICTURE])).model_output == "I cannot see it."
        await talk.say(OPENAI.answer("No."))
    refused, named, later = await talk.asked()
    assert "YWJj" in json.dumps(refused) and "YWJj" not in json.dumps([named, later])
    assert told(named).count("cat.png") == 1
    assert "[image: image/png, 3 bytes, which this model cannot be sent]" in told(named)
    assert later["messages"][: len(named["messages"])] == named["messages"]


@pytest.mark.anyio
async def test_what_is_refused_for_another_reason_stays_refused(talk: Talk) -> None:
    other = {"error": {"message": "temperature is out of range", "type": "invalid_request_error"}}
    async with talk.open():
        with pytest.raises(ModelError, match="out of range"):
            await talk.say(refusal(other, 400), OPENAI.answer("no"), media=[PICTURE])
        with pytest.raises(ModelError, match="image_url"):
            await talk.say(refusal(NO_PICTURES, 400), OPENAI.answer("no"))
    assert len(await talk.asked()) == 2


def test_a_picture_that_nobody_counted_is_no_million_tokens() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4_000_000}}
    assert 1000 < estimate_tokens([{"role": "user", "content": [picture]}], "A cat.") < 3000


def test_who_is_known_to_take_no_pictures() -> None:
    assert not PROVIDERS["deepseek"].sees("deepseek-chat")
    assert not PROVIDERS["openai"].sees("gpt-3.5-turbo")
    assert PROVIDERS["openai"].sees("gpt-4o") and PROVIDERS["ollama"].sees("llava")
