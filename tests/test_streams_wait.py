"""What a stream says waits for the stages that judge it; what it does is told at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio
from fakes.toys import HELLO, Toy, Workshop, a_stream, outcomes

from bub.envelope import content_of
from bub.streaming import AsyncStreamEvents, StreamEvent

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECRET = "the secret is hunter2"

GATED = """
extends: bub:default
hooks:
  judge: {kind: gate, takes: [model_output]}
stages:
  judge: {after: run_model}
"""
CLAIMED = GATED.replace("gate", "claiming")
EDITED = """
extends: bub:default
hooks:
  edit: {kind: modifying, takes: [model_output]}
stages:
  edit: {after: run_model, changes: [model_output]}
"""


class Listener:
    """Hears what a turn tells, as (kind, text or None), and when."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.times: list[float] = []

    def __call__(self, event: StreamEvent, message: Any) -> None:
        self.heard.append((event.kind, event.data.get("delta")))
        self.times.append(trio.current_time())

    @property
    def text(self) -> str:
        return "".join(delta for kind, delta in self.heard if kind == "text")

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.heard]


def saying(*script: str | float | Exception | StreamEvent) -> Callable[[], AsyncStreamEvents]:
    return lambda: a_stream(*script)


def model(*script: str | float | Exception | StreamEvent) -> Toy:
    return Toy(run_model_stream=saying(*(script or ("the secret ", "is hunter2"))))


def denying(model_output: str) -> dict[str, str] | None:
    return {"deny": "withheld"} if "hunter2" in model_output else None


def redacting(message: Any) -> dict[str, Any]:
    return {"message": {"content": content_of(message).replace("hunter2", "[redacted]")}}


async def hear(framework: Any, message: Any = HELLO, **options: Any) -> tuple[Listener, Any]:
    listener = Listener()
    return listener, await framework.process_inbound(message, on_event=listener, **options)


# What a check below says holds for what was streamed.


async def test_what_a_gate_denies_is_never_told(bub: Workshop) -> None:
    listener, result = await hear(bub(GATED, model=model(), guard=Toy(judge=denying)))
    assert listener.heard == []
    assert [content_of(reply) for reply in result.outbounds] == ["withheld"]


async def test_what_a_gate_allows_is_told_once_it_has_spoken(bub: Workshop) -> None:
    async def think(model_output: str) -> None:
        await trio.sleep(5)

    listener, _ = await hear(bub(GATED, model=model("all ", 1.0, "is well"), guard=Toy(judge=think)))
    assert listener.text == "all is well"
    assert set(listener.times) == {6.0}


async def test_what_a_claim_takes_over_is_never_told(bub: Workshop) -> None:
    claim = Toy(judge=lambda model_output: {"handled": True, "reply": "taken over"})
    listener, result = await hear(bub(CLAIMED, model=model(), guard=claim))
    assert listener.text == ""
    assert [content_of(reply) for reply in result.outbounds] == ["taken over"]


async def test_what_a_modifying_stage_makes_of_it_is_what_is_told(bub: Workshop) -> None:
    def edit(model_output: str) -> dict[str, str]:
        return {"model_output": model_output.replace("hunter2", "[redacted]")}

    thinking = StreamEvent("reasoning", {"delta": "hunter2, hm"})
    listener, result = await hear(bub(EDITED, model=model(thinking, SECRET), guard=Toy(edit=edit)))
    assert listener.heard == [("text", "the secret is [redacted]")]
    assert [content_of(reply) for reply in result.outbounds] == ["the secret is [redacted]"]


async def test_what_becomes_of_the_reply_is_what_is_told(bub: Workshop) -> None:
    listener, result = await hear(bub("extends: bub:ethos", model=model(), guard=Toy(message_sending=redacting)))
    assert listener.heard == [("text", "the secret is [redacted]")]
    assert [content_of(reply) for reply in result.outbounds] == ["the secret is [redacted]"]


async def test_a_reply_that_is_claimed_is_never_told(bub: Workshop) -> None:
    claim = Toy(before_dispatch=lambda message: {"handled": True})
    listener, result = await hear(bub("extends: bub:ethos", model=model(), guard=claim))
    assert listener.text == ""
    assert result.outbounds == []


async def test_words_that_a_reply_left_out_are_not_told_after_the_reply_was_judged(bub: Workshop) -> None:
    """The check has seen the reply alone: what the model said beside it nobody has judged."""

    def render(model_output: str) -> list[dict[str, str]]:
        return [{**HELLO, "content": "only this"}]

    guard = Toy(message_sending=lambda message: None)
    listener, _ = await hear(bub("extends: bub:ethos", model=model(), guard=guard, look=Toy(render_outbound=render)))
    assert listener.text == "only this"


