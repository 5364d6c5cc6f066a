"""A stage is swapped with one edit: what stands in for it has its place and value, and what waited for it waits."""

from __future__ import annotations

import pytest
import trio
from fakes.toys import HELLO, Toy, Workshop, a_stream, noting, outcomes, raising

from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.source.merge import load_text

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

POINTS = "hooks: {answer: {kind: firstresult, takes: [prompt]}, look: {kind: void}, draft: {kind: firstresult}}\n"
ANSWER = "extends: bub:default\nhooks: {answer: {kind: firstresult, takes: [prompt]}}\n"
BOTH = "extends: bub:default\nhooks: {answer: {kind: firstresult}, draft: {kind: firstresult}}\n"
OWN = f"extends: bub:default\n{POINTS}"


def plan_of(text: str, profile: str = "default") -> Plan:
    return make_plan(load_text(f"version: 1\n{text}"), profile)


def order_of(text: str, profile: str = "default") -> list[str]:
    """The stages that are on, in their order."""
    return [stage.id for stage in plan_of(text, profile).stages if stage.enabled]


SHIPPED = ["resolve_session", "load_state", "build_prompt", "run_model", "save_state", "render_outbound"]


# The place.


def test_a_stage_stands_where_the_one_stood_that_it_replaces() -> None:
    assert order_of(f"{OWN}stages: {{answer: {{replace: run_model}}}}")[2:5] == ["build_prompt", "answer", "save_state"]


def test_several_stages_stand_in_for_one_in_the_order_they_are_written() -> None:
    text = f"{OWN}stages: {{draft: {{replace: run_model, into: text}}, answer: {{replace: run_model}}}}"
    assert order_of(text)[2:6] == ["build_prompt", "draft", "answer", "save_state"]


@pytest.mark.parametrize("where", ["file", "profile"])
def test_what_is_set_beside_a_replaced_stage_stands_beside_what_stands_in_for_it(where: str) -> None:
    beside = "look: {before: run_model}, agent_done: {kind: void, after: run_model}"
    swap = "draft: {replace: run_model, into: text}, answer: {replace: run_model}"
    if where == "file":
        text = f"{OWN}stages: {{{beside}, {swap}}}"
    else:
        text = f"{OWN}stages: {{{swap}}}\nprofiles: {{default: {{stages: {{{beside}}}}}}}"
    assert order_of(text)[2:7] == ["build_prompt", "look", "draft", "answer", "agent_done"]


def test_a_stage_that_says_its_own_place_stands_there() -> None:
    text = f"{OWN}stages: {{answer: {{replace: run_model, before: load_state}}}}"
    assert order_of(text)[:3] == ["resolve_session", "answer", "load_state"]


def test_a_profile_moves_what_stands_in_for_a_stage() -> None:
    text = f"{OWN}stages: {{look: {{replace: save_state, timeout: 1s}}}}\n"
    text += "profiles: {p: {stages: {look: {after: dispatch_outbound}}}}"
    assert order_of(text, "p")[-1] == "look"


def test_what_replaces_a_replacement_stands_in_its_place() -> None:
    text = (
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\nprofiles: {{p: {{stages: {{draft: {{replace: answer}}}}}}}}"
    )
    assert order_of(text, "p")[3] == "draft"
    assert plan_of(text, "p").heirs == {"run_model": ("draft",), "answer": ("draft",)}


def test_a_replacement_that_is_off_replaces_nothing() -> None:
    text = f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
    text += "profiles: {p: {stages: {answer: {enabled: false}}}}"
    assert order_of(text, "p")[:6] == SHIPPED


# What is taken over.


def test_a_replacement_takes_over_the_value_the_list_and_the_target_of_a_clean_up() -> None:
    text = f"{OWN}stages:\n  answer: {{replace: run_model}}\n  look: {{replace: dispatch_outbound}}\n"
    text += "  draft: {replace: save_state, timeout: 1s}\n"
    stages = {stage.id: stage for stage in plan_of(text).stages}
    assert stages["answer"].makes == ("model_output",)
    assert stages["look"].each == "outbounds"
    assert stages["draft"].cleanup_for == "run_model"


def test_what_its_kind_does_not_know_and_what_it_says_itself_are_not_taken_over() -> None:
    text = f"{OWN}stages:\n  look: {{replace: load_state}}\n  answer: {{replace: run_model, into: text}}\n"
    stages = {stage.id: stage for stage in plan_of(text).stages}
    assert (stages["look"].into, stages["answer"].into) == (None, "text")


def test_a_replacement_waits_for_what_the_other_waited_for() -> None:
    text = f"{OWN}stages:\n  run_model: {{needs: [build_prompt]}}\n  answer: {{replace: run_model}}\n"
    text += "  look: {before: run_model}\n"
    plan = plan_of(text)
    assert "look" not in plan.waits_for(plan.stage("answer"))


def test_who_needs_a_replaced_stage_waits_for_all_that_stand_in_for_it() -> None:
    text = f"{OWN}stages:\n  draft: {{replace: run_model, into: text}}\n  answer: {{replace: run_model}}\n"
    text += "  look: {after: save_state, needs: [run_model]}\n"
    plan = plan_of(text)
    assert {"draft", "answer"} <= plan.waits_for(plan.stage("look"))
    assert "save_state" not in plan.waits_for(plan.stage("look"))


# Stages that are off.


async def test_a_stage_that_is_off_makes_nothing_beside_one_that_makes_its_value(bub: Workshop) -> None:
    text = f"{ANSWER}stages: {{run_model: {{enabled: false}}, answer: {{before: save_state, into: model_output}}}}"
    saved: list[str] = []
    toy = Toy(answer=lambda prompt: f"{prompt}!", save_state=lambda model_output: saved.append(model_output))
    result = await bub(text, toy=toy).process_inbound(HELLO)
    assert (result.model_output, saved) == ("hello!", ["hello!"])
    assert outcomes(result)["run_model"] == "off"


