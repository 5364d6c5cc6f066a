"""A Bot API server to test against, written after the public documentation of the Telegram Bot API, in a process alone.

Run it as `python telegram_server.py STATE [PORT [HOST]]`; it prints its address and lives until its stdin closes. What
it knows lies in the SQLite file STATE, so it can be killed at any moment and started again, on the same PORT, where it
was. Its one bot is `BOT` with the token `TOKEN`.

Bots speak to it below `/bot<token>/`, tests below `/control/` (JSON in, JSON out); `fakes/telegram.py` does both:

    POST messages   [{"chat": …, "from": …, "text": …}, …]  people write; `edits: ID` edits an earlier one, `raw: {…}`
                    is put into the update instead of a message. Returns the updates.
    POST press      {"chat": ID, "message_id": ID, "data": …, "from": …}   somebody presses a button
    POST file       {"name": …, "data": base64, "size_known": false}   a file of somebody's; returns its `file_id`
    GET  chat?id=…  every message of a chat in order: {"message": …, "history": [each form it had], "deleted": …}
    GET  pending    the updates that are not confirmed
    GET  calls?method=…   what the bot called: {"n", "method", "at", "params", "connection"}; without a method, all but
                    getUpdates; `after=N`: those with a greater `n`
    GET  polls      how many calls of getUpdates wait now
    GET  wait?after=N     the number of changes so far, once it is above N, or after `LONGEST_WAIT` seconds
    POST fault      {"method": "sendMessage" or "*", "times": 1, "do": ACTION, "given": "entities"}   the next such
                    calls go wrong; with `given`, those that have this parameter
    POST forgive    {}   no faults are left
    POST weather    {"share": 0.1, "seed": 1, "do": {"sendMessage": [ACTION, …], "*": […]}}   so many of all calls go
                    wrong, each in one of the ways that its method has; a share of 0 is good weather again
    POST redeliver  {"last": N}   the last N updates that were confirmed come again, as old ones do after an outage
    POST limits     {"chat_interval": 1.0, "per_second": 30}   flood limits, in seconds and messages; 0 is none
    POST together   {}   the messages of all private chats have one count, as Telegram has for a bot
    POST chat       {"id": ID, "status": "blocked" | "gone" | "open"}
    POST webhook    {"url": …}   the bot has a webhook, so it cannot poll
    POST revoke     {"token": "another"}   the token is this one from now on
    POST renumber   {"next": N}   the next update has this number
    POST reset      {}   forget everything

An ACTION: {"status": 500, "description": …, "parameters": {…}} is an error of the API; {"body": "<html>", "status":
502} an answer that is no JSON; {"cut": "before"} ends the connection with nothing done, {"cut": "after"} when it is
done but not yet answered, {"cut": "within"} in the middle of the answer; {"hold": true} never answers; {"slow": 3}
takes so many seconds before it is done, whether somebody waits or not, and {"late": 3} after it, before it is answered.

It is stricter than the real one where that finds mistakes (UTF-16 lengths, bounds of entities), knows no `parse_mode`,
and forgets nothing.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import select
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKEN = "4242:TEST-token_of-a-bot"
BOT = {"id": 4242, "is_bot": True, "first_name": "Bub", "username": "bub_test_bot"}
ADA = {"id": 7, "is_bot": False, "first_name": "Ada", "last_name": "Lovelace", "username": "ada"}
LONGEST_WAIT = 10.0
LONGEST_POLL = 50.0
LARGEST_DOWNLOAD = 20 * 1024 * 1024

_UPDATE_KINDS = ("message", "edited_message", "callback_query")
_ENTITIES = {
    *("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold", "italic", "underline"),
    *("strikethrough", "spoiler", "blockquote", "expandable_blockquote", "code", "pre", "text_link", "text_mention"),
    "custom_emoji",
}
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current content"
    " and reply markup of the message"
)
_TERMINATED = "terminated by other getUpdates request; make sure that only one bot instance is running"
_HOOKED = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"

Params = dict[str, Any]


class ApiError(Exception):
    """What the API answers instead of a result."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        names = {400: "Bad Request: ", 403: "Forbidden: ", 409: "Conflict: ", 429: "Too Many Requests: "}
        super().__init__(names.get(code, "") + description)
        self.code = code
        self.parameters = parameters


