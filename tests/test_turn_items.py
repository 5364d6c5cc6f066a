"""A whole turn: stages that run for each item of a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes.stages import sleeping
from fakes.toys import HELLO, Toy, Workshop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


EACH = """
extends: bub:default
hooks: {polish: {kind: modifying}, judge: {kind: gate}, deliver: {kind: claiming}, note: {kind: void}}
stages:
  polish: {kind: modifying, for_each: outbounds, changes: [message], before: dispatch_outbound}
  judge: {kind: gate, for_each: outbounds, before: dispatch_outbound}
  deliver: {kind: claiming, for_each: outbounds, before: dispatch_outbound}
  note: {kind: void, for_each: outbounds, after: dispatch_outbound}
"""


def replying(*contents: str, **hooks: Any) -> Toy:
    """A plugin with several replies."""
    return Toy(run_model=lambda: "hi", render_outbound=lambda: [{"content": content} for content in contents], **hooks)


def step(seen: list[str], name: str, answer: Callable[[str], Any] = lambda content: None) -> Any:
    """An implementation for each item that notes what it was called with."""

    def take(message: Any) -> Any:
        seen.append(f"{name} {message['content']}")
        return answer(message["content"])

    return take


async def test_neighbours_over_one_list_run_item_by_item(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        EACH,
        toy=replying(
            "a",
            "b",
            polish=step(seen, "polish", lambda content: {"message": {"content": content.upper()}}),
            judge=step(seen, "judge"),
            deliver=step(seen, "deliver"),
            dispatch_outbound=step(seen, "dispatch"),
            note=step(seen, "note"),
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == [
        *("polish a", "judge A", "deliver A", "dispatch A", "note A"),
        *("polish b", "judge B", "deliver B", "dispatch B", "note B"),
    ]
    assert result.outbounds == [{"content": "A"}, {"content": "B"}]
    assert result.ended_by is None


async def test_for_each_item_a_gate_or_a_claim_takes_it_out(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        EACH,
        toy=replying(
            *"abc",
            polish=lambda: None,
            judge=lambda message: {"deny": "rude"} if message["content"] == "a" else None,
            deliver=lambda message: {"handled": message["content"] == "b"},
            dispatch_outbound=step(seen, "dispatch"),
            note=step(seen, "note"),
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["dispatch c", "note c"]
    assert result.outbounds == [{"content": "c"}]
    assert result.ended_by is None


async def test_a_gate_that_breaks_on_an_item_takes_only_that_one_out(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        EACH,
        toy=replying(
            *"ab",
            polish=lambda: None,
            judge=step([], "judge", lambda content: 1 / 0 if content == "a" else None),
            deliver=lambda: None,
            dispatch_outbound=step(seen, "dispatch"),
            note=lambda: None,
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["dispatch b"]


async def test_a_failing_item_stops_for_itself_and_the_first_failure_leaves_at_the_end(bub: Workshop) -> None:
    seen: list[str] = []

    def fail_on_some(content: str) -> None:
        if content in "ac":
            raise ConnectionError(content)

    framework = bub(
        EACH,
        toy=replying(
            *"abcd",
            polish=lambda: None,
            judge=lambda: None,
            deliver=lambda: None,
            dispatch_outbound=step(seen, "dispatch", fail_on_some),
            note=step(seen, "note"),
        ),
    )
    with pytest.raises(ConnectionError) as caught:
        await framework.process_inbound(HELLO)
    assert caught.value.args == ("a",)
    assert seen == ["dispatch a", "dispatch b", "note b", "dispatch c", "dispatch d", "note d"]


async def test_a_stage_for_each_item_gathers_what_it_makes(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks:
          parts: {kind: firstresult}
          measure: {kind: broadcast}
          look: {kind: observer, takes: [lengths]}
        stages:
          parts: {kind: firstresult, into: texts}
          measure: {kind: broadcast, for_each: texts, into: lengths, combine: list}
          look: {kind: observer}
        """,
        low=Toy(
            parts=lambda: ["a", "bcd"],
            measure=lambda message: len(message),
            look=lambda lengths: seen.extend(lengths),
        ),
        high=Toy(measure=lambda message: message.upper()),
    )
    await framework.process_inbound(HELLO)
    assert seen == [["A", 1], ["BCD", 3]]


@pytest.mark.parametrize("kind", ["observer", "void", "broadcast"])
async def test_who_only_looks_at_the_items_leaves_the_value_as_it_is(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    framework = bub(
        f"""
        hooks: {{text: {{kind: firstresult}}, look: {{kind: {kind}}}, last: {{kind: observer, takes: [text]}}}}
        stages:
          text: {{into: text}}
          look: {{for_each: text}}
          last: {{}}
        """,
        toy=Toy(
            text=lambda: "one text", look=lambda message: seen.append(message), last=lambda text: seen.append([text])
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["one text", ["one text"]]


async def test_a_stage_that_makes_its_own_list_anew_is_heard(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {parts: {kind: firstresult}, shout: {kind: broadcast}, look: {kind: observer, takes: [texts]}}
        stages:
          parts: {into: texts}
          shout: {for_each: texts, into: texts, combine: join}
          look: {}
        """,
        toy=Toy(parts=lambda: ["a", "b"], shout=lambda message: message.upper(), look=lambda texts: seen.extend(texts)),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["A", "B"]


async def test_who_watches_the_replies_beside_others_takes_none_away(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {watch: {kind: observer}, pause: {kind: observer}}
        stages:
          watch: {for_each: outbounds, after: render_outbound}
          pause: {after: watch}
          dispatch_outbound: {needs: [render_outbound]}
        """,
        toy=replying("a", watch=sleeping(1), pause=lambda: None, dispatch_outbound=step(seen, "dispatch")),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["dispatch a"]
    assert result.outbounds == [{"content": "a"}]


async def test_one_reply_that_is_no_list_is_a_list_of_one_in_the_result(bub: Workshop) -> None:
    framework = bub(
        """
        hooks: {greet: {kind: firstresult}}
        stages: {greet: {into: outbounds}}
        """,
        toy=Toy(greet=lambda: {"content": "hi"}),
    )
    result = await framework.process_inbound(HELLO)
    assert result.outbounds == [{"content": "hi"}]


async def test_behind_the_items_the_message_is_the_turns_own_again(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {last: {kind: observer}}
        stages: {last: {kind: observer, after: dispatch_outbound}}
        """,
        toy=replying("reply", last=lambda message: seen.append(message["content"])),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["hello"]


async def test_when_is_held_against_each_item(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        "extends: bub:default\nstages: {dispatch_outbound: {when: {content: 'b*'}}}",
        toy=replying("a", "b", "bb", dispatch_outbound=step(seen, "dispatch")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["dispatch b", "dispatch bb"]
