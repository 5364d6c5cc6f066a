"""The rules about schedules: each mistake is one finding at its place, and its mended twin is none."""

from __future__ import annotations

import pytest
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, said

GOOD = 'cron: "0 8 * * 1-5", timezone: Europe/Berlin, message: hi, session: "telegram:7"'
TELEGRAM = "extends: bub:default\nprofiles: {default: {plugins: [telegram]}}\n"

MISTAKES = [
    Mistake(
        "B241",
        f'{TELEGRAM}schedules: {{«morning»: {{cron: "0 8 * * *"}}}}',
        "schedule `morning` has no `message` or `session`",
        "write when it fires (`cron`), which session gets the message (`session`), and the `message`",
        ('"0 8 * * *"', '"0 8 * * *", message: hi, session: "telegram:7"'),
    ),
    Mistake(
        "B241",
        f'{TELEGRAM}schedules: {{morning: {{cron: «"0 25 * * *"», message: hi, session: "telegram:7"}}}}',
        "schedule `morning`: `25` is no hour of a cron expression",
        "write a number, `*`, a list `1,15`, a range `1-5`, or a step `*/5`",
        ("0 25", "0 15"),
    ),
    Mistake(
        "B241",
        f"{TELEGRAM}schedules: {{morning: {{{GOOD.replace('Europe/Berlin', '«Europe/Berln»')}}}}}",
        "schedule `morning`: there is no time zone `Europe/Berln`",
        "did you mean `Europe/Berlin`?",
        ("Berln", "Berlin"),
    ),
    Mistake(
        "B242",
        f'{TELEGRAM}schedules: {{morning: {{cron: «"0 8 31 2 *"», message: hi, session: "telegram:7"}}}}',
        "schedule `morning`: `0 8 31 2 *` never fires: no day is like that",
        "choose a day that the month has",
        ("31 2", "28 2"),
    ),
    Mistake(
        "B243",
        f"{TELEGRAM}schedules: {{morning: {{{GOOD.replace(chr(34) + 'telegram:7' + chr(34), '«telegrm:7»')}}}}}",
        "schedule `morning` speaks to channel `telegrm`, but Bub knows no channel of that name",
        "did you mean `telegram:7`?",
        ("telegrm:7", "telegram:7"),
        severity="warning",
    ),
    Mistake(
        "B243",
        f"{TELEGRAM}schedules: {{morning: {{{GOOD.replace(chr(34) + 'telegram:7' + chr(34), '«cli:local»')}}}}}",
        "schedule `morning` speaks to channel `cli`, but no gateway runs this channel",
        "name a chat of a channel that a gateway runs, such as `telegram:4711`",
        ("cli:local", "telegram:7"),
        severity="warning",
    ),
    Mistake(
        "B243",
        "extends: bub:default\nprofiles: {default: {plugins: [telegram], channels: [http]}}\n"
        'schedules: {morning: {cron: "0 8 * * *", message: hi, session: «"telegram:7"»}}',
        "schedule `morning` speaks to channel `telegram`, which profile `default` does not open",
        "list `telegram` in the `channels` of the profile, or switch the schedule off there",
        ("[http]", "[telegram]"),
        severity="warning",
    ),
    Mistake(
        "B162",
        f"{TELEGRAM}schedules: {{morning: {{{GOOD}, profile: «quite»}}}}",
        "schedule `morning` is for profile `quite`, which does not exist",
        "add `quite` under `profiles:`, or name a profile that exists",
        ("quite", "default"),
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one.code} {one.message[:50]}")
def test_a_mistake_is_one_finding_and_its_twin_none(mistake: Mistake) -> None:
    assert_is_found(mistake)


VALID = [
    f"schedules: {{morning: {{{GOOD}}}}}",
    'schedules: {morning: {cron: "0 8 * * *", message: hi, session: "${env:CHAT}"}}',
    'schedules: {morning: {cron: "${env:WHEN:-0 8 * * *}", message: hi, session: "telegram:7"}}',
    # Only what is said in the end counts, and what is off is not asked.
    'schedules: {morning: {message: hi, session: "telegram:7"}}\n'
    'profiles: {default: {plugins: [telegram], schedules: {morning: {cron: "0 8 * * *"}}}}',
    'schedules: {morning: {cron: "0 8 31 2 *", enabled: false}}',
    # A profile that only a schedule leads to is reached.
    f"schedules: {{morning: {{{GOOD}, profile: quiet}}}}\nroutes: [{{match: {{}}, profile: default}}]\n"
    "profiles: {default: {plugins: [telegram]}, quiet: {extends: default}}",
]


@pytest.mark.parametrize("text", VALID)
def test_what_is_right_is_let_through(text: str) -> None:
    head = "extends: bub:default\n" if "profiles:" in text else TELEGRAM
    assert said(check(f"{VERSION}{head}{text}")) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('message: " "', "`message` of `morning` of `schedules` must say something"),
        ("session: telegram", "`session` of `morning` of `schedules` must be a channel and a chat"),
        ("catch_up: all", "must be `none` or `last`, not `all`"),
        ("every: day", "`every` is not known"),
    ],
)
def test_the_schema_knows_the_keys(wrong: str, message: str) -> None:
    key = wrong.partition(":")[0]
    good = {"cron": '"0 8 * * *"', "message": "hi", "session": '"telegram:7"'}
    entries = ", ".join([*(f"{name}: {value}" for name, value in good.items() if name != key), wrong])
    found = said(check(f"{VERSION}{TELEGRAM}schedules: {{morning: {{{entries}}}}}"))
    assert len(found) == 1
    assert message in found[0] or key == "every"
