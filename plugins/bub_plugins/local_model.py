"""A small model that answers in Bub's own process: no key, no server, no network.

It answers when no model is chosen, or one that begins with `local:`, and calls no tools. The weights are the file named
by `BUB_LOCAL_MODEL` or by the setting `local_model.path`, else those that `bub local install` fetched.
"""

# Long because a plugin with one idea is one module to read and copy: its settings, its answer and the thread of it.

from __future__ import annotations

import importlib
import importlib.util
import os
import queue
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import trio

from bub import Settings, hookimpl
from bub.agent.local.parts import ENGINE, find_weights, has_engine, see_engine
from bub.errors import BubError, ModelError
from bub.streaming import AsyncStreamEvents, StreamEvent, StreamState

PREFIX = "local:"
KNOWN_NAME = "smollm2"
DEFAULT_MAX_TOKENS = 256
SMALLEST_CONTEXT = 128
LARGEST_CONTEXT = 131_072
"""The engine ends the whole process when it is given less than it needs, or more than it can count."""

# A prompt is read in batches of this many tokens, about half a second each on one thread; a turn that is
# cancelled is noticed between two of them.
_BATCH_TOKENS = 64
_EXIT_PATIENCE = 5.0


class _Settings(Settings, section="local_model"):
    """The plugin's own section of the settings; a field that is left out has a value that suits so small a model.

    One thread by default: two on two busy cores wait for each other and are forty times slower.
    """

    path: str | None = None
    threads: int = 1
    context: Annotated[int, msgspec.Meta(ge=SMALLEST_CONTEXT, le=LARGEST_CONTEXT)] = 4096
    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.3

    @property
    def room(self) -> int:
        """How many tokens a prompt may have, so that the answer has its place beside it."""
        return self.context - min(self.max_tokens, self.context // 2)


class LocalModel:
    """Answers with a model in this process. It is loaded for the first answer and kept for all that follow."""

    def __init__(self, framework: Any) -> None:
        self._framework = framework
        self._speaker: _Speaker | None = None

    @hookimpl
    async def call_model(self, request: Mapping[str, Any]) -> AsyncStreamEvents | None:
        """Return the answer as a stream, or None when another model is asked or there is none to load."""
        chosen = str(request.get("model") or "").strip()
        if chosen and not chosen.lower().startswith(PREFIX):
            return None
        own = _own_settings(self._framework)
        if self._speaker is None:
            home = self._framework.home
            weights = _find_weights(chosen, own, home)
            if weights is None or not has_engine(home):
                if not chosen:
                    return None
                missing = "its weights are" if weights is None else f"the package `{ENGINE.module}` is"
                raise _config(f"the small local model is not installed: {missing} missing", "run `bub local install`")
            see_engine(home)
            self._speaker = _Speaker(weights, own)
            weakref.finalize(self, self._speaker.close)
        job = _Job(_request(request, own), own.room, trio.lowlevel.current_trio_token())
        answer = _AnswerStream(job)
        self._speaker.submit(job)
        return AsyncStreamEvents(answer, answer.state)


def _own_settings(framework: Any) -> _Settings:
    """Return the section, and the `max_tokens` of the settings if it says none."""
    try:
        own = _Settings.of(framework)
    except BubError as error:
        raise _config(str(error), error.help or "correct it") from None
    general = framework.settings.get("max_tokens")
    if general is None or "max_tokens" in (framework.settings.get("local_model") or {}):
        return own
    return msgspec.structs.replace(own, max_tokens=general)


def _find_weights(model: str, own: _Settings, home: Path) -> Path | None:
    """Find the `.gguf` file to load. A named one must be there; None if none is named and none is installed."""
    for source, named in (
        ("BUB_LOCAL_MODEL", os.environ.get("BUB_LOCAL_MODEL")),
        ("local_model.path", own.path),
    ):
        if named:
            return _check_weights(Path(named).expanduser(), source)
    name = model[len(PREFIX) :].strip()
    if name not in ("", KNOWN_NAME):
        raise _config(
            f"there is no local model `{name}`",
            f"write `model: {PREFIX}{KNOWN_NAME}`, or name a file with `local_model.path`",
        )
    return find_weights(home)


def _check_weights(path: Path, source: str) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _config(f"the model file {path} cannot be read: {reason}", _suggest_another(source)) from None
    if magic != b"GGUF":
        raise _config(f"{path} is not a model file (GGUF)", _suggest_another(source))
    return path


def _suggest_another(source: str) -> str:
    return f"correct {source}, or leave it out and run `bub local install`"


def _request(request: Mapping[str, Any], own: _Settings) -> dict[str, Any]:
    limit, temperature = request.get("max_tokens"), request.get("temperature")
    return {
        "messages": [
            {"role": role, "content": text} for role, text in map(_plain_message, request["messages"]) if text
        ],
        "max_tokens": own.max_tokens if limit is None else limit,
        "temperature": own.temperature if temperature is None else temperature,
        "top_p": 0.9,
        # A model of this size falls into repeating itself: DRY sampling makes that dear.
        "dry_multiplier": 0.8,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }


def _plain_message(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return who says what in a message. What tools answered is left out, since this model has none."""
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user", "assistant") or not content:
        return "", ""
    text = content if isinstance(content, str) else "\n\n".join(filter(None, map(_text_of_part, content)))
    return role, _encodable(text)


def _shorten(messages: list[dict[str, str]], tokens: int, room: int) -> list[dict[str, str]]:
    """Return the messages without the oldest, so that about `room` tokens of `tokens` are left.

    The system prompt and what the user said last always stay. What goes is half a room or a multiple of it: then
    the next turns leave out the same, and the engine need not read again what it has read.
    """
    system = [message for message in messages if message["role"] == "system"]
    said = [message for message in messages if message["role"] != "system"]
    step = max(1, room // 2)
    excess = -(-(tokens - room) // step) * step
    to_drop = excess / tokens * sum(len(message["content"]) for message in messages)
    while to_drop > 0 and any(message["role"] == "user" for message in said[1:]):
        to_drop -= len(said.pop(0)["content"])
    return [*system, *said]


def _text_of_part(part: Any) -> str:
    """Return the text of a part; what is no text is named, so that the model knows of it."""
    text = part.get("text") if isinstance(part, Mapping) else part
    if isinstance(text, str):
        return text
    kind = str(part.get("type") or "") if isinstance(part, Mapping) else ""
    return f"[{kind.removesuffix('_url').removeprefix('input_')}, which this model cannot be sent]" if kind else ""


def _encodable(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _Job(msgspec.Struct, eq=False):
    """One answer to generate: what the generating thread and the turn know in common. `room` is for the prompt."""

    request: dict[str, Any]
    room: int
    token: trio.lowlevel.TrioToken
    heard: deque[dict[str, Any]] = msgspec.field(default_factory=deque)
    error: ModelError | None = None
    finished: bool = False
    unwanted: bool = False
    again: bool = False
    arrived: trio.Event = msgspec.field(default_factory=trio.Event)

    def hear(self, chunk: dict[str, Any]) -> bool:
        """Take one chunk, in the generating thread. True tells the engine to stop.

        The first one says how long the prompt is. If that is too long, the engine stops to be asked `again` for less.
        """
        if self.unwanted or self.again:
            return True
        tokens = _tokens_of_prompt(chunk)
        if tokens > self.room:
            messages = self.request["messages"]
            shorter = _shorten(messages, tokens, self.room)
            if len(shorter) < len(messages):
                self.request["messages"] = shorter
                self.again = True
                return True
        self.heard.append(chunk)
        self.wake()
        return False

    def finish(self, error: ModelError | None = None) -> None:
        """Say, in the generating thread, that nothing more comes."""
        self.error = error
        self.finished = True
        self.wake()

    def wake(self) -> None:
        try:
            self.token.run_sync_soon(self._arrive, idempotent=True)
        except trio.RunFinishedError:
            self.unwanted = True

    def _arrive(self) -> None:
        self.arrived.set()


def _tokens_of_prompt(chunk: Mapping[str, Any]) -> int:
    """Return how many tokens the prompt has, if a chunk says so; else 0."""
    for where, name in (("prompt_progress", "total"), ("error", "n_prompt_tokens")):
        told = chunk.get(where)
        if isinstance(told, Mapping) and isinstance(told.get(name), int):
            return int(told[name])
    return 0


class _AnswerStream:
    """The events of one answer. Closing it makes the engine stop with the token it is at."""

    def __init__(self, job: _Job) -> None:
        self.job = job
        self.state = StreamState()
        self._has_text = False
        self._finish_reason: str | None = None
        self._ended = False

    def bound_silence(self, seconds: float) -> None:
        """Do nothing: what computes in this process, or waits until another answer is made, is not silent."""

    def __aiter__(self) -> _AnswerStream:
        return self

    async def __anext__(self) -> StreamEvent:
        job = self.job
        while not self._ended:
            # Asked before looking at what was heard: the last chunk may come between the two.
            finished = job.finished
            if job.heard:
                event = self._read(job.heard.popleft())
                if event is not None:
                    return event
            elif finished:
                return self._end()
            else:
                job.arrived = trio.Event()
                # What came before the new event was there to be set is in the deque already.
                if not job.heard and not job.finished:
                    await job.arrived.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop generating; harmless when the answer is complete."""
        self._ended = True
        self.job.unwanted = True

    def __del__(self) -> None:
        self.job.unwanted = True

    def _read(self, chunk: dict[str, Any]) -> StreamEvent | None:
        if chunk.get("error"):
            raise self._fail(_engine_error(chunk["error"]))
        if chunk.get("usage"):
            self.state.usage = chunk["usage"]
            return StreamEvent("usage", chunk["usage"])
        if not chunk.get("choices"):
            return None
        choice = chunk["choices"][0]
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta", {}).get("content")
        if not delta:
            return None
        self._has_text = True
        return StreamEvent.text(_encodable(delta))

    def _end(self) -> StreamEvent:
        self._ended = True
        if self.job.error is not None:
            raise self._fail(self.job.error)
        if not self._has_text:
            raise self._fail(_error("the small local model answered without a word", "bad_answer", "ask again"))
        return StreamEvent("final", {"finish_reason": self._finish_reason})

    def _fail(self, error: ModelError) -> ModelError:
        self._ended = True
        self.job.unwanted = True
        self.state.error = error
        return error


class _Speaker:
    """The one thread that loads the weights and generates; answers are given one after another."""

    def __init__(self, weights: Path, own: _Settings) -> None:
        self._weights = weights
        self._own = own
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._current: _Job | None = None
        # A daemon, so that Ctrl-C never waits for an answer; `close` ends it before the interpreter is torn down.
        self._thread = threading.Thread(target=self._speak, name="bub-local-model", daemon=True)

    def submit(self, job: _Job) -> None:
        """Put one answer at the end of the queue."""
        if not self._thread.is_alive():
            self._thread.start()
        self._jobs.put(job)

    def close(self) -> None:
        """Stop generating and let the weights go. Called when the plugin is no longer used, and at exit."""
        current = self._current
        if current is not None:
            current.unwanted = True
        self._jobs.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_EXIT_PATIENCE)

    def _speak(self) -> None:
        server = None
        while (job := self._jobs.get()) is not None:
            if job.unwanted:
                continue
            self._current = job
            try:
                if server is None:
                    server = _load(self._weights, self._own)
                server.handle_chat_completions(job.request, job.hear)
                while job.again and not job.unwanted:
                    job.again = False
                    server.handle_chat_completions(job.request, job.hear)
            except ModelError as error:
                job.finish(error)
            except Exception as error:  # noqa: BLE001 (whatever the engine raises fails this answer, not the thread)
                job.finish(_error(f"the small local model failed: {error}", "server", "ask again"))
            else:
                job.finish()
            # A thread that waits for hours must not keep the last conversation in memory.
            self._current = job = None


def _load(weights: Path, own: _Settings) -> Any:
    """Load the engine with its weights. It holds Python's lock while it reads them, half a second, once a process."""
    try:
        engine = importlib.import_module(ENGINE.module)
    except ImportError as error:
        found = importlib.util.find_spec(ENGINE.module)
        place = Path(found.origin).parent if found is not None and found.origin else ENGINE.module
        raise _config(
            f"the package `{ENGINE.module}` cannot be loaded: {error}", f"remove {place}, then run `bub local install`"
        ) from error

    params = engine.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = own.context
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = own.threads
    params.warmup = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    # The engine also listens on a port of this machine. Nobody is told the key it wants there.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.n_threads_http = 1
    params.ui = params.endpoint_slots = False
    try:
        return engine.Server(params)
    except RuntimeError as error:
        raise _config(
            f"the model file {weights} cannot be loaded", "it may be damaged: remove it, then run `bub local install`"
        ) from error


def _engine_error(error: Any) -> ModelError:
    message = str(error.get("message") if isinstance(error, Mapping) else error)[:200]
    kind = error.get("type") if isinstance(error, Mapping) else None
    if kind == "exceed_context_size_error":
        what = f"the conversation is too long for the small local model: {message}"
        return _error(what, "context_overflow", "shorten it")
    return _error(f"the small local model failed: {message}", "server", "ask again")


def _config(message: str, do: str) -> ModelError:
    return _error(message, "config", do)


def _error(message: str, kind: str, do: str) -> ModelError:
    return ModelError(message, kind=kind, provider="local", help=do)
