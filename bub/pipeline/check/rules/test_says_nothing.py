"""What a test says, it tests."""

from __future__ import annotations

from bub.base.diagnostics import Related, is_slip
from bub.base.globs import matcher
from bub.envelope import ADDRESS, FIELDS, add_address
from bub.pipeline.check.cases import Case, answers_of
from bub.pipeline.plan.channels import channel_meant, known_channels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node

CODE = "B194"

_OF_A_TEST = (*ADDRESS, "sender_id")
"""The fields of a message that stay as the test gives them."""


def check(plan: Plan, case: Case) -> None:
    """Find empty lists of stages, answers behind a `raise`, and slips in what the messages are made of."""
    for at, turn in case.turns():
        path = f"{case.path}.{at}".rstrip(".")
        for key in ("ran", "skipped"):
            said = turn.get("expect", key)
            if said is not None and said.is_sequence and not said.elements():
                happened = "to have run" if key == "ran" else "to have been skipped"
                plan.findings.warn(
                    CODE,
                    f"{case} expects no stage {happened}, which is true of every turn",
                    said.where,
                    path=f"{path}.expect.{key}",
                    help="name the stages, or take it out",
                )
        _check_message(plan, case, turn.get("message"), path)
    _check_mocks(plan, case)
    _check_conditions(plan, case)


def _check_mocks(plan: Plan, case: Case) -> None:
    """Find mocks that answer and fail at once: only a stream can say something before it fails."""
    for name, mock in case.mocks():
        beside = next((node for key, node in mock.items() if key != "answers"), None)
        if mock.get("answers") is not None and beside is not None:
            plan.findings.warn(
                CODE,
                f"{case} mocks `{name}` with `answers`, so Bub ignores what is beside them",
                beside.where,
                path=f"{case.path}.mock.{name}",
                help="put it into one of the answers, or take it out",
            )
        stage = plan.stages[plan.position[name]] if name in plan.position else None
        point = stage.hook.point if stage is not None else None
        for path, given in answers_of(mock):
            answer, error = given.get("return"), given.get("raise")
            if answer is None or error is None or point is None or "stream" in point.kinds:
                continue
            plan.findings.warn(
                CODE,
                f"{case} mocks `{name}` with `return` and `raise`, but what fails returns nothing",
                answer.where,
                path=f"{case.path}.mock.{name}{path}.return",
                help="take one of the two out",
            )


def _check_conditions(plan: Plan, case: Case) -> None:
    """Find mocks of stages that run for none of the messages, unless the test says so: they are never asked."""
    skipped = {expected.stage for expected in case.expected_stages() if expected.key == "skipped"}
    messages = [add_address(message) for message in case.messages()]
    for name, mock in case.mocks():
        stage = plan.stages[plan.position[name]] if name in plan.position and name not in skipped else None
        when = stage.node.get("when") if stage is not None and stage.each is None else None
        for field, node in when.items() if when is not None else ():
            glob = text_of(node)
            if glob is None or field not in _OF_A_TEST:
                continue
            if any(matcher(glob)(str(message.get(field))) for message in messages):
                continue
            whose = "its message" if len(messages) == 1 else "any of its messages"
            plan.findings.warn(
                CODE,
                f"{case} mocks stage `{name}`, which does not run for {whose}: it asks for {field} `{glob}`",
                mock.where,
                path=f"{case.path}.mock.{name}",
                help=f"give the message such a {field}, or expect the stage in `skipped`",
                related=[Related("it is asked for here", node.place.file, node.place.range)],
            )
            break


def _check_message(plan: Plan, case: Case, message: Node | None, where: str) -> None:
    """Find slips for a field of a message, or for a channel: the turn would be that of another message."""
    for name, node in message.items() if message is not None else ():
        meant = next((field for field in sorted(FIELDS) if is_slip(name, field)), None) if name not in FIELDS else None
        said, place, path = f"`{name}`", node.where, f"{where}.message.{name}"
        if name == "channel" and (channel := text_of(node)) is not None:
            meant = channel_meant(channel, known_channels(plan.root))
            said, place = f"channel `{channel}`", node.place
        if meant is not None:
            plan.findings.warn(
                CODE,
                f"the message of {case} has {said}, which no other message has",
                place,
                path=path,
                help=f"did you mean `{meant}`?",
                likely=meant,
            )
