"""What a test says, it tests."""

from __future__ import annotations

from bub.base.diagnostics import Related, is_slip
from bub.base.globs import matcher
from bub.envelope import ADDRESS, FIELDS, add_address
from bub.pipeline.check.cases import Case
from bub.pipeline.plan.channels import channel_meant, known_channels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of

CODE = "B194"

_OF_A_TEST = (*ADDRESS, "sender_id")
"""The fields of a message that stay as the test gives them."""


def check(plan: Plan, case: Case) -> None:
    """Find empty lists of stages, answers behind a `raise`, and slips in what the message is made of."""
    for key in ("ran", "skipped"):
        said = case.node.get("expect", key)
        if said is not None and said.is_sequence and not said.elements():
            plan.findings.warn(
                CODE,
                f"{case} expects no stage to have {'run' if key == 'ran' else 'been skipped'}, which holds of any turn",
                said.where,
                path=f"{case.path}.expect.{key}",
                help="name the stages, or take it out",
            )
    _check_mocks(plan, case)
    _check_conditions(plan, case)
    _check_message(plan, case)


def _check_mocks(plan: Plan, case: Case) -> None:
    """Find mocks that answer and fail at once: only a stream can say something before it fails."""
    for name, mock in case.mocks():
        answer, error = mock.get("return"), mock.get("raise")
        stage = plan.stages[plan.position[name]] if name in plan.position else None
        point = stage.hook.point if stage is not None else None
        if answer is None or error is None or point is None or "stream" in point.kinds:
            continue
        plan.findings.warn(
            CODE,
            f"{case} mocks `{name}` with `return` and `raise`, but what fails returns nothing",
            answer.where,
            path=f"{case.path}.mock.{name}.return",
            help="take one of the two out",
        )


def _check_conditions(plan: Plan, case: Case) -> None:
    """Find mocks of stages that do not run for the message, unless the test says so: they are never asked."""
    skipped = {expected.stage for expected in case.expected_stages() if expected.key == "skipped"}
    message = case.node.get("message")
    fields = add_address(message.plain() if message is not None and message.is_mapping else {})
    for name, mock in case.mocks():
        stage = plan.stages[plan.position[name]] if name in plan.position and name not in skipped else None
        when = stage.node.get("when") if stage is not None and stage.each is None else None
        for field, node in when.items() if when is not None else ():
            glob, value = text_of(node), fields.get(field)
            if glob is None or field not in _OF_A_TEST or matcher(glob)(str(value)):
                continue
            plan.findings.warn(
                CODE,
                f"{case} mocks stage `{name}`, which does not run for its message: it asks for {field} `{glob}`",
                mock.where,
                path=f"{case.path}.mock.{name}",
                help=f"give the message such a {field}, or expect the stage in `skipped`",
                related=[Related("it is asked for here", node.place.file, node.place.range)],
            )
            break


def _check_message(plan: Plan, case: Case) -> None:
    """Find slips for a field of a message, or for a channel: the turn would be that of another message."""
    message = case.node.get("message")
    for name, node in message.items() if message is not None else ():
        meant = next((field for field in sorted(FIELDS) if is_slip(name, field)), None) if name not in FIELDS else None
        said, place, path = f"`{name}`", node.where, f"{case.path}.message.{name}"
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