async def test_a_stage_that_is_off_and_made_a_new_version_lets_the_old_one_through(bub: Workshop) -> None:
    text = f"{ANSWER}stages: {{answer: {{after: build_prompt, into: prompt, default: changed, enabled: false}}}}"
    toy = Toy(answer=lambda: "never", run_model=lambda prompt: prompt)
    assert (await bub(text, toy=toy).process_inbound(HELLO)).model_output == "hello"


async def test_a_stage_that_is_off_and_alone_yields_its_default(bub: Workshop) -> None:
    text = "extends: bub:default\nstages: {run_model: {enabled: false, default: 'we are closed'}}"
    assert (
        await bub(text, toy=Toy(run_model=raising(OSError()))).process_inbound(HELLO)
    ).model_output == "we are closed"


# In a turn.


async def test_a_replacement_answers_and_what_it_replaces_is_not_asked(bub: Workshop) -> None:
    toy = Toy(answer=lambda prompt: f"{prompt}?", run_model=raising(AssertionError("it is replaced")))
    result = await bub(f"{ANSWER}stages: {{answer: {{replace: run_model}}}}", toy=toy).process_inbound(HELLO)
    assert [reply["content"] for reply in result.outbounds] == ["hello?"]
    assert outcomes(result)["run_model"] == "off"


async def test_a_clean_up_follows_what_stands_in_for_its_target(bub: Workshop) -> None:
    saved: list[str | None] = []
    text = f"{ANSWER}stages: {{answer: {{replace: run_model}}}}"
    toy = Toy(answer=raising(OSError("down")), save_state=lambda model_output: saved.append(model_output))
    with pytest.raises(OSError, match="down"):
        await bub(text, toy=toy).process_inbound(HELLO)
    assert saved == [None]


@pytest.mark.parametrize("failing", ["draft", "answer"])
async def test_a_clean_up_runs_once_whichever_of_several_has_started(bub: Workshop, failing: str) -> None:
    saved: list[int] = []
    text = f"{BOTH}stages: {{draft: {{replace: run_model, into: text}}, answer: {{replace: run_model}}}}"
    hooks = {"draft": lambda: "a", "answer": lambda: "b", failing: raising(OSError("down"))}
    with pytest.raises(OSError, match="down"):
        await bub(text, toy=Toy(**hooks, save_state=noting(saved, 1))).process_inbound(HELLO)
    assert saved == [1]


async def test_a_clean_up_gets_the_text_so_far_of_a_stream_that_stands_in(bub: Workshop) -> None:
    saved: list[str] = []
    text = "extends: bub:default\nhooks: {talk: {kind: stream}}\nstages: {talk: {replace: run_model}}"
    toy = Toy(
        talk=lambda: a_stream("one ", "two", OSError("cut")),
        save_state=lambda model_output: saved.append(model_output),
    )
    with pytest.raises(OSError, match="cut"):
        await bub(text, toy=toy).process_inbound(HELLO)
    assert saved == ["one two"]


async def test_a_stage_that_needs_a_replaced_one_runs_after_what_stands_in_for_it(bub: Workshop) -> None:
    seen: list[str] = []

    async def draft() -> str:
        await trio.sleep(5)
        seen.append("draft")
        return "text"

    text = "extends: bub:default\nhooks: {draft: {kind: firstresult}, look: {kind: void}}\n"
    text += "stages:\n  draft: {replace: build_prompt}\n  look: {after: run_model, needs: [build_prompt]}\n"
    toy = Toy(draft=draft, look=noting(seen, "look"), run_model=lambda: "hi")
    await bub(text, toy=toy).process_inbound(HELLO)
    assert seen == ["draft", "look"]


async def test_a_gate_in_the_place_of_a_gate_denies(bub: Workshop) -> None:
    text = (
        "extends: bub:default\nhooks: {moderate: {kind: gate}, strict: {kind: gate}}\n"
        "stages: {moderate: {before: run_model}}\n"
        "plugins: {toy: {path: toy.py}}\n"
        "profiles: {default: {plugins: [toy], stages: {strict: {replace: moderate}}}}"
    )
    toy = Toy(moderate=lambda: None, strict=lambda: {"deny": "no"}, run_model=raising(AssertionError("guarded")))
    result = await bub(text, toy=toy).process_inbound(HELLO)
    assert [reply["content"] for reply in result.outbounds] == ["no"]


async def test_what_runs_in_the_place_of_a_stage_for_each_reply_gets_each_reply(bub: Workshop) -> None:
    sent: list[str] = []
    text = "extends: bub:default\nhooks: {post: {kind: observer}}\nstages: {post: {replace: dispatch_outbound}}"
    toy = Toy(
        run_model=lambda: "hi",
        render_outbound=lambda: [{"content": "one"}, {"content": "two"}],
        post=lambda message: sent.append(message["content"]),
    )
    result = await bub(text, toy=toy).process_inbound(HELLO)
    assert sent == ["one", "two"]
    assert len(result.outbounds) == 2


async def test_what_runs_in_the_place_of_the_stage_that_finds_the_session_finds_it(bub: Workshop) -> None:
    text = "extends: bub:default\nhooks: {find: {kind: firstresult}}\nstages: {find: {replace: resolve_session}}"
    toy = Toy(find=lambda message: f"own:{message['chat_id']}", run_model=lambda session_id: session_id)
    result = await bub(text, toy=toy).process_inbound(HELLO)
    assert (result.session_id, result.model_output) == ("own:local", "own:local")
