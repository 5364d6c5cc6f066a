"""The pipeline file: its text, what is found in another one, what that would change; and writing, if the page may."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from bub.pipeline.report.reloads import Reload, describe_refusal, describe_reload
from bub.pipeline.source.merge import Document
from bub.studio.requests import Asked
from bub.studio.studio import Studio
from bub.studio.views import file
from bub.studio.views.check import explain_code


async def show(studio: Studio, asked: Asked) -> Any:
    """Return the text of the file, secrets covered, and whether the page may write it."""
    framework, may_write = studio.framework, studio.settings.write
    look = partial(file.show_file, framework.generation, framework.mask, may_write=may_write)
    return await trio.to_thread.run_sync(look)


async def check(studio: Studio, asked: Asked) -> Any:
    """Return what is found in a text; nothing is imported."""
    framework = studio.framework
    return await studio.checker.check(framework.generation, asked.text("text"), framework.mask)


async def explain(studio: Studio, asked: Asked) -> Any:
    """Explain the code of a finding."""
    return explain_code(asked.name("code"))


async def diff(studio: Studio, asked: Asked) -> Any:
    """Return what a text would change against what runs."""
    framework = studio.framework
    return await studio.checker.compare(framework.generation, asked.text("text"), framework.mask)


async def prove(studio: Studio, asked: Asked) -> Any:
    """Return whether a text compiles with the plugins that are loaded."""
    framework, may_write = studio.framework, studio.settings.write
    prove_it = partial(file.prove, framework.generation, asked.text("text"), framework.mask, may_write=may_write)
    async with studio.writing:
        return await trio.to_thread.run_sync(prove_it)


async def load(studio: Studio, asked: Asked) -> Any:
    """Write a text to the file and load it, or say why not."""
    framework, text, digest = studio.framework, asked.text("text"), asked.name("digest")
    reloads: list[Reload] = []

    def reload(approve: Callable[[Document], None]) -> None:
        try:
            framework.reload(approve)
        except BaseException as error:
            reloads.append(describe_refusal(framework, error))
            raise
        reloads.append(describe_reload(framework))

    load_it = partial(
        file.load, framework.generation, text, digest, reload, framework.mask, may_write=studio.settings.write
    )
    async with studio.writing:
        try:
            return await trio.to_thread.run_sync(load_it)
        finally:
            for one in reloads:
                studio.around.note_reload(one)