async def test_a_reply_to_somebody_else_is_not_told(bub: Workshop) -> None:
    def render(model_output: str) -> list[dict[str, str]]:
        return [{"channel": "cli", "chat_id": "admin", "content": model_output}]

    guard = Toy(message_sending=lambda message: None)
    listener, _ = await hear(bub("extends: bub:ethos", model=model(), guard=guard, look=Toy(render_outbound=render)))
    assert listener.text == ""


async def test_of_several_replies_that_say_something_else_nothing_is_told(bub: Workshop) -> None:
    def render(model_output: str) -> list[dict[str, str]]:
        return [{**HELLO, "content": "one"}, {**HELLO, "content": "two"}]

    guard = Toy(message_sending=lambda message: None)
    listener, _ = await hear(bub("extends: bub:ethos", model=model(), guard=guard, look=Toy(render_outbound=render)))
    assert listener.text == ""


async def test_all_checks_have_to_speak(bub: Workshop) -> None:
    pipeline = GATED.replace("judge: {kind", "second: {kind: gate, takes: [model_output]}\n  judge: {kind").replace(
        "judge: {after", "second: {before: dispatch_outbound}\n  judge: {after"
    )
    allowing = Toy(judge=lambda model_output: None)
    listener, _ = await hear(bub(pipeline, model=model(), first=allowing, last=Toy(second=denying)))
    assert listener.text == ""


async def test_thoughts_wait_too(bub: Workshop) -> None:
    thinking = StreamEvent("reasoning", {"delta": "hunter2, hm"})
    listener, _ = await hear(bub(GATED, model=model(thinking, SECRET), guard=Toy(judge=denying)))
    assert listener.heard == []


async def test_thoughts_and_words_come_in_their_order(bub: Workshop) -> None:
    script = (StreamEvent("reasoning", {"delta": "h"}), StreamEvent("reasoning", {"delta": "m"}), "a", "b")
    listener, _ = await hear(bub(GATED, model=model(*script), guard=Toy(judge=denying)))
    assert listener.heard == [("reasoning", "hm"), ("text", "ab")]


async def test_what_nobody_knows_may_hold_words_and_waits(bub: Workshop) -> None:
    cited = StreamEvent("citation", {"text": SECRET})
    listener, _ = await hear(bub(GATED, model=model(cited, SECRET), guard=Toy(judge=denying)))
    assert listener.heard == []
    listener, _ = await hear(bub(GATED, model=model("ok", cited), guard=Toy(judge=denying)))
    assert listener.kinds == ["text", "citation"]