def bad(description: str) -> ApiError:
    return ApiError(400, description)


# What is known


class State:
    """Everything that the server knows, on disk; whoever reads or changes it holds `changed`."""

    def __init__(self, path: str) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.changes = 0
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = OFF;  -- the process is killed in tests, not the machine
            CREATE TABLE IF NOT EXISTS values_ (name TEXT PRIMARY KEY, body TEXT);
            CREATE TABLE IF NOT EXISTS chats (id INTEGER PRIMARY KEY, body TEXT, status TEXT, last INTEGER);
            CREATE TABLE IF NOT EXISTS topics (chat INTEGER, id INTEGER, PRIMARY KEY (chat, id));
            CREATE TABLE IF NOT EXISTS updates (id INTEGER PRIMARY KEY, body TEXT);
            CREATE TABLE IF NOT EXISTS confirmed (id INTEGER PRIMARY KEY, body TEXT);
            CREATE TABLE IF NOT EXISTS messages (
                chat INTEGER, id INTEGER, body TEXT, history TEXT, deleted INTEGER DEFAULT 0, PRIMARY KEY (chat, id));
            CREATE TABLE IF NOT EXISTS files (id TEXT PRIMARY KEY, name TEXT, size_known INTEGER, data BLOB);
            CREATE TABLE IF NOT EXISTS calls (n INTEGER PRIMARY KEY, method TEXT, at REAL, params TEXT, port INTEGER);
            CREATE TABLE IF NOT EXISTS faults (n INTEGER PRIMARY KEY, method TEXT, times INTEGER, action TEXT);
            """
        )
        self.chance = random.Random()
        self.again: list[dict[str, Any]] = []
        self.polls = 0
        self.newest_poll = 0
        self.resets = 0

    def close(self) -> None:
        self.db.close()

    def note(self) -> None:
        """Wake whoever waits for a change."""
        self.changes += 1
        self.changed.notify_all()

    def get(self, name: str, default: Any) -> Any:
        row = self.db.execute("SELECT body FROM values_ WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else default

    def set(self, name: str, value: Any) -> None:
        self.db.execute("REPLACE INTO values_ VALUES (?, ?)", (name, json.dumps(value)))

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.db.execute(query, values).fetchall()

    # Chats and messages

    def meet(self, chat: Mapping[str, Any]) -> None:
        """Know a chat, as a bot does once somebody wrote there."""
        self.db.execute("INSERT OR IGNORE INTO chats VALUES (?, ?, 'open', 0)", (chat["id"], json.dumps(chat)))

    def chat(self, chat_id: Any) -> dict[str, Any]:
        """A chat that the bot may write to."""
        try:
            known = self.rows("SELECT body, status FROM chats WHERE id = ?", int(chat_id))
        except (TypeError, ValueError):
            known = []
        if not known or known[0][1] == "gone":
            raise bad("chat not found")
        if known[0][1] == "blocked":
            raise ApiError(403, "bot was blocked by the user")
        found: dict[str, Any] = json.loads(known[0][0])
        return found

    def write(self, chat: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """A new message in a chat."""
        which = "id > 0" if chat["id"] > 0 and self.get("together", False) else f"id = {int(chat['id'])}"
        [(last,)] = self.rows(f"SELECT max(last) FROM chats WHERE {which}")
        message = {"message_id": last + 1, "date": int(time.time()), "chat": dict(chat), **fields}
        self.db.execute("UPDATE chats SET last = ? WHERE id = ?", (message["message_id"], chat["id"]))
        if thread := message.get("message_thread_id"):
            self.db.execute("INSERT OR IGNORE INTO topics VALUES (?, ?)", (chat["id"], thread))
        body = json.dumps(message)
        self.db.execute(
            "INSERT INTO messages (chat, id, body, history) VALUES (?, ?, ?, ?)",
            (chat["id"], message["message_id"], body, json.dumps([message])),
        )
        return message

    def message(self, chat_id: int, message_id: Any) -> dict[str, Any] | None:
        try:
            number = int(message_id)
        except (TypeError, ValueError):
            return None
        found = self.rows("SELECT body FROM messages WHERE chat = ? AND id = ? AND NOT deleted", chat_id, number)
        return json.loads(found[0][0]) if found else None

    def rewrite(self, message: dict[str, Any]) -> None:
        """Another form of a message."""
        key = (message["chat"]["id"], message["message_id"])
        [(history,)] = self.rows("SELECT history FROM messages WHERE chat = ? AND id = ?", *key)
        self.db.execute(
            "UPDATE messages SET body = ?, history = ? WHERE chat = ? AND id = ?",
            (json.dumps(message), json.dumps([*json.loads(history), message]), *key),
        )

    # Updates

    def update(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A new update for the bot."""
        number = self.get("last_update", 1000) + 1
        self.set("last_update", number)
        update = {"update_id": number, **body}
        self.db.execute("INSERT INTO updates VALUES (?, ?)", (number, json.dumps(update)))
        return update

    def confirm(self, offset: int) -> None:
        """Forget the updates before a number, but for who wants them again."""
        self.db.execute("REPLACE INTO confirmed SELECT * FROM updates WHERE id < ?", (offset,))
        self.db.execute("DELETE FROM updates WHERE id < ?", (offset,))

    # What goes wrong

    def next_fault(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What is to go wrong with a call; nothing if it is empty."""
        for n, action in self.rows(
            "SELECT n, action FROM faults WHERE method IN (?, '*') AND times > 0 ORDER BY n", method
        ):
            fault: dict[str, Any] = json.loads(action)
            if not fault["given"] or params.get(fault["given"]):
                self.db.execute("UPDATE faults SET times = times - 1 WHERE n = ?", (n,))
                return dict(fault["do"])
        weather = self.get("weather", {"share": 0, "do": {}})
        ways = weather["do"].get(method, weather["do"].get("*"))
        return dict(self.chance.choice(ways)) if ways and self.chance.random() < weather["share"] else {}

    # Files

    def keep_file(self, name: str, data: bytes, size_known: bool = True) -> dict[str, Any]:
        number = self.get("last_file", 0) + 1
        self.set("last_file", number)
        self.db.execute("INSERT INTO files VALUES (?, ?, ?, ?)", (f"file-{number}", name, size_known, data))
        sized = {"file_size": len(data)} if size_known else {}
        return {"file_id": f"file-{number}", "file_unique_id": f"unique-{number}", **sized}


# What the bot can call


class Api:
    """The methods of the Bot API; each takes the parameters and returns the `result`."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.sent: list[tuple[float, int]] = []

    def find(self, method: str) -> Callable[[Params], Any] | None:
        """The method of a name; the real API does not mind its case."""
        verbs = ("get", "set", "send", "delete", "edit", "answer")
        known = {name.lower(): name for name in dir(self) if name.startswith(verbs)}
        return getattr(self, known.get(method.lower(), ""), None)

    def getMe(self, params: Params) -> Any:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": True, "supports_inline_queries": False}

    def deleteWebhook(self, params: Params) -> bool:
        self.state.set("webhook", "")
        if _is_true(params.get("drop_pending_updates")):
            self.state.db.execute("DELETE FROM updates")
        return True

    def getWebhookInfo(self, params: Params) -> Any:
        [(waiting,)] = self.state.rows("SELECT COUNT(*) FROM updates")
        return {"url": self.state.get("webhook", ""), "has_custom_certificate": False, "pending_update_count": waiting}

    def setMyCommands(self, params: Params) -> bool:
        commands = _json(params, "commands")
        if not isinstance(commands, list) or not all({"command", "description"} <= set(one) for one in commands):
            raise bad("can't parse commands")
        if not all(one["command"].strip("abcdefghijklmnopqrstuvwxyz0123456789_") == "" for one in commands):
            raise bad("BOT_COMMAND_INVALID")
        self.state.set("commands", commands)
        return True

    def getMyCommands(self, params: Params) -> Any:
        return self.state.get("commands", [])

    def sendChatAction(self, params: Params) -> bool:
        self.state.chat(params.get("chat_id"))
        if params.get("action") not in ("typing", "upload_photo", "upload_document", "record_voice", "upload_voice"):
            raise bad("wrong parameter action in request")
        return True

    def getChat(self, params: Params) -> Any:
        return self.state.chat(params.get("chat_id"))

    def sendMessage(self, params: Params) -> Any:
        text, entities = _text(params, "text", "entities", 4096)
        if not text:
            raise bad("message text is empty")
        return self._send(params, {"text": text, **({"entities": entities} if entities else {})})

    def sendPhoto(self, params: Params) -> Any:
        return self._send(params, self._media(params, "photo"))

    def sendDocument(self, params: Params) -> Any:
        return self._send(params, self._media(params, "document"))

    def sendVoice(self, params: Params) -> Any:
        return self._send(params, self._media(params, "voice"))

    def sendVideo(self, params: Params) -> Any:
        return self._send(params, self._media(params, "video"))

    def sendAudio(self, params: Params) -> Any:
        return self._send(params, self._media(params, "audio"))

    def sendAnimation(self, params: Params) -> Any:
        return self._send(params, self._media(params, "animation"))

    def sendMediaGroup(self, params: Params) -> Any:
        items = _json(params, "media")
        if not isinstance(items, list) or not 2 <= len(items) <= 10:
            raise bad("wrong number of items in the album")
        group = {"media_group_id": f"group-{self.state.get('last_file', 0)}"}
        fields = [{**self._media({**params, **one, one["type"]: one["media"]}, one["type"]), **group} for one in items]
        return [self._send(params, one, flood=at == 0) for at, one in enumerate(fields)]

    def editMessageText(self, params: Params) -> Any:
        message = self._own(params, "edit")
        text, entities = _text(params, "text", "entities", 4096)
        if not text:
            raise bad("message text is empty")
        if "text" not in message:
            raise bad("there is no text in the message to edit")
        return self._edit(message, params, {"text": text, "entities": entities})

    def editMessageCaption(self, params: Params) -> Any:
        message = self._own(params, "edit")
        caption, entities = _text(params, "caption", "caption_entities", 1024)
        return self._edit(message, params, {"caption": caption, "caption_entities": entities})

    def editMessageReplyMarkup(self, params: Params) -> Any:
        return self._edit(self._own(params, "edit"), params, {})

    def deleteMessage(self, params: Params) -> bool:
        message = self._own(params, "delete")
        self.state.db.execute(
            "UPDATE messages SET deleted = 1 WHERE chat = ? AND id = ?", (message["chat"]["id"], message["message_id"])
        )
        return True

    def answerCallbackQuery(self, params: Params) -> bool:
        known = self.state.get("queries", [])
        if params.get("callback_query_id") not in known:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        self.state.set("queries", [one for one in known if one != params["callback_query_id"]])
        return True

    def getFile(self, params: Params) -> Any:
        found = self.state.rows("SELECT name, size_known, length(data) FROM files WHERE id = ?", params.get("file_id"))
        if not found:
            raise bad("wrong file_id or the file is temporarily unavailable")
        name, size_known, size = found[0]
        if size > LARGEST_DOWNLOAD:
            raise bad("file is too big")
        number = params["file_id"].removeprefix("file-")
        known = {"file_size": size} if size_known else {}
        file = {"file_id": params["file_id"], "file_unique_id": f"unique-{number}", "file_path": f"{number}/{name}"}
        return file | known

    # Parts of them

    def _send(self, params: Params, fields: dict[str, Any], *, flood: bool = True) -> dict[str, Any]:
        chat = self.state.chat(params.get("chat_id"))
        known = {"from": BOT, **fields}
        if thread := params.get("message_thread_id"):
            if not self.state.rows("SELECT 1 FROM topics WHERE chat = ? AND id = ?", chat["id"], int(thread)):
                raise bad("message thread not found")
            known |= {"message_thread_id": int(thread), "is_topic_message": True}
        if reply := _json(params, "reply_parameters"):
            replied = self.state.message(chat["id"], reply.get("message_id"))
            if replied:
                known["reply_to_message"] = replied
            elif not reply.get("allow_sending_without_reply"):
                raise bad("message to be replied not found")
        if markup := _json(params, "reply_markup"):
            known["reply_markup"] = markup
        if flood:
            self._obey_limits(chat["id"])
        return self.state.write(chat, known)

    def _own(self, params: Params, verb: str) -> dict[str, Any]:
        chat = self.state.chat(params.get("chat_id"))
        message = self.state.message(chat["id"], params.get("message_id"))
        if message is None:
            raise bad(f"message to {verb} not found")
        if message["from"]["id"] != BOT["id"]:
            raise bad(f"message can't be {verb.removesuffix('e')}ed")
        return message

    def _edit(self, message: dict[str, Any], params: Params, fields: dict[str, Any]) -> dict[str, Any]:
        edited = {**message, **fields, "reply_markup": _json(params, "reply_markup")}
        edited = {name: value for name, value in edited.items() if value or name not in (*fields, "reply_markup")}
        if edited == message:
            raise bad(_NOT_MODIFIED)
        self._obey_limits(message["chat"]["id"])
        edited["edit_date"] = int(time.time())
        self.state.rewrite(edited)
        return edited

    def _media(self, params: Params, kind: str) -> dict[str, Any]:
        caption, entities = _text(params, "caption", "caption_entities", 1024)
        given = params.get(kind)
        if isinstance(given, str) and given.startswith("attach://"):
            given = params.get(given.removeprefix("attach://"))
        if isinstance(given, tuple):
            name, mime, data = given
            known = self.state.keep_file(name, data)
        else:
            found = self.state.rows("SELECT name, data FROM files WHERE id = ?", given)
            if not found:
                raise bad("wrong file identifier/HTTP URL specified")
            name, data, mime = *found[0], "application/octet-stream"
            known = {"file_id": given, "file_unique_id": given.replace("file", "unique"), "file_size": len(data)}
        if not data:
            raise bad("file must be non-empty")
        fields: dict[str, Any] = {"photo": [{**known, "width": 90, "height": 90}]}
        if kind != "photo":
            seen = {"width": 90, "height": 90} if kind in ("video", "animation") else {}
            fields = {kind: {**known, **seen, "file_name": name, "mime_type": mime, "duration": 1}}
        return fields | ({"caption": caption} if caption else {}) | ({"caption_entities": entities} if entities else {})

    def _obey_limits(self, chat: int) -> None:
        limits = self.state.get("limits", {})
        interval, most = limits.get("chat_interval", 0), limits.get("per_second", 0)
        now = time.monotonic()
        self.sent = [(at, where) for at, where in self.sent if now - at < max(interval, 1.0)]
        here = [at for at, where in self.sent if where == chat and now - at < interval]
        in_all = [at for at, _ in self.sent if now - at < 1.0]
        if here or (most and len(in_all) >= most):
            seconds = max(1, int(interval)) if here else 1
            raise ApiError(429, f"retry after {seconds}", retry_after=seconds)
        self.sent.append((now, chat))


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def _json(params: Params, name: str) -> Any:
    given = params.get(name)
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        raise bad(f"can't parse {name}: not JSON") from None


def units(text: str) -> int:
    """The length of a text as Telegram counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _text(params: Params, name: str, entities_name: str, most: int) -> tuple[str, list[dict[str, Any]]]:
    """A text of the bot and its entities, checked."""
    text = str(params.get(name) or "")
    if params.get("parse_mode"):
        raise bad("unsupported parse_mode")
    if units(text) > most:
        raise bad("message is too long" if name == "text" else "message caption is too long")
    entities = _json(params, entities_name) or []
    raw = text.encode("utf-16-le", "surrogatepass")
    for one in entities:
        start, length = one.get("offset"), one.get("length")
        if one.get("type") not in _ENTITIES:
            raise bad(f"can't parse entities: unsupported type {one.get('type')}")
        if not isinstance(start, int) or not isinstance(length, int) or start < 0 or length <= 0:
            raise bad("can't parse entities: wrong bounds")
        if start + length > len(raw) // 2:
            raise bad("can't parse entities: ENTITY_BOUNDS_INVALID")
        try:
            raw[start * 2 : (start + length) * 2].decode("utf-16-le")
        except UnicodeError:
            raise bad("can't parse entities: an entity cuts a character") from None
        if one["type"] == "text_link" and "://" not in one.get("url", "") and ":" not in one.get("url", ""):
            raise bad("can't parse entities: wrong url")
    return text.strip() and text, entities


# What tests can say


class Control:
    """What tests tell the server and ask it; each takes the JSON or the query that was sent, and returns JSON."""

    def __init__(self, state: State) -> None:
        self.state = state

    def messages(self, given: list[dict[str, Any]]) -> Any:
        return [self._say(dict(one)) for one in given]

    def _say(self, given: dict[str, Any]) -> Any:
        if "raw" in given:
            return self.state.update(given["raw"])
        chat = given.pop("chat")
        self.state.meet(chat)
        fields = {"from": ADA, **given}
        if reply := fields.pop("reply_to", None):
            fields["reply_to_message"] = self.state.message(chat["id"], reply)
        if edits := fields.pop("edits", None):
            earlier = self.state.message(chat["id"], edits) or {}
            message = {**earlier, **fields, "edit_date": int(time.time())}
            self.state.rewrite(message)
            return self.state.update({"edited_message": message})
        return self.state.update({"message": self.state.write(chat, fields)})

    def press(self, given: dict[str, Any]) -> Any:
        number = self.state.get("last_query", 0) + 1
        self.state.set("last_query", number)
        self.state.set("queries", [*self.state.get("queries", []), str(number)])
        message = self.state.message(given["chat"], given["message_id"])
        query = {"id": str(number), "from": given.get("from", ADA), "message": message, "data": given["data"]}
        return self.state.update({"callback_query": {**query, "chat_instance": "1"}})

    def file(self, given: dict[str, Any]) -> Any:
        data = base64.b64decode(given["data"])
        return self.state.keep_file(given["name"], data, given.get("size_known", True))

    def chat(self, given: dict[str, Any]) -> Any:
        if "status" in given:
            self.state.db.execute("UPDATE chats SET status = ? WHERE id = ?", (given["status"], given["id"]))
            return True
        found = self.state.rows("SELECT body, history, deleted FROM messages WHERE chat = ? ORDER BY id", given["id"])
        return [
            {"message": json.loads(body), "history": json.loads(history), "deleted": bool(deleted)}
            for body, history, deleted in found
        ]

    def pending(self, given: dict[str, Any]) -> Any:
        return [json.loads(body) for (body,) in self.state.rows("SELECT body FROM updates ORDER BY id")]

    def calls(self, given: dict[str, Any]) -> Any:
        query, values = "method != 'getUpdates'", list[Any]()
        if "method" in given:
            query, values = "method = ?", [given["method"]]
        values.append(int(given.get("after", 0)))
        found = self.state.rows(
            f"SELECT n, method, at, params, port FROM calls WHERE {query} AND n > ? ORDER BY n", *values
        )
        return [
            {"n": n, "method": method, "at": at, "params": json.loads(params), "connection": port}
            for n, method, at, params, port in found
        ]

    def polls(self, given: dict[str, Any]) -> Any:
        return self.state.polls

    def fault(self, given: dict[str, Any]) -> Any:
        self.state.db.execute(
            "INSERT INTO faults (method, times, action) VALUES (?, ?, ?)",
            (given["method"], given.get("times", 1), json.dumps({"do": given["do"], "given": given.get("given", "")})),
        )
        return True

    def forgive(self, given: dict[str, Any]) -> Any:
        self.state.db.execute("DELETE FROM faults")
        return True

    def weather(self, given: dict[str, Any]) -> Any:
        self.state.set("weather", given)
        self.state.chance = random.Random(given.get("seed"))
        return True

    def redeliver(self, given: dict[str, Any]) -> Any:
        last = self.state.rows("SELECT body FROM confirmed ORDER BY id DESC LIMIT ?", given["last"])
        self.state.again = [json.loads(body) for (body,) in reversed(last)]
        return True

    def limits(self, given: dict[str, Any]) -> Any:
        self.state.set("limits", given)
        return True

    def together(self, given: dict[str, Any]) -> Any:
        self.state.set("together", True)
        return True

    def webhook(self, given: dict[str, Any]) -> Any:
        self.state.set("webhook", given["url"])
        return True

    def revoke(self, given: dict[str, Any]) -> Any:
        self.state.set("token", given["token"])
        return True

    def renumber(self, given: dict[str, Any]) -> Any:
        self.state.set("last_update", given["next"] - 1)
        return True

    def reset(self, given: dict[str, Any]) -> Any:
        tables = ("values_", "chats", "topics", "updates", "confirmed", "messages", "files", "calls", "faults")
        for table in tables:
            self.state.db.execute(f"DELETE FROM {table}")
        self.state.resets += 1
        return True


# Over HTTP


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: State
    api: Api
    control: Control

    def setup(self) -> None:
        super().setup()
        self.resets = self.state.resets

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.handle_one()

    def do_POST(self) -> None:
        self.handle_one()

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        with contextlib.suppress(OSError):
            if parts.path.startswith("/control/"):
                self.answer_test(parts.path.removeprefix("/control/"), dict(parse_qsl(parts.query)), body)
            elif parts.path.startswith("/file/bot"):
                self.answer_download(parts.path.removeprefix("/file/bot"))
            elif parts.path.startswith("/bot"):
                token, _, method = parts.path.removeprefix("/bot").partition("/")
                self.answer_bot(token, method, {**dict(parse_qsl(parts.query)), **self.read_params(body)})
            else:
                self.respond_json(404, {"ok": False, "error_code": 404, "description": "Not Found"})
            return
        self.close_connection = True

    def read_params(self, body: bytes) -> Params:
        kind = self.headers.get("content-type") or ""
        if not body:
            return {}
        if kind.startswith("application/json"):
            return dict(json.loads(body))
        if not kind.startswith("multipart/form-data"):
            return dict(parse_qsl(body.decode(), keep_blank_values=True))
        whole = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body, policy=policy.HTTP)
        params: Params = {}
        for part in whole.iter_parts():  # type: ignore[attr-defined]
            name = part.get_param("name", header="content-disposition")
            data = part.get_payload(decode=True) or b""
            file = part.get_filename()
            params[name] = (file, part.get_content_type(), data) if file is not None else data.decode()
        return params

    # Bots

    def answer_bot(self, token: str, method: str, params: Params) -> None:
        found = self.api.find(method)
        with self.state.changed:
            valid = self.state.get("token", TOKEN)
        if token != valid:
            well_formed = token.partition(":")[0].isdigit() and len(token) > 10
            self.respond_error(ApiError(401, "Unauthorized") if well_formed else ApiError(404, "Not Found"))
            return
        is_poll = method.lower() == "getupdates"
        if found is None and not is_poll:
            self.respond_error(ApiError(404, "Not Found"))
            return
        action = self.note_call(method, params)
        if action.get("hold"):
            self.is_gone(LONGEST_POLL)
        if action.get("hold") or action.get("cut") == "before":
            self.cut()
            return
        if "body" in action:
            self.respond(action.get("status", 200), action["body"].encode(), "text/html")
            return
        time.sleep(action.get("slow", 0))
        try:
            if "status" in action:
                raise ApiError(action["status"], action.get("description", "made up"), **action.get("parameters", {}))
            result = self.poll(params) if is_poll else self.call(found, params)
        except ApiError as error:
            self.respond_error(error)
            return
        time.sleep(action.get("late", 0))
        if action.get("cut") == "after":
            self.cut()
            return
        self.respond_json(200, {"ok": True, "result": result}, cut=action.get("cut") == "within")

    def check_is_current(self) -> None:
        """Hear nothing more from a client of the time before everything was forgotten."""
        if self.resets != self.state.resets:
            raise ConnectionResetError

    def note_call(self, method: str, params: Params) -> dict[str, Any]:
        """Keep the call, and take what is to go wrong with it."""
        shown = {name: value if isinstance(value, str | int) else f"<{value[0]}>" for name, value in params.items()}
        with self.state.changed:
            self.check_is_current()
            self.state.db.execute(
                "INSERT INTO calls (method, at, params, port) VALUES (?, ?, ?, ?)",
                (method, time.time(), json.dumps(shown), self.client_address[1]),
            )
            found = self.state.next_fault(method, shown)
            self.state.note()
        return found

    def call(self, method: Callable[[Params], Any] | None, params: Params) -> Any:
        assert method is not None
        with self.state.changed:
            self.check_is_current()
            self.state.db.execute("BEGIN")
            try:
                result = method(params)
            except BaseException:
                self.state.db.execute("ROLLBACK")
                raise
            self.state.db.execute("COMMIT")
            self.state.note()
        return result

    def poll(self, params: Params) -> Any:
        """getUpdates: an offset confirms all before it; a second call ends the first."""
        state = self.state
        offset, most = int(params.get("offset") or 0), min(max(int(params.get("limit") or 100), 1), 100)
        end = time.monotonic() + min(float(params.get("timeout") or 0), LONGEST_POLL)
        with state.changed:
            self.check_is_current()
            if state.get("webhook", ""):
                raise ApiError(409, _HOOKED)
            state.newest_poll += 1
            mine = state.newest_poll
            if "allowed_updates" in params:
                state.set("allowed", _json(params, "allowed_updates"))
            allowed = state.get("allowed", []) or _UPDATE_KINDS
            if offset > 0:
                state.confirm(offset)
            elif offset < 0:
                state.db.execute(
                    "DELETE FROM updates WHERE id NOT IN (SELECT id FROM updates ORDER BY id DESC LIMIT ?)", (-offset,)
                )
            state.polls += 1
            state.note()
            try:
                while True:
                    waiting = [json.loads(body) for (body,) in state.rows("SELECT body FROM updates ORDER BY id")]
                    waiting = [one for one in waiting if one["update_id"] >= offset]
                    ready = [one for one in waiting if any(kind in allowed for kind in one)]
                    if mine != state.newest_poll:
                        raise ApiError(409, _TERMINATED)
                    again, state.again = state.again, []
                    if again or ready or time.monotonic() >= end:
                        return [*again, *ready][:most]
                    state.changed.wait(min(0.2, max(end - time.monotonic(), 0)))
                    if self.is_gone(0):
                        raise ConnectionResetError
            finally:
                state.polls -= 1
                state.note()

    def answer_download(self, path: str) -> None:
        token, _, rest = path.partition("/")
        number, _, _ = rest.partition("/")
        with self.state.changed:
            found = self.state.rows("SELECT size_known, data FROM files WHERE id = ?", f"file-{number}")
        if token != TOKEN or not found:
            self.respond_error(ApiError(404, "Not Found"))
            return
        action = self.note_call("download", {"path": rest})
        if action.get("cut") == "before":
            self.cut()
            return
        size_known, data = found[0]
        if size_known:
            self.respond(200, data, "application/octet-stream", cut=action.get("cut") == "within")
            return
        self.send_response(200)
        self.send_header("content-type", "application/octet-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for start in range(0, len(data), 65536):
            piece = data[start : start + 65536]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    # Tests

    def answer_test(self, name: str, query: dict[str, str], body: bytes) -> None:
        if name == "wait":
            with self.state.changed:
                self.state.changed.wait_for(lambda: self.state.changes > int(query["after"]), LONGEST_WAIT)
                self.respond_json(200, self.state.changes)
            return
        with self.state.changed:
            self.state.db.execute("BEGIN")
            result = getattr(self.control, name)(json.loads(body) if body else query)
            self.state.db.execute("COMMIT")
            if self.command == "POST":
                self.state.note()
        self.respond_json(200, result)

    # Answers

    def is_gone(self, seconds: float) -> bool:
        return bool(select.select([self.connection], [], [], seconds)[0])

    def cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def respond_error(self, error: ApiError) -> None:
        parameters = {"parameters": error.parameters} if error.parameters else {}
        self.respond_json(error.code, {"ok": False, "error_code": error.code, "description": str(error), **parameters})

    def respond_json(self, status: int, value: Any, *, cut: bool = False) -> None:
        self.respond(status, json.dumps(value).encode(), "application/json", cut=cut)

    def respond(self, status: int, body: bytes, kind: str, *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.cut()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    state = State(sys.argv[1])
    Handler.state, Handler.api, Handler.control = state, Api(state), Control(state)
    host = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    server = Server((host, int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
