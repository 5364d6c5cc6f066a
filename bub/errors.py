"""What can go wrong, as plain exception classes that carry the offender and what the reader should do."""

from __future__ import annotations


class BubError(Exception):
    """A problem that a person can solve: `str(error)` says what is wrong, `help` what to do about it.

    The command line prints both in one line and ends with `exit_code`; no traceback is shown.
    """

    exit_code = 1

    def __init__(self, message: str, *, help: str | None = None) -> None:  # noqa: A002 (the reader's word)
        super().__init__(message)
        self.help = help


class UsageError(BubError):
    """The command was used wrongly, or a file it names does not exist (exit code 2)."""

    exit_code = 2


class NotTrustedError(UsageError):
    """A workspace brings a pipeline file, but its folder has not been trusted yet (DESIGN §6)."""

    def __init__(self, folder: str, file: str) -> None:
        import shlex  # only where it is raised

        super().__init__(
            f"{file} was found in a folder that is not trusted yet",
            help=f"read the file, then run `bub trust {shlex.quote(folder)}`; or name it yourself with --config",
        )
        self.folder = folder
        self.file = file


class NoAnswerError(BubError):
    """No implementation of a `firstresult` or `stream` stage answered, and the stage has no default."""

    def __init__(self, stage: str, hook: str) -> None:
        what = f"stage `{stage}`" if stage == hook else f"stage `{stage}` (hook `{hook}`)"
        super().__init__(
            f"no plugin answered {what}",
            help=f"list a plugin that implements `{hook}` in the profile, or give the stage a `default`",
        )
        self.stage = stage
        self.hook = hook


class HookError(BubError):
    """An implementation broke the contract of its hook point."""

    def __init__(self, message: str, *, hook: str, plugin: str, help: str | None = None) -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.hook = hook
        self.plugin = plugin


class HookTypeError(HookError, TypeError):
    """An implementation returned something its hook point does not allow (BEHAVIOURS H29, H31)."""

    def __init__(self, hook: str, plugin: str, expected: str, value: object) -> None:
        super().__init__(
            f"hook.{hook} must return {expected}, but plugin `{plugin}` returned {type(value).__name__}",
            hook=hook,
            plugin=plugin,
        )
        self.expected = expected


class ModelError(BubError):
    """A model did not answer: the error names the provider, the host of its URL and what to do.

    `kind` is one of `config`, `unreachable`, `refused_key`, `rate_limited`, `server`, `request`,
    `cut_stream`, `bad_answer`, `timeout`, `context_overflow`.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        provider: str,
        host: str | None = None,
        help: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(message, help=help)
        self.kind = kind
        self.provider = provider
        self.host = host


class TapeError(BubError):
    """A tape cannot do what was asked: `reason` is `invalid_input`, `not_found`, `unavailable` or `broken`."""

    def __init__(self, message: str, *, help: str | None = None, reason: str = "invalid_input") -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.reason = reason
