"""An audit log: a line of JSON for each message, tool call, reply and failure. Secrets are covered."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from bub import BubFramework, Settings, hookimpl
from bub.envelope import content_of, field_of


class AuditSettings(Settings, section="audit"):
    file: str


class Audit:
    def __init__(self, framework: BubFramework) -> None:
        self._file = framework.workspace / AuditSettings.of(framework).file
        self._framework = framework

    @hookimpl
    def message_received(self, session_id: str, message: Any) -> None:
        self._note("message", session_id, sender=field_of(message, "sender_id"), content=content_of(message))

    @hookimpl
    def after_tool_call(self, session_id: str, tool: str, args: dict[str, Any], result: dict[str, Any]) -> None:
        self._note("tool", session_id, tool=tool, args=args, failed=result["is_error"])

    @hookimpl
    def message_sent(self, session_id: str, message: Any) -> None:
        self._note("reply", session_id, content=content_of(message))

    @hookimpl
    def on_error(self, stage: str, error: Exception, message: Any) -> None:
        self._note("failure", field_of(message, "session_id"), stage=stage, error=str(error))

    def _note(self, what: str, session_id: str | None, **facts: Any) -> None:
        line = {"at": datetime.now(UTC).isoformat(), "what": what, "session": session_id, **facts}
        data = json.dumps(self._framework.mask.value(line), ensure_ascii=False) + "\n"
        with self._file.open("ab", buffering=0) as file:  # one write, so that no other one comes between
            file.write(data.encode())


plugin = Audit
