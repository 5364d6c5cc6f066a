"""The law of every kind: who is asked, in which order, what they come to together, and what one failure does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from bub.base.waiting import Expired, MovingDeadline, Within, unlimited
from bub.errors import HookTypeError
from bub.hooks.binding import Call, Calls, Manner, bind
from bub.hooks.combining import join_low_to_high, merge_low_to_high
from bub.hooks.implementations import Implementation
from bub.hooks.kinds.broadcast import broadcast, broadcast_shielded
from bub.hooks.kinds.claiming import claiming
from bub.hooks.kinds.firstresult import firstresult
from bub.hooks.kinds.gate import gate
from bub.hooks.kinds.modifying import modifying
from bub.hooks.kinds.observer import observer
from bub.hooks.kinds.stream import Pulled, stream
from bub.hooks.kinds.verdicts import BROKEN_GATE, Denial
from bub.hooks.kinds.void import void
from bub.hookspecs import Form, HookPoint
from bub.streaming import AsyncStreamEvents, StreamEvent

pytestmark = pytest.mark.anyio

Function = Callable[[Any], Any]


def until(seconds: float) -> MovingDeadline:
    """Waits for all that is awaited through it, so many seconds in all."""
    limit = MovingDeadline()
    limit.start(seconds)
    return limit


class BoomError(Exception):
    """What an implementation of these tests fails with."""


def calls(
    *functions: Function, frozen: bool = False, returns: tuple[type, ...] | None = None, form: Form = "either"
) -> Calls:
    """Implementations that take one `payload`, highest priority first; their plugins are called p0, p1, …"""
    point = HookPoint("point", ("broadcast",), ("payload",), returns=returns, form=form)
    taken = ("payload",)
    implementations = [
        Implementation("point", f"p{index}", function, taken, (), taken, everything=False, rank=(1, index))
        for index, function in enumerate(functions)
    ]
    return bind(implementations, point, {"payload": "payload"}, manner=Manner(frozen=frozen))


def told(payload: Any) -> dict[str, Any]:
    """The values that a kind takes its arguments from."""
    return {"payload": payload}


async def propagate(call: Call, error: Exception) -> None:
    raise error


@dataclass
class Skip:
    """Goes on without what failed, and keeps who it was."""

    told: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    async def __call__(self, call: Call, error: Exception) -> None:
        self.told.append(call.plugin)
        self.errors.append(error)


def virtually(scenario: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """What a scenario comes to on virtual time."""
    return trio.run(scenario, *arguments, clock=MockClock(autojump_threshold=0))


def answers(value: Any) -> Function:
    return lambda payload: value


def fails(payload: Any) -> Any:
    raise BoomError


async def fails_later(payload: Any) -> Any:
    await trio.sleep(1)
    raise BoomError


async def hangs(payload: Any) -> Any:
    await trio.sleep_forever()


# Every kind alike: called as (calls, values, wait, failed).


async def stream_text(items: Calls, values: Any, wait: Any, failed: Any) -> Any:
    text, _ = await stream(items, values, wait, failed, None, Pulled([]))
    return text


KINDS: Mapping[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "firstresult": firstresult,
    "broadcast": broadcast,
    "observer": observer,
    "void": void,
    "modifying": modifying,
    "claiming": claiming,
    "gate": gate,
    "stream": stream_text,
}


async def clean_up(items: Calls, values: Any, wait: Within, failed: Any) -> Any:
    return await broadcast_shielded(items, values, wait.seconds, failed)


def each(kinds: Mapping[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds.values(), ids=kinds)


@dataclass(frozen=True)
class Plan:
    """An implementation to be made: what it does after how long, and how it is written."""

    does: Any
    seconds: int
    form: str

    @property
    def breaks(self) -> bool:
        return self.does is BoomError

    def build(self, index: int, log: list[tuple[str, int]]) -> Function:
        def end() -> Any:
            log.append(("end", index))
            if self.breaks:
                raise BoomError
            return self.does

        def plain(payload: Any) -> Any:
            log.append(("start", index))
            return end()

        async def coroutine(payload: Any) -> Any:
            log.append(("start", index))
            await trio.sleep(self.seconds)
            return end()

        class Awaitable:
            def __await__(self) -> Generator[Any, None, Any]:
                return coroutine(None).__await__()

        return {"plain": plain, "async": coroutine, "awaitable": lambda payload: Awaitable()}[self.form]

    @property
    def takes(self) -> int:
        return 0 if self.form == "plain" else self.seconds


def plans(results: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Plan]]:
    one = st.builds(
        Plan,
        st.none() | st.just(BoomError) | results,
        st.integers(0, 5),
        st.sampled_from(["plain", "async", "awaitable"]),
    )
    return st.lists(one, max_size=6)


@dataclass
class Ran:
    """What a run of planned implementations came to."""

    value: Any
    log: list[tuple[str, int]]
    skipped: list[str]
    seconds: float


def ran(kind: Callable[..., Coroutine[Any, Any, Any]], planned: list[Plan], payload: Any = None) -> Ran:
    log: list[tuple[str, int]] = []
    skip = Skip()

    async def scenario() -> Ran:
        began = trio.current_time()
        functions = [plan.build(index, log) for index, plan in enumerate(planned)]
        value = await kind(calls(*functions), told(payload), unlimited, skip)
        return Ran(value, log, skip.told, trio.current_time() - began)

    result: Ran = virtually(scenario)
    return result


def asked_until(planned: list[Plan], stops: Callable[[Plan], bool]) -> list[Plan]:
    """Those that are asked, one after another, by a kind that stops at the first that `stops`."""
    for index, plan in enumerate(planned):
        if stops(plan):
            return planned[: index + 1]
    return planned


def assert_one_after_another(result: Ran, asked: list[Plan]) -> None:
    expected = [(what, index) for index in range(len(asked)) for what in ("start", "end")]
    assert result.log == expected
    assert result.seconds == pytest.approx(sum(plan.takes for plan in asked))
    assert result.skipped == [f"p{index}" for index, plan in enumerate(asked) if plan.breaks]


def is_answer(plan: Plan) -> bool:
    return plan.does is not None and not plan.breaks


LAW = settings(deadline=None, max_examples=80)
VALUES = st.sampled_from(["", 0, False, [], {}, "text", 7])
CHANGES = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(), max_size=3)
CLAIMS = st.fixed_dictionaries(
    {}, optional={"handled": st.sampled_from([True, False, None, 1, ""]), "n": st.integers()}
)
DENIALS = st.fixed_dictionaries({"deny": st.sampled_from(["no", "never", ""])})


class TestFirstresult:
    @LAW
    @given(plans(VALUES))
    def test_it_stops_at_the_first_value_that_is_not_none(self, planned: list[Plan]) -> None:
        result = ran(firstresult, planned)
        asked = asked_until(planned, is_answer)
        assert_one_after_another(result, asked)
        if asked and is_answer(asked[-1]):
            assert result.value == (asked[-1].does, f"p{len(asked) - 1}")
        else:
            assert result.value == (None, "")

    @pytest.mark.parametrize("value", ["", 0, False, [], {}])
    async def test_a_falsy_value_is_an_answer(self, value: Any) -> None:
        items = calls(answers(None), answers(value), answers("lower"))
        assert await firstresult(items, told(None), unlimited, propagate) == (value, "p1")

    async def test_an_answer_of_the_wrong_type_is_a_failure_of_its_plugin(self) -> None:
        skip = Skip()
        items = calls(answers(7), answers("text"), returns=(str,))
        assert await firstresult(items, told(None), unlimited, skip) == ("text", "p1")
        assert skip.told == ["p0"]
        assert isinstance(skip.errors[0], HookTypeError)


class TestBroadcast:
    @LAW
    @given(plans(VALUES))
    def test_all_are_asked_and_their_values_come_in_order_with_none_among_them(self, planned: list[Plan]) -> None:
        result = ran(broadcast, planned)
        assert_one_after_another(result, planned)
        assert result.value == [plan.does for plan in planned if not plan.breaks]

    async def test_the_first_failure_stops_it_where_failures_propagate(self) -> None:
        seen: list[str] = []
        with pytest.raises(BoomError):
            await broadcast(calls(answers(1), fails, seen.append), told("payload"), unlimited, propagate)
        assert seen == []

    async def test_a_value_of_the_wrong_type_is_a_failure_of_its_plugin(self) -> None:
        skip = Skip()
        items = calls(answers({"a": 1}), answers("text"), answers(None), returns=(dict,))
        assert await broadcast(items, told(None), unlimited, skip) == [{"a": 1}, None]
        assert skip.told == ["p1"]


class TestObserver:
    @LAW
    @given(plans(VALUES))
    def test_all_are_told_one_after_another_and_a_failure_stops_none(self, planned: list[Plan]) -> None:
        result = ran(observer, planned)
        assert_one_after_another(result, planned)
        assert result.value is None


class TestVoid:
    @LAW
    @given(plans(VALUES))
    def test_all_run_at_once_and_all_have_ended(self, planned: list[Plan]) -> None:
        result = ran(void, planned)
        everyone = set(range(len(planned)))
        assert {index for what, index in result.log if what == "start"} == everyone
        assert {index for what, index in result.log if what == "end"} == everyone
        assert len(result.log) == 2 * len(planned)
        assert result.seconds == pytest.approx(max((plan.takes for plan in planned), default=0))
        assert sorted(result.skipped) == [f"p{index}" for index, plan in enumerate(planned) if plan.breaks]
        assert result.value is None

    async def test_a_synchronous_failure_keeps_nobody_from_running(self) -> None:
        seen: list[str] = []

        async def later(payload: str) -> None:
            await trio.lowlevel.checkpoint()
            seen.append(payload)

        skip = Skip()
        await void(calls(fails, later, fails, seen.append), told("told"), unlimited, skip)
        assert seen == ["told", "told"]
        assert skip.told == ["p0", "p2"]

    async def test_where_failures_propagate_all_have_ended_before_one_is_raised_by_itself(self) -> None:
        ended: list[str] = []

        async def slow(payload: Any) -> None:
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            ended.append("slow")

        async def fails_at_once(payload: Any) -> None:
            raise BoomError

        with pytest.raises(BoomError):
            await void(calls(fails_at_once, slow), told(None), unlimited, propagate)
        assert ended == ["slow"]

    async def test_where_failures_propagate_every_one_of_them_is_told(self) -> None:
        told_of: list[str] = []

        async def tell_and_raise(call: Call, error: Exception) -> None:
            told_of.append(call.plugin)
            raise error

        with pytest.raises(BoomError):
            await void(calls(fails, answers(None), fails), told(None), unlimited, tell_and_raise)
        assert told_of == ["p0", "p2"]

    def test_when_the_time_is_up_what_had_failed_by_then_is_told_all_the_same(self) -> None:
        skip = Skip()

        async def scenario() -> None:
            with pytest.raises(Expired):
                await void(calls(fails, fails_later, hangs), told(None), until(5), skip)

        virtually(scenario)
        assert sorted(skip.told) == ["p0", "p1"]


class TestModifying:
    @LAW
    @given(plans(CHANGES))
    def test_per_key_the_first_value_that_is_not_none_counts(self, planned: list[Plan]) -> None:
        result = ran(modifying, planned)
        assert_one_after_another(result, planned)
        expected: dict[str, Any] = {}
        for plan in reversed(planned):
            if is_answer(plan):
                expected.update({key: value for key, value in plan.does.items() if value is not None})
        assert result.value == expected

    async def test_each_gets_the_original_whatever_the_others_returned(self) -> None:
        seen: list[Any] = []

        def rewrites(payload: dict[str, Any]) -> dict[str, Any]:
            seen.append(dict(payload))
            return {"text": f"{payload['text']}!"}

        items = calls(rewrites, rewrites, rewrites, frozen=True)
        assert await modifying(items, told({"text": "hi"}), unlimited, propagate) == {"text": "hi!"}
        assert seen == [{"text": "hi"}] * 3

    async def test_who_changes_what_it_was_given_fails_and_changes_nothing(self) -> None:
        original = {"args": {"paths": ["a"]}}
        skip = Skip()

        def by_stealth(payload: Any) -> None:
            payload["args"]["paths"].append("/etc/passwd")

        await modifying(calls(by_stealth, frozen=True), told(original), unlimited, skip)
        assert original == {"args": {"paths": ["a"]}}
        assert skip.told == ["p0"]
        assert isinstance(skip.errors[0], TypeError)

    async def test_what_is_returned_can_be_changed_even_where_it_is_built_of_read_only_parts(self) -> None:
        def adds(payload: Any) -> dict[str, Any]:
            return {"args": {**payload["args"], "extra": 1}}

        items = calls(adds, frozen=True)
        changed = await modifying(items, told({"args": {"paths": ["a"]}}), unlimited, propagate)
        changed["args"]["paths"].append("b")
        assert changed == {"args": {"paths": ["a", "b"], "extra": 1}}

    @pytest.mark.parametrize("value", ["text", 7, ["a"], True])
    async def test_anything_but_a_mapping_is_left_out_as_a_failure(self, value: Any) -> None:
        skip = Skip()
        assert await modifying(calls(answers(value), answers({"a": 1})), told(None), unlimited, skip) == {"a": 1}
        assert skip.told == ["p0"]
        assert isinstance(skip.errors[0], HookTypeError)


class TestClaiming:
    @LAW
    @given(plans(CLAIMS))
    def test_it_stops_at_the_first_that_says_handled_and_gives_its_whole_claim(self, planned: list[Plan]) -> None:
        def claims(plan: Plan) -> bool:
            return is_answer(plan) and bool(plan.does.get("handled"))

        result = ran(claiming, planned)
        asked = asked_until(planned, claims)
        assert_one_after_another(result, asked)
        if asked and claims(asked[-1]):
            assert result.value == (asked[-1].does, f"p{len(asked) - 1}")
        else:
            assert result.value == ({"handled": False}, "")

    async def test_one_that_fails_or_answers_nonsense_leaves_the_next_to_be_asked(self) -> None:
        skip = Skip()
        claim = {"handled": True, "reply": "mine"}
        items = calls(fails, answers(True), answers("handled"), answers(claim))
        assert await claiming(items, told(None), unlimited, skip) == (claim, "p3")
        assert skip.told == ["p0", "p1", "p2"]

    async def test_nobody_can_change_what_an_unclaimed_point_comes_to(self) -> None:
        unclaimed, _ = await claiming(calls(), told(None), unlimited, propagate)
        assert isinstance(unclaimed, dict)
        unclaimed["handled"] = True
        assert await claiming(calls(), told(None), unlimited, propagate) == ({"handled": False}, "")


class TestGate:
    @LAW
    @given(plans(DENIALS | st.sampled_from([True, False, "", "yes", 0, {}, {"deny": None}, {"deny": 1}, {"allow": 1}])))
    def test_only_when_all_return_none_is_anything_allowed(self, planned: list[Plan]) -> None:
        result = ran(gate, planned)
        asked = asked_until(planned, lambda plan: plan.does is not None)
        last = asked[-1] if asked else None
        if last is None or last.does is None:
            assert result.value is None
            return
        denies = not last.breaks and isinstance(last.does, dict) and isinstance(last.does.get("deny"), str)
        assert isinstance(result.value, Denial)
        assert result.value.plugin == f"p{len(asked) - 1}"
        assert result.value.broken == (not denies)
        assert result.value.reason, "a person is always told something"
        if denies and last.does["deny"]:
            assert result.value.reason == last.does["deny"]
        starts = [index for what, index in result.log if what == "start"]
        assert starts == list(range(len(asked))), "the first denial is the last word"

    def ran(self, *functions: Function) -> Any:
        async def scenario() -> Denial | None:
            return await gate(calls(*functions), told(None), unlimited, Skip())

        return virtually(scenario)

    @pytest.mark.parametrize("broken", [fails, fails_later], ids=["sync", "async"])
    def test_an_exception_denies_whatever_the_policy_says(self, broken: Function) -> None:
        assert self.ran(answers(None), broken, answers(None)) == Denial(BROKEN_GATE, "p1", broken=True)

    @pytest.mark.parametrize(
        "value", [True, False, "", "allowed", 0, [], {}, {"deny": None}, {"deny": True}, {"deny": "x", "and": 1}, set()]
    )
    def test_a_wrong_type_denies(self, value: Any) -> None:
        assert self.ran(answers(value)) == Denial(BROKEN_GATE, "p0", broken=True)

    def test_an_exception_of_the_logic_of_trio_denies_too(self) -> None:
        async def two_at_once(payload: Any) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails_later, None)
                nursery.start_soon(fails_later, None)

        assert self.ran(two_at_once) == Denial(BROKEN_GATE, "p0", broken=True)

    def test_a_denial_without_a_reason_denies_with_words_for_the_person(self) -> None:
        assert self.ran(answers({"deny": ""})) == Denial("This is not allowed here.", "p0")

    async def test_time_running_out_never_allows(self) -> None:
        for wait in (until(0), Within(0), Within(0, shield=True)):
            outcome: Any = "nothing"
            try:
                outcome = await gate(calls(hangs), told(None), wait, Skip())
            except Expired:
                outcome = "expired, which the stage takes for a denial"
            assert outcome not in (None, "nothing")

    async def test_nobody_changes_what_a_gate_judges(self) -> None:
        args = {"path": "a"}

        def loosens(payload: Any) -> None:
            payload["path"] = "/"

        skip = Skip()
        denial = await gate(calls(loosens, frozen=True), told(args), unlimited, skip)
        assert args == {"path": "a"}
        assert denial == Denial(BROKEN_GATE, "p0", broken=True)


@dataclass
class Source:
    """A stream of planned events that knows how often it was closed."""

    events: list[Any]
    closed: int = 0

    def __aiter__(self) -> Source:
        self._rest = iter(self.events)
        return self

    async def __anext__(self) -> StreamEvent:
        await trio.lowlevel.checkpoint()
        for event in self._rest:
            if isinstance(event, BaseException):
                raise event
            if event is hangs:
                await trio.sleep_forever()
            return event  # type: ignore[no-any-return]
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1


def streams(*events: Any) -> tuple[Source, Function]:
    """A source, and the implementation that answers with it; texts stand for `text` events."""
    source = Source([StreamEvent.text(event) if isinstance(event, str) else event for event in events])
    source.__aiter__()
    return source, answers(AsyncStreamEvents(source))


class TestStream:
    async def pulled(
        self, *functions: Function, failed: Any = propagate, tell: Any = None, into: Pulled | None = None, **manner: Any
    ) -> tuple[str | None, str]:
        pulled = into if into is not None else Pulled([])
        return await stream(calls(*functions), told(None), unlimited, failed, tell, pulled, Manner(**manner))

    async def test_the_text_is_that_of_its_text_events_in_order(self) -> None:
        events = ("a", StreamEvent("reasoning", {"delta": "hm"}), "b", StreamEvent("usage", {"n": 1}), "c")
        seen: list[str] = []

        async def tell(event: StreamEvent) -> None:
            seen.append(event.kind)

        source, function = streams(*events)
        assert await self.pulled(function, tell=tell) == ("abc", "p0")
        assert seen == ["text", "reasoning", "text", "usage", "text"]
        assert source.closed == 1

    @LAW
    @given(
        st.lists(
            st.tuples(st.sampled_from(["text", "stream", "generator"]), st.none() | st.lists(st.text(max_size=3))),
            max_size=5,
        )
    )
    def test_it_picks_the_first_answer_whatever_its_form(self, planned: list[tuple[str, list[str] | None]]) -> None:
        def build(form: str, parts: list[str] | None) -> Function:
            if parts is None:
                return answers(None)
            if form == "text":
                return answers("".join(parts))

            async def generate() -> AsyncIterator[StreamEvent]:
                for part in parts:
                    yield StreamEvent.text(part)

            return lambda payload: generate() if form == "generator" else AsyncStreamEvents(generate())

        async def scenario() -> tuple[str | None, str]:
            return await self.pulled(*(build(*plan) for plan in planned))

        first = next((index for index, (_, parts) in enumerate(planned) if parts is not None), None)
        expected = (None, "") if first is None else ("".join(planned[first][1] or ()), f"p{first}")
        assert virtually(scenario) == expected

    async def test_an_empty_text_is_an_answer(self) -> None:
        assert await self.pulled(answers(""), answers("lower")) == ("", "p0")

    async def test_a_text_is_told_as_a_stream_of_one_event(self) -> None:
        seen: list[StreamEvent] = []

        async def tell(event: StreamEvent) -> None:
            seen.append(event)

        await self.pulled(answers("all of it"), tell=tell)
        assert seen == [StreamEvent("text", {"delta": "all of it"})]

    @pytest.mark.parametrize(("form", "wrong"), [("text", 7), ("stream", "text"), ("stream", ["text"]), ("either", 7)])
    async def test_an_answer_in_the_wrong_form_is_a_type_error(self, form: Any, wrong: Any) -> None:
        with pytest.raises(HookTypeError, match=r"hook\.point must return .* or None"):
            await stream(calls(answers(wrong), form=form), told(None), unlimited, propagate, None, Pulled([]))

    async def test_who_fails_before_the_first_event_leaves_the_answer_to_the_next(self) -> None:
        skip = Skip()
        source, broken = streams(BoomError())
        assert await self.pulled(broken, answers("lower"), failed=skip) == ("lower", "p1")
        assert (skip.told, source.closed) == (["p0"], 1)

    async def test_who_fails_later_has_answered_with_its_text_so_far(self) -> None:
        skip = Skip()
        source, broken = streams("half", BoomError())
        assert await self.pulled(broken, answers("lower"), failed=skip) == ("half", "p0")
        assert (skip.told, source.closed) == (["p0"], 1)

    async def test_it_is_closed_and_its_text_kept_when_the_turn_is_cancelled(self) -> None:
        so_far = Pulled([])
        source, function = streams("half", hangs)
        with trio.move_on_after(1) as scope:

            async def stop(event: StreamEvent) -> None:
                scope.cancel()

            await self.pulled(function, tell=stop, into=so_far)
        assert scope.cancelled_caught
        assert (so_far.text, source.closed) == ("half", 1)

    def test_it_is_asked_again_as_often_as_it_may_but_never_after_its_first_event(self) -> None:
        asked: list[int] = []

        def flaky(events: list[Any]) -> Function:
            def function(payload: Any) -> Any:
                asked.append(len(asked))
                _, answer = streams(*(events if len(asked) < 3 else ["third time"]))
                return answer(payload)

            return function

        async def scenario(events: list[Any], skip: Skip) -> tuple[str | None, str]:
            return await self.pulled(flaky(events), failed=skip, retries=2, backoff=1.0)

        skip = Skip()
        assert virtually(scenario, [BoomError()], skip) == ("third time", "p0")
        assert (len(asked), skip.told) == (3, [])
        asked.clear()
        assert virtually(scenario, ["half", BoomError()], skip) == ("half", "p0")
        assert (len(asked), skip.told) == (1, ["p0"])


class TestEveryKind:
    @each(KINDS)
    async def test_with_nobody_to_ask_it_comes_to_nothing(self, kind: Any) -> None:
        nothing = {
            firstresult: (None, ""),
            broadcast: [],
            modifying: {},
            claiming: ({"handled": False}, ""),
        }
        assert await kind(calls(), told(None), unlimited, propagate) == nothing.get(kind)

    @each({name: kind for name, kind in KINDS.items() if name != "gate"})
    @pytest.mark.parametrize("broken", [fails, fails_later], ids=["sync", "async"])
    def test_propagate_raises_what_was_raised(self, kind: Any, broken: Function) -> None:
        async def scenario() -> None:
            with pytest.raises(BoomError):
                await kind(calls(answers(None), broken), told(None), unlimited, propagate)

        virtually(scenario)

    @each({name: kind for name, kind in KINDS.items() if name != "gate"})
    @pytest.mark.parametrize("broken", [fails, fails_later], ids=["sync", "async"])
    def test_skip_asks_the_next(self, kind: Any, broken: Function) -> None:
        asked: list[str] = []
        skip = Skip()
        virtually(partial(kind, calls(broken, asked.append), told("payload"), unlimited, skip))
        assert (asked, skip.told) == (["payload"], ["p0"])

    @each(KINDS)
    @pytest.mark.parametrize("before", [0, 1, 2])
    def test_a_cancellation_passes_through(self, kind: Any, before: int) -> None:
        asked_after: list[str] = []
        skip = Skip()

        async def scenario() -> None:
            with trio.move_on_after(1) as scope:
                functions = (*[answers(None)] * before, hangs, asked_after.append)
                await kind(calls(*functions), told("payload"), unlimited, skip)
            assert scope.cancelled_caught

        virtually(scenario)
        assert skip.told == []
        assert asked_after == (["payload"] if kind is void else [])

    @each(KINDS)
    @pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
    @pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
    async def test_what_is_no_exception_passes_through_by_itself(
        self, kind: Any, stop: type[BaseException], later: bool
    ) -> None:
        def stops(payload: Any) -> Any:
            raise stop

        async def stops_later(payload: Any) -> Any:
            await trio.lowlevel.checkpoint()
            raise stop

        skip = Skip()
        with pytest.raises(stop):
            await kind(calls(stops_later if later else stops, answers(None)), told(None), unlimited, skip)
        assert skip.told == []

    @each(KINDS)
    async def test_what_returns_an_awaitable_is_awaited_whatever_it_is_made_of(self, kind: Any) -> None:
        awaited: list[str] = []

        class Later:
            def __await__(self) -> Generator[Any, None, None]:
                yield from trio.lowlevel.checkpoint().__await__()  # noqa: ASYNC105 (this is how it is awaited here)
                awaited.append("yes")

        await kind(calls(lambda payload: Later()), told(None), unlimited, propagate)
        assert awaited == ["yes"]

    @each(KINDS)
    def test_one_deadline_counts_for_all_that_are_asked(self, kind: Any) -> None:
        async def slow(payload: Any) -> None:
            await trio.sleep(2)

        async def scenario() -> float:
            began = trio.current_time()
            with pytest.raises(Expired):
                await kind(calls(slow, slow, hangs), told(None), until(5), propagate)
            return trio.current_time() - began

        assert virtually(scenario) == pytest.approx(5)

    @each({**{name: KINDS[name] for name in ("broadcast", "observer", "void")}, "clean-up": clean_up})
    def test_a_shielded_wait_limits_each_by_itself_and_outlives_a_cancellation(self, kind: Any) -> None:
        ended: list[str] = []
        skip = Skip()

        async def slow(payload: Any) -> None:
            await trio.sleep(2)
            ended.append("slow")

        async def scenario() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                await kind(calls(slow, hangs, slow), told(None), Within(3, shield=True), skip)

        virtually(scenario)
        assert ended == ["slow", "slow"]
        assert skip.told == ["p1"]
        assert isinstance(skip.errors[0], trio.TooSlowError)


class TestCombining:
    @given(st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), st.integers()), max_size=5))
    def test_merged_dicts_give_each_key_the_value_of_the_highest_priority(
        self, parts: list[dict[str, int] | None]
    ) -> None:
        merged = merge_low_to_high(parts)
        for key in "abc":
            first = next((part[key] for part in parts if part and key in part), None)
            assert merged.get(key) == first

    def test_merging_is_shallow_and_a_none_in_a_dict_counts(self) -> None:
        assert merge_low_to_high([{"a": {"x": 1}, "b": None}, {"a": {"y": 2}, "b": 3}]) == {"a": {"x": 1}, "b": None}

    @given(st.lists(st.none() | st.sampled_from(["", "a", "b", "c"]), max_size=5))
    def test_joined_texts_stand_low_priority_first_with_a_blank_line_between(self, texts: list[str | None]) -> None:
        assert join_low_to_high(texts).split("\n\n") == ([text for text in reversed(texts) if text] or [""])


# Keys that belong to the runtime (BEHAVIOURS T8).

OF_THE_RUNTIME = {"_runtime_workspace": "elsewhere", "mine": 1}


@pytest.mark.parametrize("shielded", [False, True])
async def test_a_broadcast_that_is_typed_leaves_out_the_keys_of_the_runtime(shielded: bool) -> None:
    typed = calls(lambda payload: dict(OF_THE_RUNTIME), returns=(dict,))
    assert await _broadcast(typed, shielded=shielded) == [{"mine": 1}]


@pytest.mark.parametrize("shielded", [False, True])
async def test_a_broadcast_whose_point_declares_no_type_hands_on_what_it_was_given(shielded: bool) -> None:
    """Nobody makes a state of it, so a key that looks like one of the runtime's means nothing there."""
    untyped = calls(lambda payload: dict(OF_THE_RUNTIME))
    assert await _broadcast(untyped, shielded=shielded) == [OF_THE_RUNTIME]


async def test_a_first_answer_leaves_out_the_keys_of_the_runtime_whatever_its_point_declares() -> None:
    value, _ = await firstresult(calls(lambda payload: dict(OF_THE_RUNTIME)), {"payload": 1}, unlimited, _none_fails)
    assert value == {"mine": 1}


async def _broadcast(called: Calls, *, shielded: bool) -> list[Any]:
    if shielded:
        return await broadcast_shielded(called, {"payload": 1}, 5.0, _none_fails)
    return await broadcast(called, {"payload": 1}, unlimited, _none_fails)


async def _none_fails(call: Call, error: Exception) -> None:
    raise error
