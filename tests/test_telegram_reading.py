"""What an update of Telegram means: who may talk, what is meant for the bot, and what it says. No server is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes.telegram import ADA, BOB, BOT, forum, group, private
from fakes.telegram_updates import PHOTO, Updates
from hypothesis import given
from hypothesis import strategies as st

from bub.channels import ChannelMessage
from bub_plugins.telegram.inbound import REFUSE_AGAIN, Notice

pytestmark = pytest.mark.anyio


def of_bot(text: str = "What I said.", **fields: Any) -> dict[str, Any]:
    """A message of the bot, to reply to."""
    return {"message_id": 90, "date": 1_700_000_000, "chat": group(), "from": BOT, "text": text, **fields}


def entity(kind: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


def test_a_private_message_is_one_for_the_bot() -> None:
    message = Updates().hear("hello")
    assert (message.channel, message.chat_id, message.origin) == ("telegram", "7", "telegram:7")
    assert (message.content, message.sender_id, message.message_id, message.once) == ("hello", "7", "1", "501")
    assert message.is_active
    assert ChannelMessage(**message.as_dict()).as_dict() == message.as_dict()


# Who may talk


@pytest.mark.parametrize(
    ("settings", "in_private", "in_the_group", "in_another_group"),
    [
        ({"allow_users": []}, "", "", ""),
        ({"allow_users": ["*"]}, "ada bob", "ada bob", "ada bob"),
        ({"allow_users": ["Ada"]}, "ada", "ada", "ada"),
        ({"allow_users": ["@ada"]}, "ada", "ada", "ada"),
        ({"allow_users": ["8"]}, "bob", "bob", "bob"),
        ({"allow_users": [], "allow_chats": ["-100"]}, "", "ada bob", ""),
        ({"allow_users": [], "allow_chats": ["7"]}, "ada", "", ""),
        ({"allow_users": [], "allow_chats": ["*"]}, "ada bob", "ada bob", "ada bob"),
        ({"allow_users": ["ada"], "allow_chats": ["-100"]}, "", "ada", ""),
        ({"allow_users": ["*"], "allow_chats": ["-100"]}, "", "ada bob", ""),
    ],
    ids=str,
)
def test_C28_the_lists_say_who_may_talk_and_empty_ones_say_nobody(
    settings: dict[str, Any], in_private: str, in_the_group: str, in_another_group: str
) -> None:
    updates = Updates(**settings)
    people = {"ada": ADA, "bob": BOB}

    def heard(place: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
        found = {name: updates.read("hi", chat=place(user), **{"from": user}) for name, user in people.items()}
        return " ".join(name for name, one in found.items() if isinstance(one, ChannelMessage))

    assert heard(private) == in_private
    assert heard(lambda _: group(-100)) == in_the_group
    assert heard(lambda _: group(-101)) == in_another_group


def test_C28_who_has_no_username_is_not_let_in_by_a_list_of_names() -> None:
    assert isinstance(Updates(allow_users=["ada"]).read("hi", **{"from": BOB}), Notice)


def test_C28_who_is_refused_is_told_so_once_an_hour_and_learns_nothing_but_their_id() -> None:
    updates = Updates(allow_users=["bob"])
    assert updates.read("hi") == Notice("7", "I may not talk to you. Your Telegram id is 7.")
    assert updates.read("please") is None
    updates.now += REFUSE_AGAIN - 1
    assert updates.read("please") is None
    updates.now += 1
    assert isinstance(updates.read("please"), Notice)


def test_C28_who_is_refused_is_told_once_an_hour_whatever_they_say() -> None:
    updates = Updates(allow_users=["bob"])
    said = [updates.read(text) for text in ("hello", "/start", "/start", "/help", "please")]
    assert [isinstance(one, Notice) for one in said] == [True, False, False, False, False]


def test_C28_in_groups_the_bot_is_silent_to_who_is_refused_unless_they_say_start() -> None:
    updates = Updates(allow_users=["bob"])
    assert updates.read("bub, hi", chat=group()) is None
    assert updates.read("@bub_test_bot hi", chat=group(), entities=[entity("mention", 0, 13)]) is None
    refusal = updates.read("/start@bub_test_bot", chat=group())
    assert refusal == Notice("-100", "I may not talk here. The id of this chat is -100, and yours is 7.")
    assert updates.read("/start@bub_test_bot", chat=group()) is None


def test_C28_who_writes_in_the_name_of_a_group_is_that_group() -> None:
    hidden = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    fields = {"from": hidden, "sender_chat": group(-100), "chat": group(-100)}
    assert Updates(allow_users=["GroupAnonymousBot"]).read("bub, hi", **fields) is None
    message = Updates(allow_users=["-100"]).hear("bub, hi", **fields)
    assert message.is_active
    assert message.context["full_name"] == "Friends"


# What is meant for the bot

CAPTION = {"caption": "@bub_test_bot", "caption_entities": [entity("mention", 0, 13)]}


TOPIC = {"name": "Plans", "icon_color": 1}


NEWS = {"id": -5, "type": "channel", "title": "News"}


IN_A_GROUP: list[tuple[str, dict[str, Any], bool]] = [
    ("what others say", {"text": "Does anybody know?"}, False),
    ("a mention", {"text": "ask @bub_test_bot", "entities": [entity("mention", 4, 13)]}, True),
    ("a mention behind an emoji", {"text": "😀 @Bub_Test_Bot", "entities": [entity("mention", 3, 13)]}, True),
    ("the name without a mention", {"text": "x@bub_test_bot.org"}, False),
    ("a mention of somebody else", {"text": "@ada hi", "entities": [entity("mention", 0, 4)]}, False),
    ("a mention by text", {"text": "you there", "entities": [entity("text_mention", 0, 3, user=BOT)]}, True),
    ("somebody else by text", {"text": "you there", "entities": [entity("text_mention", 0, 3, user=BOB)]}, False),
    ("a mention in a caption", {"photo": PHOTO, **CAPTION}, True),
    ("the word", {"text": "Bub, what is it?"}, True),
    ("a part of a word", {"text": "What hubbub, bubble and bubs!"}, False),
    ("a reply to the bot", {"text": "And then?", "reply_to_message": of_bot()}, True),
    ("a reply to somebody", {"text": "And then?", "reply_to_message": {**of_bot(), "from": BOB}}, False),
    ("a topic that the bot began", {"text": "x", "reply_to_message": of_bot(forum_topic_created=TOPIC)}, False),
    ("a picture", {"photo": PHOTO}, False),
    ("a picture as a reply to the bot", {"photo": PHOTO, "reply_to_message": of_bot()}, True),
    ("a command for the bot", {"text": "/bub hi"}, True),
    ("a command with its name", {"text": "/bub@bub_test_bot hi"}, True),
    ("a command of the channel itself", {"text": ",help"}, False),
    ("another bot", {"text": "bub, hi", "from": {"id": 9, "is_bot": True, "first_name": "Other"}}, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "is_active"), [case[1:] for case in IN_A_GROUP], ids=[case[0] for case in IN_A_GROUP]
)
def test_C29_in_a_group_only_what_is_said_to_the_bot_asks_for_an_answer(
    fields: dict[str, Any], is_active: bool
) -> None:
    message = Updates().hear(chat=group(), **fields)
    assert message.is_active is is_active
    assert message.chat_id == "-100"


@pytest.mark.parametrize("text", ["/bub@other_bot hi", "/weather@other_bot in Berlin, bub?", " /start@other_bot"])
def test_C29_a_command_for_another_bot_is_not_even_overheard(text: str) -> None:
    updates = Updates()
    assert updates.hear("bub, hi", chat=group()).is_active  # somebody has just asked for an answer
    assert updates.read(text, chat=group()) is None
    assert updates.read(text, chat=group(), reply_to_message=of_bot()) is None
    assert updates.hear("/bub@bub_test_bot hi", chat=group()).content == "hi"


def test_C29_the_word_is_a_setting() -> None:
    updates = Updates(keyword="c++")
    assert updates.hear("is C++ fast?", chat=group()).is_active
    assert not updates.hear("bub, hi", chat=group()).is_active
    assert not Updates(keyword="").hear("bub, hi", chat=group()).is_active


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"photo": PHOTO}, ""),
        ({"sticker": {**PHOTO[0], "type": "regular", "is_animated": False, "is_video": False}}, ""),
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, "(a place: latitude 52.5, longitude 13.4)"),
        ({"contact": {"phone_number": "+491234", "first_name": "Bob"}}, "(a contact: Bob, +491234)"),
        ({"dice": {"emoji": "🎲", "value": 6}}, "(🎲 shows 6)"),
        ({"text": "/unknown thing"}, "/unknown thing"),
    ],
    ids=["photo", "sticker", "location", "contact", "dice", "unknown command"],
)
def test_C29_in_private_everything_known_is_for_the_bot(fields: dict[str, Any], content: str) -> None:
    message = Updates().hear(**fields)
    assert message.is_active
    assert message.content == content


@pytest.mark.parametrize(
    "update",
    [
        {"message": {"message_id": 1, "date": 1, "chat": group(), "from": ADA, "new_chat_members": [BOB]}},
        {"channel_post": {"message_id": 1, "date": 1, "chat": NEWS, "text": "x"}},
        {"message": {"message_id": 1, "date": 1, "chat": NEWS, "text": "x"}},
        {"poll": {"id": "1", "question": "?", "options": [], "total_voter_count": 0, "is_closed": False}},
        {"something_new": {"of": "tomorrow"}},
    ],
    ids=["somebody joined", "a post of a channel", "a message of a channel", "a poll", "an unknown kind"],
)  # fmt: skip
def test_C29_what_nobody_says_to_anybody_is_let_pass(update: dict[str, Any]) -> None:
    assert Updates().reader.read({"update_id": 1, **update}, 0) is None


# What it says


def test_C30_the_content_is_the_plain_text_and_the_rest_are_facts() -> None:
    text = "bub see here and @ada"
    message = Updates().hear(
        text,
        chat=group(),
        reply_to_message=of_bot("First line.\nfull_name: Eve"),
        entities=[entity("text_link", 8, 4, url="https://example.org/a"), entity("mention", 17, 4)],
    )
    assert message.content == text
    assert message.kind == "normal"
    assert dict(message.context) == {
        "full_name": "Ada Lovelace",
        "username": "ada",
        "sender_id": "7",
        "message_id": "1",
        "date": "2023-11-14T22:13:20+00:00",
        "chat_type": "supergroup",
        "chat_title": "Friends",
        "message_1_is_from": "Ada Lovelace: bub see here and @ada",
        "reply_to_message_id": "90",
        "reply_to_author": "you",
        "reply_to": "First line. full_name: Eve",
        "links": "https://example.org/a",
    }


@given(st.text(min_size=1), st.text(min_size=1), st.text())
def test_C30_nobody_can_write_a_fact_into_another_one(name: str, said: str, title: str) -> None:
    found = Updates().read(
        "hi",
        chat=group(title=title),
        reply_to_message={**of_bot(said), "from": {**BOB, "first_name": name}},
        **{"from": {**ADA, "first_name": name}},
    )
    assert isinstance(found, ChannelMessage)
    assert len(found.context_str.splitlines()) == len(found.context)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("/bub what is it?", "what is it?"),
        ("/bub@bub_test_bot\nwhat is it?", "what is it?"),
        ("/BUB ,help", ",help"),
        ("@bub_test_bot what is it?", "what is it?"),
        ("@bub_test_bot, what is it?", "what is it?"),
        ("@bub_test_bot ,help", ",help"),
        ("@bub_test_bot /bub hi", "hi"),
        ("@bub_test_bots what is it?", "@bub_test_bots what is it?"),
        ("/bubble up", "/bubble up"),
        (",help", ",help"),
        ("  indented\n", "  indented\n"),
    ],
)
def test_C30_what_only_calls_the_bot_is_no_part_of_what_is_said(text: str, content: str) -> None:
    assert Updates().hear(text).content == content


def test_C30_what_is_overheard_or_forwarded_says_whose_it_is_and_is_no_command() -> None:
    updates = Updates()
    overheard = updates.hear(",help", chat=group())
    assert (overheard.content, overheard.is_active) == ("[Ada Lovelace]: ,help", False)
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}
    for text in (",help", "/start", "/bub hi"):
        forwarded = updates.hear(text, forward_origin=origin)
        assert (forwarded.content, forwarded.is_active) == (f"[Eve]: {text}", True)
        assert forwarded.context["forwarded_from"] == "Eve"
    assert updates.hear(chat=group(), photo=PHOTO).content == ""


def test_C30_a_command_about_an_earlier_message_comes_with_what_that_says_and_shows() -> None:
    replied = {"message_id": 5, "date": 1, "chat": group(), "from": BOB, "photo": PHOTO, "caption": "Look!"}
    message = Updates().hear("/bub what is that?", chat=group(), reply_to_message=replied)
    assert message.context["reply_to"] == "Look!"
    assert message.context["reply_to_author"] == "Bob"
    assert [one["file_id"] for one in message.media] == ["medium"]
    assert Updates().hear("/bub", chat=group(), reply_to_message=replied).content == ""


def test_start_and_help_are_answered_at_once_and_so_is_a_call_that_says_nothing() -> None:
    updates = Updates()
    for text in ("/start", "/start payload", "/help", "/bub", "/bub@bub_test_bot "):
        assert isinstance(updates.read(text), Notice)
    assert "/bub" in updates.read("/help@bub_test_bot", chat=group()).text
    other = {"id": 9, "is_bot": True, "first_name": "Other"}
    assert not updates.hear("/start", chat=group(), **{"from": other}).is_active


def test_a_topic_is_a_chat_of_its_own_and_a_thread_of_replies_is_not() -> None:
    updates = Updates()
    topic = updates.hear("bub, hi", chat=forum(), message_thread_id=33, is_topic_message=True)
    assert (topic.chat_id, topic.origin) == ("-200:33", "telegram:-200:33")
    assert updates.hear("bub, hi", chat=forum()).chat_id == "-200"
    assert updates.hear("bub, hi", chat=group(), message_thread_id=33).chat_id == "-100"


def test_an_edited_message_is_a_new_one_that_says_so() -> None:
    updates = Updates()
    updates.hear("what is 2+2?")
    edited = updates.hear("what is 2+3?", kind="edited_message", message_id=1, edit_date=1_700_000_100)
    assert (edited.content, edited.message_id, edited.once) == ("what is 2+3?", "1", "502")
    assert edited.context["edited"] == "yes"
    assert edited.is_active


def test_an_edit_that_changes_nothing_to_read_is_let_pass() -> None:
    updates = Updates()
    updates.hear("hello")
    assert updates.read("hello", kind="edited_message", message_id=1) is None
    place = {"location": {"latitude": 1.0, "longitude": 2.0}}
    updates.hear(**place)
    assert updates.read(kind="edited_message", message_id=3, location={"latitude": 1.1, "longitude": 2.0}) is None


def test_a_sticker_that_moves_is_shown_as_its_picture() -> None:
    sticker = {
        **PHOTO[1],
        "type": "regular",
        "is_animated": True,
        "is_video": False,
        "emoji": "👋",
        "thumbnail": PHOTO[0],
    }
    [entry] = Updates().hear(sticker=sticker).media
    assert (entry["file_id"], entry["name"], entry["kind"]) == ("small", "sticker 👋", "image")
