# ruff: noqa: E501 (lines of code as they stand in the engine)
"""Faults to be planted in a copy of the engine: each a text of one module and what takes its place."""

from __future__ import annotations

from typing import NamedTuple


class Plant(NamedTuple):
    """A fault: what an engine with it does wrong, the module, what it says, and what it says instead."""

    what: str
    module: str
    old: str
    new: str


GATE, STRAND, ENDINGS = "hooks/kinds/gate.py", "pipeline/run/strand.py", "pipeline/run/endings.py"
TURN, LAYOUT, WAITING = "pipeline/run/turn.py", "pipeline/run/layout.py", "base/waiting.py"
FIRING, STATE, BINDING = "pipeline/run/firing.py", "pipeline/run/state.py", "hooks/binding.py"
BROADCAST, VOID, STREAM = "hooks/kinds/broadcast.py", "hooks/kinds/void.py", "hooks/kinds/stream.py"
OBSERVER, CLAIMING, MODIFYING = "hooks/kinds/observer.py", "hooks/kinds/claiming.py", "hooks/kinds/modifying.py"
CLEANUPS, FAILURES, RUNNABLE = "pipeline/run/cleanups.py", "pipeline/run/failures.py", "hooks/kinds/runnable.py"

PLANTS = (
    # Gates.
    Plant(
        "a gate whose time is up allows",
        GATE,
        'return Denial(BROKEN_GATE, "", broken=True), "", "timeout"',
        'return None, "", "timeout"',
    ),
    Plant(
        "a gate swallows a time-out of its own",
        GATE,
        "        except Exception as error:",
        "        except TimeoutError:\n            continue\n        except Exception as error:",
    ),
    Plant(
        "a gate swallows trio's time-out",
        GATE,
        "        except Exception as error:",
        "        except __import__('trio').TooSlowError:\n            continue\n        except Exception as error:",
    ),
    Plant("a gate takes what is false for a yes", GATE, "if value is None:", "if not value:"),
    Plant(
        "a gate takes a wrong answer for a yes",
        GATE,
        """raise HookTypeError(call.hook, call.plugin, '{"deny": "reason"} or None', value)""",
        "continue",
    ),
    Plant("a gate that fails allows", GATE, "return Denial(BROKEN_GATE, call.plugin, broken=True)", "continue"),
    Plant(
        "a gate asks only the first of its plugins",
        GATE,
        "            if value is None:\n                continue",
        "            if value is None:\n                return None",
    ),
    Plant(
        "a stage runs behind a gate that broke",
        STRAND,
        "            if verdict is not None:\n                if not each:",
        "            if verdict is not None and not getattr(verdict, 'broken', False):\n                if not each:",
    ),
    Plant(
        "a stage runs behind a gate that denied",
        STRAND,
        "            if verdict is not None:\n                if not each:",
        "            if verdict is not None and getattr(verdict, 'broken', True):\n                if not each:",
    ),
    Plant(
        "an item that was denied is sent",
        STRAND,
        "if await self.run(node.steps, each=True) is None:",
        "await self.run(node.steps, each=True)\n                if True:",
    ),
    Plant(
        "an item that was allowed is dropped with another one",
        STRAND,
        "                    kept.append(values[node.item])\n            except",
        "                    kept.append(values[node.item])\n                else:\n                    break\n            except",
    ),
    Plant(
        "stages for an item go on behind its denial",
        STRAND,
        "                return verdict\n            if held",
        "                continue\n            if held",
    ),
    Plant(
        "a stage passes a gate of the turn",
        "pipeline/plan/stages.py",
        "self.kind.barrier and self.each is None",
        "False",
    ),
    # Clean-ups.
    Plant(
        "a clean-up is skipped if the turn is cancelled",
        TURN,
        "        self.held.clear()\n        await unwind(self)",
        "        self.held.clear()\n        if isinstance(error, Exception):\n            await unwind(self)",
    ),
    Plant(
        "a clean-up is skipped behind a denial",
        TURN,
        "                await unwind(self)\n                await deliver",
        "                await deliver",
    ),
    Plant("a clean-up runs twice", CLEANUPS, "    turn.cleaned.add(step.id)\n", ""),
    Plant(
        "a clean-up is cancelled with the turn", LAYOUT, "Within(timeout, shield=True)", "Within(timeout, shield=False)"
    ),
    Plant(
        "a clean-up of several is cancelled with the turn", BROADCAST, "+ slack, shield=True)", "+ slack, shield=False)"
    ),
    Plant(
        "a clean-up that fails keeps others from running",
        BROADCAST,
        "                    await failed(call, error)\n                if scope",
        "                    await failed(call, error)\n                    return results\n                if scope",
    ),
    Plant(
        "a clean-up has no end",
        BROADCAST,
        "with trio.CancelScope(deadline=armed + seconds + slack, shield=True)",
        "with trio.CancelScope(shield=True)",
    ),
    Plant(
        "clean-ups run only if the turn failed",
        ENDINGS,
        "if not turn.started.isdisjoint(step.cleanup_for) and",
        "if turn.failures and not turn.started.isdisjoint(step.cleanup_for) and",
    ),
    Plant("who has a clean-up is not noted", STRAND, "            turn.started.add(step.id)", "            pass"),
    # Time.
    Plant("a time-out is not applied", STRAND, "limit.start(step.timeout)", "limit.start(1e9)"),
    Plant("a time-out is twice as long", STRAND, "limit.start(step.timeout)", "limit.start(2 * step.timeout)"),
    Plant("a late answer is taken", WAITING, "if self._now is None or self._now() <= self._at:", "if True:"),
    Plant(
        "the time-out of a stream is not applied",
        STRAND,
        "came = await self._stream(step, limit)",
        "came = await self._stream(step, unlimited)",
    ),
    Plant("a fired point has no end", FIRING, "limit.start(point.timeout)", "limit.start(1e9)"),
    Plant(
        "a late claim is taken",
        CLAIMING,
        "    late=no_part,",
        "    late=lambda stage, values, each: ({'handled': True}, '', 'claimed'),",
    ),
    Plant(
        "a stage whose time is up goes on whatever its policy",
        STRAND,
        '        if step.on_failure == "propagate":\n            self._turn.late',
        "        if False:\n            self._turn.late",
    ),
    # Observers.
    Plant(
        "what an observer says is kept",
        OBSERVER,
        "            if is_awaitable(value):",
        "            for held in arguments[call.signature]:\n                if isinstance(held, dict) and isinstance(value, dict):\n                    held.update(value)\n            if is_awaitable(value):",
    ),
    Plant(
        "an observer that fails ends the turn",
        OBSERVER,
        "            await failed(call, error)",
        "            await failed(call, error)\n            raise",
    ),
    Plant(
        "a void one that fails ends the turn",
        VOID,
        "            await failed(call, failure)\n",
        "            await failed(call, failure)\n            raise failure\n",
    ),
    Plant(
        "an observer whose time is up ends the turn",
        STRAND,
        "        await self._turn.report(step.id, late)\n",
        "        await self._turn.report(step.id, late)\n        if step.kind.name == 'observer':\n            raise late\n",
    ),
    Plant(
        "an error observer that fails ends the turn",
        FAILURES,
        'log_warning("hook.on_error_failed", stage=stage, adapter=call.plugin, error=failure)',
        "raise failure",
    ),
    # What is delivered.
    Plant(
        "a denial is delivered twice", ENDINGS, '"kind": "denied"}, ends.step)]', '"kind": "denied"}, ends.step)] * 2'
    ),
    Plant(
        "a denial is not delivered",
        ENDINGS,
        '[_reply(turn, {"content": verdict.reason, "kind": "denied"}, ends.step)]',
        "[]",
    ),
    Plant("the reason of a denial is lost", ENDINGS, '"content": verdict.reason,', '"content": "no",'),
    Plant("a claim's reply is lost", ENDINGS, 'elif verdict.get("reply") is not None:', "elif False:"),
    Plant(
        "replies are delivered again",
        STRAND,
        "        for item in items:\n            values[node.item] = item",
        "        for item in [*items, *items]:\n            values[node.item] = item",
    ),
    Plant(
        "a part of a stream is shown that a gate has yet to judge",
        STATE,
        "        if waiting:\n            self.held",
        "        if False:\n            self.held",
    ),
    Plant(
        "what was withheld is told",
        STATE,
        "for event in held.without_words():",
        "for event in held.as_judged(self.values):",
    ),
    # Policies.
    Plant(
        "a failure that is to end the turn does not",
        STRAND,
        '        elif call.on_failure == "propagate":\n            raise error',
        "        elif False:\n            raise error",
    ),
    Plant(
        "a failure that is to be skipped ends the turn",
        STRAND,
        '        elif call.on_failure == "propagate":\n            raise error',
        "        elif True:\n            raise error",
    ),
    Plant(
        "a failure is told to nobody",
        STATE,
        "        await tell_observers(self.graph, stage, error, message, shield=shield)",
        "        return",
    ),
    Plant("nothing is tried again", BINDING, "for attempt in range(manner.retries):", "for attempt in range(0):"),
    Plant(
        "a stream that dies half-way is an answer",
        STREAM,
        "                await failed(call, error)\n",
        "                if not pulled.begun:\n                    await failed(call, error)\n",
    ),
    Plant(
        "a wrong type is taken",
        BINDING,
        "if self.returns is not None and not isinstance(value, self.returns):",
        "if False:",
    ),
    # Fired points.
    Plant("a fired gate whose time is up allows", GATE, 'return {"deny": BROKEN_GATE}', "return None"),
    Plant(
        "a fired gate that broke allows",
        GATE,
        "return None if came is None else",
        "return None if came is None or came.broken else",
    ),
    Plant(
        "a fired observer that fails ends the turn",
        FIRING,
        '        if call.on_failure == "propagate":\n            raise error',
        "        raise error",
    ),
    Plant(
        "an item that was claimed is sent",
        CLAIMING,
        'return (claim, who, "claimed") if claim.get("handled") else DONE',
        'return (claim, who, "claimed") if claim.get("handled") and not each else DONE',
    ),
    Plant(
        "a claim does not end the turn",
        CLAIMING,
        'return (claim, who, "claimed") if claim.get("handled")',
        "return DONE if not each",
    ),
    Plant(
        "a model may be silent for good",
        STREAM,
        "    if pulled.silence is not None:\n        events",
        "    if False:\n        events",
    ),
    Plant(
        "a stream that has begun is asked for again",
        STREAM,
        "if attempt < manner.retries and not pulled.begun:",
        "if attempt < manner.retries:",
    ),
    Plant(
        "a failure is told twice",
        FAILURES,
        "    await observer(graph.observers, values, Within(REPORTING_PATIENCE, shield), log)",
        "    for _ in range(2):\n        await observer(graph.observers, values, Within(REPORTING_PATIENCE, shield), log)",
    ),
    # Side by side.
    Plant(
        "the failure of a stage beside others is lost",
        TURN,
        "            if failures:\n                raised = True",
        "            if False:\n                raised = True",
    ),
    Plant(
        "a cancellation is taken for the end of a time",
        STRAND,
        "                    except BaseException as error:\n                        if not limit.has_ended(error):\n                            raise",
        "                    except BaseException as error:\n                        if not limit.has_ended(error) and isinstance(error, Exception):\n                            raise",
    ),
)
"""What `bub prove` has to find."""