async def test_tools_are_told_at_once(bub: Workshop) -> None:
    script = ("a", StreamEvent("tool_call", {"id": "1", "name": "bash"}), 1.0)
    script = (
        StreamEvent("waiting", {"seconds": 9.0}),
        *script,
        StreamEvent("tool_result", {"id": "1"}),
        StreamEvent("usage", {}),
        1.0,
    )
    listener, _ = await hear(bub(GATED, model=model(*script), guard=Toy(judge=denying)))
    assert listener.kinds == ["waiting", "tool_call", "tool_result", "usage", "text"]
    assert listener.times == [0.0, 0.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("said", ["fine", SECRET])
async def test_the_end_of_an_answer_comes_behind_its_words_and_without_them_if_they_are_withheld(
    bub: Workshop, said: str
) -> None:
    ended: list[StreamEvent] = []

    def listen(event: StreamEvent, message: Any) -> None:
        ended.append(event)

    end = StreamEvent("final", {"finish_reason": "stop", "ok": True, "text": said})
    framework = bub(GATED, model=model(said, end), guard=Toy(judge=denying))
    await framework.process_inbound(HELLO, on_event=listen)
    if said == SECRET:
        assert ended == [StreamEvent("final", {"finish_reason": "stop", "ok": True})]
    else:
        assert ended == [StreamEvent.text(said), end]


# Who is waited for.


async def test_without_a_check_everything_is_told_as_it_comes(bub: Workshop) -> None:
    listener, _ = await hear(bub("extends: bub:default", model=model("a", 1.0, "b")))
    assert list(zip(listener.heard, listener.times, strict=True)) == [(("text", "a"), 0.0), (("text", "b"), 1.0)]


@pytest.mark.parametrize(
    "stages",
    [
        "judge: {before: run_model}",
        "judge: {after: run_model, enabled: false}",
    ],
    ids=["above", "off"],
)
async def test_a_check_that_judges_nothing_of_it_is_not_waited_for(bub: Workshop, stages: str) -> None:
    pipeline = GATED.replace("judge: {after: run_model}", stages).replace("takes: [model_output]", "takes: [prompt]")
    listener, _ = await hear(bub(pipeline, model=model("a", 1.0, "b"), guard=Toy(judge=lambda: None)))
    assert listener.times == [0.0, 1.0]


async def test_a_check_that_does_not_see_the_answer_is_not_waited_for(bub: Workshop) -> None:
    pipeline = GATED.replace("takes: [model_output]", "takes: [session_id]")
    listener, _ = await hear(bub(pipeline, model=model("a", 1.0, "b"), guard=Toy(judge=lambda session_id: None)))
    assert listener.times == [0.0, 1.0]


async def test_a_check_of_what_is_made_from_the_answer_is_waited_for(bub: Workshop) -> None:
    pipeline = """
extends: bub:default
hooks:
  grade: {kind: firstresult, takes: [model_output]}
  judge: {kind: gate, takes: [mark]}
stages:
  grade: {after: run_model, into: mark}
  judge: {after: grade}
"""
    grading = Toy(grade=lambda model_output: "bad", judge=lambda mark: {"deny": "withheld"})
    listener, _ = await hear(bub(pipeline, model=model(), guard=grading))
    assert listener.text == ""


async def test_a_point_that_nobody_implements_is_not_waited_for(bub: Workshop) -> None:
    listener, _ = await hear(bub("extends: bub:ethos", model=model("a", 1.0, "b")))
    assert listener.times == [0.0, 1.0]


async def test_a_handler_that_is_registered_at_run_time_is_waited_for(bub: Workshop) -> None:
    framework = bub("extends: bub:ethos", model=model())
    framework.registry.register_modifying("message_sending", redacting_payload)
    listener, _ = await hear(framework)
    assert listener.text == "the secret is [redacted]"


def redacting_payload(payload: Any) -> dict[str, Any]:
    return redacting(payload["message"])


async def test_a_check_whose_when_does_not_match_is_not_waited_for(bub: Workshop) -> None:
    pipeline = GATED.replace("after: run_model", "after: run_model, when: {channel: telegram}")
    framework = bub(pipeline, model=model("a", 1.0, "b"), guard=Toy(judge=denying))
    listener, _ = await hear(framework)
    assert listener.times == [0.0, 1.0]
    listener, _ = await hear(framework, {**HELLO, "channel": "telegram"})
    assert len(set(listener.times)) == 1


async def test_a_when_that_is_only_known_later_lets_the_words_go_once_it_is(bub: Workshop) -> None:
    pipeline = """
extends: bub:default
hooks:
  judge: {kind: gate, takes: [message]}
stages:
  judge: {before: dispatch_outbound, for_each: outbounds, when: {channel: telegram}}
"""
    listener, _ = await hear(bub(pipeline, model=model(), guard=Toy(judge=lambda message: {"deny": "withheld"})))
    assert listener.text == SECRET


async def test_at_once_lets_them_through(bub: Workshop) -> None:
    pipeline = f"{GATED}  run_model: {{show: at_once}}\n"
    listener, _ = await hear(bub(pipeline, model=model("a", 1.0, "hunter2"), guard=Toy(judge=denying)))
    assert listener.times == [0.0, 1.0]


async def test_checked_says_what_holds_anyway(bub: Workshop) -> None:
    pipeline = f"{GATED}  run_model: {{show: checked}}\n"
    listener, _ = await hear(bub(pipeline, model=model(), guard=Toy(judge=denying)))
    assert listener.text == ""


async def test_a_stage_beside_the_stream_that_judges_something_else_is_not_waited_for(bub: Workshop) -> None:
    pipeline = """
extends: bub:default
hooks:
  edit: {kind: modifying, takes: [mood]}
  feel: {kind: firstresult, takes: [prompt]}
stages:
  feel: {before: run_model, into: mood}
  edit: {after: run_model, needs: [feel], changes: [mood]}
"""
    guard = Toy(feel=lambda prompt: "well", edit=lambda mood: None)
    listener, _ = await hear(bub(pipeline, model=model("a", 1.0, "b"), guard=guard))
    assert listener.times == [0.0, 1.0]


# When something goes wrong.


async def test_a_gate_that_breaks_has_not_allowed(bub: Workshop) -> None:
    listener, _ = await hear(bub(GATED, model=model(), guard=Toy(judge=lambda model_output: 1 / 0)))
    assert listener.text == ""


async def test_a_gate_that_is_too_slow_has_not_allowed(bub: Workshop) -> None:
    async def judge(model_output: str) -> None:
        await trio.sleep_forever()

    pipeline = GATED.replace("after: run_model", "after: run_model, timeout: 1s")
    listener, _ = await hear(bub(pipeline, model=model(), guard=Toy(judge=judge)))
    assert listener.text == ""


async def test_a_modifying_stage_that_breaks_and_is_left_out_lets_them_go(bub: Workshop) -> None:
    listener, _ = await hear(bub(EDITED, model=model("fine"), guard=Toy(edit=lambda model_output: 1 / 0)))
    assert listener.text == "fine"


async def test_a_modifying_stage_that_breaks_and_counts_keeps_them(bub: Workshop) -> None:
    pipeline = EDITED.replace("changes:", "on_failure: propagate, changes:")
    listener = Listener()
    with pytest.raises(ZeroDivisionError):
        framework = bub(pipeline, model=model(), guard=Toy(edit=lambda model_output: 1 / 0))
        await framework.process_inbound(HELLO, on_event=listener)
    assert listener.text == ""


async def test_a_stream_that_breaks_off_tells_nothing_that_waited(bub: Workshop) -> None:
    listener = Listener()
    with pytest.raises(ValueError, match="cut"):
        framework = bub(GATED, model=model(SECRET, ValueError("cut")), guard=Toy(judge=denying))
        await framework.process_inbound(HELLO, on_event=listener)
    assert listener.heard == []


@pytest.mark.parametrize(("said", "told"), [("fine so far", "fine so far"), (SECRET, "")])
async def test_what_came_before_a_failure_that_is_skipped_is_judged_as_the_answer(
    bub: Workshop, said: str, told: str
) -> None:
    pipeline = f"{GATED}  run_model: {{on_failure: skip, default: ''}}\n"
    listener, _ = await hear(bub(pipeline, model=model(said, ValueError("cut")), guard=Toy(judge=denying)))
    assert listener.text == told


async def test_a_cancelled_turn_tells_nothing_that_waited(bub: Workshop) -> None:
    listener = Listener()
    framework = bub(GATED, model=model(SECRET, 100.0), guard=Toy(judge=denying))
    with trio.move_on_after(5):
        await framework.process_inbound(HELLO, on_event=listener)
    assert listener.heard == []


async def test_an_answer_that_is_asked_for_again_is_told_once(bub: Workshop) -> None:
    tries: list[int] = []

    async def answer() -> AsyncIterator[StreamEvent]:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        yield StreamEvent.text("at last")

    pipeline = f"{GATED}  run_model: {{retry: {{times: 1}}}}\n"
    listener, _ = await hear(bub(pipeline, model=Toy(run_model_stream=answer), guard=Toy(judge=denying)))
    assert listener.heard == [("text", "at last")]


async def test_a_plain_text_waits_as_a_stream_does(bub: Workshop) -> None:
    listener, _ = await hear(bub(GATED, model=Toy(run_model=lambda: SECRET), guard=Toy(judge=denying)))
    assert listener.heard == []


async def test_what_is_told_may_be_slow_and_costs_no_stage_its_time(bub: Workshop) -> None:
    async def slow(event: StreamEvent, message: Any) -> None:
        await trio.sleep(10)

    pipeline = GATED.replace("after: run_model", "after: run_model, timeout: 1s")
    framework = bub(pipeline, model=model("fine"), guard=Toy(judge=denying))
    result = await framework.process_inbound(HELLO, on_event=slow)
    assert outcomes(result)["judge"] == "ok"
    assert trio.current_time() == 10.0


async def test_thoughts_without_end_are_held_only_in_part(bub: Workshop) -> None:
    thoughts = [StreamEvent("reasoning", {"delta": "hm " * 1000}) for _ in range(200)]
    listener, _ = await hear(bub(GATED, model=model(*thoughts, "fine"), guard=Toy(judge=denying)))
    assert listener.text == "fine"
    [(_, thought)] = [one for one in listener.heard if one[0] == "reasoning"]
    assert len(thought) <= 100_000


# Turns of any program.


async def test_two_turns_at_once_keep_their_words_apart(bub: Workshop) -> None:
    def answer(prompt: str) -> AsyncStreamEvents:
        return a_stream(prompt, 1.0)

    framework = bub(GATED, model=Toy(run_model_stream=answer), guard=Toy(judge=denying))
    listeners = {words: Listener() for words in ("fine", "hunter2")}

    async def one(words: str) -> None:
        message = {**HELLO, "chat_id": words, "content": words}
        await framework.process_inbound(message, on_event=listeners[words])

    async with trio.open_nursery() as nursery:
        for words in listeners:
            nursery.start_soon(one, words)
    assert {words: listener.text for words, listener in listeners.items()} == {"fine": "fine", "hunter2": ""}
