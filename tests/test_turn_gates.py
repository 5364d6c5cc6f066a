"""A whole turn: gates that deny it and claims that take it over."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.stages import UNCHECKED, forever, sleeping
from fakes.toys import HELLO, Errors, Toy, Workshop, empty, noting, outcomes, raising

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


GATED = """
extends: bub:default
hooks: {judge: {kind: gate, takes: [prompt]}, polish: {kind: modifying}}
stages:
  judge: {kind: gate, timeout: 5s, before: run_model}
  polish: {kind: modifying, for_each: outbounds, changes: [message], before: dispatch_outbound}
"""


async def test_a_denied_turn_delivers_one_reply_with_the_reason(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        GATED,
        low=Toy(
            judge=noting(seen, "asked too late"),
            polish=lambda message: {"message": {**message, "polished": True}},
        ),
        high=Toy(
            judge=lambda prompt: {"deny": f"`{prompt}` is not allowed"},
            dispatch_outbound=lambda message: seen.append(message),
            **{name: noting(seen, name) for name in ("run_model", "save_state", "render_outbound")},
        ),
    )
    result = await framework.process_inbound(HELLO)
    reply = {
        "content": "`hello` is not allowed",
        "kind": "denied",
        "polished": True,
        "session_id": "cli:local",
        "channel": "cli",
        "chat_id": "local",
    }
    assert seen == [reply]
    assert result.outbounds == [reply]
    assert (result.ended_by, result.model_output, result.prompt) == ("denied:judge", None, "hello")
    assert outcomes(result)["judge"] == "denied"
    assert "run_model" not in outcomes(result)
    assert [record.implementation for record in result.trace if record.stage == "judge"] == ["high"]


@pytest.mark.parametrize(
    "broken",
    [
        raising(ValueError("secret detail")),
        forever,
        lambda: True,
        lambda: False,
        lambda: "no",
        empty,
        lambda: {"deny": 1},
        lambda: {"deny": None},
        lambda: {"deny": "x", "more": 1},
    ],
    ids=["fails", "hangs", "true", "false", "text", "empty", "no text", "none", "too much"],
)
async def test_a_gate_that_breaks_denies_with_a_fixed_sentence(bub: Workshop, broken: Any) -> None:
    errors = Errors()
    asked: list[Any] = []
    toy = Toy(judge=broken, polish=lambda: None, run_model=noting(asked, "model", "hi"), on_error=errors.told)
    result = await bub(GATED, toy=toy).process_inbound(HELLO)
    assert result.ended_by == "denied:judge"
    assert asked == []
    (reply,) = result.outbounds or [{}]
    assert (reply["kind"], reply["content"]) == ("denied", UNCHECKED)
    assert errors.stages == (["judge"] if broken is forever else ["judge:toy"])


async def test_a_gate_allows_only_when_all_do(bub: Workshop) -> None:
    asked: list[Any] = []
    low = Toy(judge=noting(asked, "low"), polish=lambda: None, run_model=lambda: "hi")
    framework = bub(GATED, low=low, high=Toy(judge=sleeping(1, asked, "high")))
    result = await framework.process_inbound(HELLO)
    assert (result.model_output, result.ended_by, asked) == ("hi", None, ["high", "low"])


async def test_a_gate_cannot_change_what_it_judges(bub: Workshop) -> None:
    def tamper(message: dict[str, Any]) -> None:
        message["content"] = "tampered"

    toy = Toy(judge=tamper, polish=lambda: None, run_model=lambda message: message["content"])
    assert (await bub(GATED, toy=toy).process_inbound(HELLO)).ended_by == "denied:judge"


async def test_a_denied_turn_unwinds_before_its_reply_is_sent(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {judge: {kind: gate}}
        stages:
          judge: {kind: gate, after: run_model}
          save_state: {after: render_outbound}
        """,
        toy=Toy(
            run_model=lambda: "so far",
            judge=lambda: {"deny": "not that"},
            save_state=lambda model_output: seen.append(f"saved {model_output}"),
            dispatch_outbound=lambda message: seen.append(message["content"]),
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["saved so far", "not that"]
    assert (result.ended_by, result.model_output) == ("denied:judge", "so far")


async def test_a_denied_turn_without_replies_in_its_pipeline_just_ends(bub: Workshop) -> None:
    framework = bub(
        """
        hooks: {judge: {kind: gate}, work: {kind: observer}}
        stages: {judge: {kind: gate}, work: {kind: observer}}
        """,
        toy=Toy(judge=lambda: {"deny": "no"}, work=lambda: None),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.ended_by, result.outbounds, result.session_id) == ("denied:judge", None, None)


CLAIMED = "extends: bub:default\nstages: {inbound_claim: {kind: claiming, before: resolve_session}}"


async def test_a_claimed_turn_ends_without_a_reply(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        CLAIMED,
        low=Toy(inbound_claim=noting(seen, "asked too late"), run_model=noting(seen, "model", "hi")),
        high=Toy(inbound_claim=lambda: {"handled": True}, dispatch_outbound=noting(seen, "dispatch")),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == []
    assert (result.ended_by, result.outbounds, result.model_output) == ("claimed:inbound_claim", [], None)
    assert outcomes(result) == {"inbound_claim": "claimed"}


@pytest.mark.parametrize("reply", ["on it", {"content": "on it"}])
async def test_a_claim_can_carry_the_reply(bub: Workshop, reply: Any) -> None:
    sent: list[Any] = []
    toy = Toy(
        inbound_claim=lambda: {"handled": True, "reply": reply}, dispatch_outbound=lambda message: sent.append(message)
    )
    result = await bub(CLAIMED, toy=toy).process_inbound(HELLO)
    assert sent == result.outbounds == [{"content": "on it", "channel": "cli", "chat_id": "local"}]
    assert result.ended_by == "claimed:inbound_claim"


@pytest.mark.parametrize(
    "no_claim",
    [lambda: None, lambda: {"handled": False}, empty, raising(ValueError("oops")), lambda: True],
    ids=["none", "not handled", "empty", "fails", "wrong type"],
)
async def test_what_is_no_claim_asks_the_next(bub: Workshop, no_claim: Any) -> None:
    low, high = Toy(inbound_claim=lambda: {"handled": True}, run_model=lambda: "hi"), Toy(inbound_claim=no_claim)
    assert (await bub(CLAIMED, low=low, high=high).process_inbound(HELLO)).ended_by == "claimed:inbound_claim"
    framework = bub(CLAIMED, alone=Toy(inbound_claim=no_claim, run_model=lambda: "hi"))
    assert (await framework.process_inbound(HELLO)).ended_by is None


async def test_a_reply_of_a_denied_turn_that_cannot_be_sent_fails_the_turn(bub: Workshop) -> None:
    errors = Errors()
    toy = Toy(
        inbound_claim=lambda: {"handled": True, "reply": "on it"},
        dispatch_outbound=raising(ConnectionError("offline")),
        on_error=errors.told,
    )
    with pytest.raises(ConnectionError, match="offline"):
        await bub(CLAIMED, toy=toy).process_inbound(HELLO)
    assert errors.stages == ["turn"]
