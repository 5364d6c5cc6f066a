"""`bub run --attach`: a person hands files over with a message, each as what its bytes are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import bub
from fakes.paper import pdf

from bub.channels.attachments import LARGEST_FILE, LARGEST_IMAGE, attach
from bub.errors import UsageError

PIPELINE = """\
version: 1
extends: bub:default
plugins: {parrot: {path: parrot.py}}
profiles: {default: {plugins: [parrot]}}
"""

PARROT = """\
import json

from bub import hookimpl


@hookimpl
def run_model(prompt):
    return json.dumps(prompt)
"""

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace whose model repeats what it was sent."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pipelines.yaml").write_text(PIPELINE, "utf-8")
    (folder / "parrot.py").write_text(PARROT, "utf-8")
    return folder


def run(folder: Path, *arguments: str) -> Any:
    done = bub(folder, "run", *arguments, BUB_TRUST_WORKSPACE="1")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.partition("\n")[2])


def test_run_sends_images_pdfs_and_texts_with_the_message(folder: Path) -> None:
    (folder / "cat.png").write_bytes(PNG)
    (folder / "report").write_bytes(pdf(["A page"]))
    (folder.parent / "notes.txt").write_text("buy milk\n" + "x" * 64_000, "utf-8")
    (folder / "long.txt").write_text("y" * 64_100, "utf-8")
    given = [word for name in ("cat.png", "report", "../notes.txt", "long.txt") for word in ("--attach", name)]
    text, image, document = run(folder, "what is it?", *given)
    assert text["text"].startswith(
        "what is it?\n\n[image: cat.png, image/png, 8 bytes]\n\n[document: ../notes.txt, text"
    )
    assert "buy milk" in text["text"] and "[… 9 characters left out …]" in text["text"]
    assert "[… 100 characters left out; fs.read shows them in long.txt …]" in text["text"]
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    assert document["file"]["filename"] == "report"
    assert run(folder, "", "--attach", "cat.png")[1] == image


def test_the_json_of_a_run_names_the_files(folder: Path) -> None:
    (folder / "cat.png").write_bytes(PNG)
    done = bub(folder, "run", "look", "--json", "--attach", "cat.png", BUB_TRUST_WORKSPACE="1")
    assert json.loads(done.stdout)["prompt"] == [
        {"type": "text", "text": "look\n\n[image: cat.png, image/png, 8 bytes]"},
        {"type": "text", "text": "[image: image/png, 8 bytes]"},
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["look", "--attach", "none.png"], "bub: none.png cannot be attached: no such file or directory"),
        ([",help", "--attach", "cat.png"], "bub: a command takes no attachments"),
    ],
)
def test_what_cannot_be_attached_is_wrong_usage(folder: Path, arguments: list[str], told: str) -> None:
    (folder / "cat.png").write_bytes(PNG)
    done = bub(folder, "run", *arguments, BUB_TRUST_WORKSPACE="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(told)


def test_each_file_that_cannot_be_sent_says_why(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "program").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "large.png").write_bytes(PNG + bytes(LARGEST_IMAGE))
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    told = {
        "folder": "folder is a folder",
        "pipe": "pipe is not a regular file",
        "program": "program is neither an image (PNG, JPEG, GIF or WebP), a PDF nor text in UTF-8",
        "large.png": "large.png is too large: it has 5,000,008 bytes, and an image may have 5,000,000",
        "hole": "hole is too large: it has 10,000,001 bytes, and a file may have 10,000,000",
    }
    for name, why in told.items():
        with pytest.raises(UsageError) as caught:
            attach(tmp_path / name, name, tmp_path)
        assert (str(caught.value), bool(caught.value.help)) == (why, True)


def test_a_person_may_hand_over_any_file_of_theirs(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1\n", "utf-8")
    assert attach(tmp_path / ".env", ".env", tmp_path)["mime_type"] == "text/plain"
