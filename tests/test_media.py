"""What comes with a message beside its text: in the prompt, in what each API is sent, and never dropped in silence."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import pairwise
from typing import Any

import pytest
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk, add, adding, bringing
from fakes.toys import HELLO, Toy, Workshop

from bub.agent.models.parts import name_part
from bub.channels import ChannelMessage
from bub.tape.media import first_that_stays

pytestmark = pytest.mark.anyio


def data(mime_type: str, content: bytes = b"abc") -> str:
    return f"data:{mime_type};base64,{b64encode(content).decode()}"


def media(kind: str, mime_type: str, url: str | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "mime_type": mime_type, "url": data(mime_type) if url is None else url, **more}


async def prompt_of(bub: Workshop, *attached: Any, **message: Any) -> Any:
    framework = bub(model=Toy(run_model=lambda: "hi"))
    return (await framework.process_inbound({**HELLO, "media": list(attached), **message})).prompt


async def test_T33_images_audio_and_video_become_parts_behind_the_text(bub: Workshop) -> None:
    text, image, audio, video = await prompt_of(
        bub, media("image", "image/png"), media("audio", "audio/mpeg"), media("video", "video/mp4")
    )
    assert text == {"type": "text", "text": "hello"}
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}
    assert audio == {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}}
    assert video == {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,YWJj"}}


async def test_T33_a_message_of_nothing_but_an_image_is_that_image(bub: Workshop) -> None:
    (image,) = await prompt_of(bub, media("image", "image/png", "https://example.com/a.png"), content="")
    assert image == {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


async def test_T33_the_context_stands_above_the_text_of_the_parts(bub: Workshop) -> None:
    framework = bub(model=Toy(run_model=lambda: "hi"))
    message = ChannelMessage("cli", "local", "look", context={"sender": "ada"}, media=[media("image", "image/png")])
    text, _ = (await framework.process_inbound(message)).prompt
    assert text["text"].startswith("sender: ada\n---Date: ")
    assert text["text"].endswith("---\nlook")


@pytest.mark.parametrize(
    ("mime_type", "content", "text"),
    [
        ("text/plain", "grüße".encode(), "grüße"),
        ("text/csv; charset=utf-8", b"\xef\xbb\xbfa,b\n1,2", "a,b\n1,2"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("text/plain", b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_T33_a_document_that_is_text_stands_in_the_prompt(
    bub: Workshop, mime_type: str, content: bytes, text: str
) -> None:
    document = media("document", mime_type, data(mime_type, content), name="notes.txt")
    prompt = await prompt_of(bub, document)
    assert prompt == f"hello\n\n[document: notes.txt, {mime_type}]\n{text}\n[end of the document]"


@pytest.mark.parametrize(
    ("attached", "line"),
    [
        (media("document", "application/pdf", "https://example.com/a.pdf"), "[document: https://example.com/a.pdf]"),
        (media("document", "text/plain", "https://example.com/a"), "[document: https://example.com/a]"),
        (media("audio", "audio/ogg", "https://example.com/a.ogg"), "[audio: https://example.com/a.ogg]"),
        (media("image", "image/png", ""), "[image: it could not be fetched]"),
        (media("sticker", "image/webp"), "[sticker: image/webp, 3 bytes]"),
        (media("", "application/zip", file_name="a.zip"), "[document: a.zip, application/zip, 3 bytes]"),
        (media("document", "text/plain", "data:text/plain;base64,a"), "[document: text/plain, 0 bytes]"),
    ],
)
async def test_T33_what_cannot_be_shown_is_named(bub: Workshop, attached: dict[str, Any], line: str) -> None:
    assert await prompt_of(bub, attached) == f"hello\n\n{line}"


async def test_T33_of_a_long_document_it_is_said_how_much_is_left_out(bub: Workshop) -> None:
    prompt = await prompt_of(bub, media("document", "text/plain", data("text/plain", b"x" * 64_500)))
    assert "[… 500 characters left out …]" in prompt
    assert prompt.count("x") == 64_000 + 1  # and that of `text`


async def test_T33_a_command_is_its_bare_content(bub: Workshop) -> None:
    assert await prompt_of(bub, media("image", "image/png"), content=" ,help ") == ",help"


ATTACHED = [
    media("image", "image/png"),
    media("image", "image/tiff"),
    media("audio", "audio/wav"),
    media("audio", "audio/ogg"),
    media("video", "video/mp4"),
]


@pytest.mark.parametrize(
    ("api", "types", "said"),
    [
        ("openai", ["text", "image_url", "image_url", "input_audio", "text", "text"], ["audio/ogg", "video/mp4"]),
        ("anthropic", ["text", "image", "text", "text", "text", "text"], ["tiff", "wav", "audio/ogg", "video/mp4"]),
    ],
)
async def test_T33_what_a_provider_does_not_take_is_told_in_its_place(
    talk: Talk, api: str, types: list[str], said: list[str]
) -> None:
    async with talk.open(api=api):
        await talk.say("look", media=ATTACHED)
    (request,) = await talk.asked()
    content = request["messages"][-1]["content"]
    assert [part["type"] for part in content] == types
    told = [part["text"] for part in content[1:] if part["type"] == "text"]
    assert all(name in text for name, text in zip(said, told, strict=True))
    assert told[-1] == "[video: video/mp4, 3 bytes, which this model cannot be sent]"


async def test_P19_the_tape_names_what_was_sent(talk: Talk) -> None:
    async with talk.open():
        await talk.say("look", media=ATTACHED)
        (said,) = [entry for entry in await talk.tape() if entry.payload.get("role") == "user"]
    assert [part["text"] for part in said.payload["content"]] == [
        "look",
        "[image: image/png, 3 bytes]",
        "[image: image/tiff, 3 bytes]",
        "[audio: audio/wav, 3 bytes]",
        "[audio: audio/ogg, 3 bytes]",
        "[video: video/mp4, 3 bytes]",
    ]


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ({"type": "image_url", "image_url": "https://example.com/a.png"}, "[image: https://example.com/a.png]"),
        ({"type": "image_url", "image_url": {"url": "file:///a.png"}}, "[image]"),
        ({"type": "video_url", "video_url": {"url": "data:video/mp4,abcd"}}, "[video: video/mp4, 4 bytes]"),
        ({"type": "input_audio", "input_audio": {}}, "[audio: 0 bytes]"),
        ({}, "[attachment]"),
    ],
)
def test_how_a_part_is_named(part: dict[str, Any], line: str) -> None:
    assert name_part(part) == line


# In the turns that follow

PIXEL = data("image/png", b"a picture")


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_picture_is_sent_in_every_later_request_and_leaves_at_an_anchor(talk: Talk, api: str) -> None:
    async with talk.open(api=api):
        await talk.say("look", media=[media("image", "image/png", PIXEL, name="cat.png")])
        await talk.say("and now?")
        await talk.say(",tape.reset")
        await talk.say("what was it?")
    first, later, anew = await talk.asked()
    assert list(later["messages"][: len(first["messages"])]) == first["messages"] or api == "anthropic"
    assert json.dumps(later).count("YSBwaWN0dXJl") == 1
    assert "cat.png" in json.dumps(later)
    assert "YSBwaWN0dXJl" not in json.dumps(anew)


async def test_a_handoff_names_the_pictures_that_it_leaves_behind(talk: Talk) -> None:
    call = Called("tape_handoff", json.dumps({"name": "phase two", "summary": "enough"}))
    async with talk.open():
        await talk.say("look", media=[media("image", "image/png", PIXEL)])
        await talk.say(OPENAI.answer(calls=[call]), OPENAI.answer("anew"))
    *_, after = await talk.asked()
    assert "YSBwaWN0dXJl" not in json.dumps(after)
    assert "[image: image/png, 9 bytes]" in json.dumps(after)


async def test_pictures_beyond_the_budget_leave_the_oldest_first_and_half_at_once(talk: Talk) -> None:
    async with talk.open():
        for number in range(23):
            await talk.say(f"look {number}", media=[media("image", "image/png", data("image/png", b"%5d" % number))])
    sent = [[part for part in parts_of(request) if part["type"] == "image_url"] for request in await talk.asked()]
    assert [len(each) for each in sent] == [*range(1, 21), 10, 11, 12]
    named = [part for part in parts_of((await talk.asked())[-1]) if part.get("text") == "[image: image/png, 5 bytes]"]
    assert len(named) == 11
    assert sent[-1][0]["image_url"]["url"] == data("image/png", b"%5d" % 11)


async def test_pictures_leave_at_an_anchor_and_no_words_do(talk: Talk) -> None:
    """So each request begins as the one before it, except at the anchor, also in a turn with steps and tools."""
    async with talk.open(toy=bringing(adding())):
        for number in range(23):
            picture = media("image", "image/png", data("image/png", b"%5d" % number))
            steps = [OPENAI.answer("I add.", calls=[add(number, 1, id=f"call{number}")]), OPENAI.answer("There.")]
            await talk.say(*steps, media=[picture])
        anchors = [entry.payload for entry in await talk.tape() if entry.kind == "anchor"]
    requests = [request["messages"] for request in await talk.asked()]
    begins_anew = [number for number, (one, two) in enumerate(pairwise(requests), 1) if two[: len(one)] != one]
    assert begins_anew == [40]  # the first request of the turn with the 21st picture
    assert [anchor["name"] for anchor in anchors] == ["session/start", "auto_handoff/pictures"]
    assert anchors[1]["state"]["seen before"] == ["[image: image/png, 5 bytes]"] * 11
    results = [message["content"] for message in requests[-1] if message["role"] == "tool"]
    assert results == [str(number + 1) for number in range(23)]
    assert len([part for part in parts_of({"messages": requests[-1]}) if part["type"] == "image_url"]) == 12


def parts_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [message["content"] for message in request["messages"]]
    return [part for content in contents if isinstance(content, list) for part in content]


def test_what_stays_of_many_large_files_depends_on_nothing_but_their_sizes() -> None:
    sizes = [7_000_000, 7_000_000, 7_000_000, 1, 1, 25_000_000, 1]
    assert [first_that_stays(sizes[:number]) for number in range(8)] == [0, 0, 0, 2, 2, 2, 5, 6]
