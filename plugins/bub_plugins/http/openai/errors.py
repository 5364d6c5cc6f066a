"""What goes wrong, in OpenAI's shape: `{"error": {"message", "type", "code", "param"}}`."""

from __future__ import annotations

from typing import Any, NoReturn

from bub.errors import BubError, ModelError

INVALID, SERVER, LIMIT = "invalid_request_error", "server_error", "rate_limit_error"

_OF_MODELS = {
    "rate_limited": (429, LIMIT, "rate_limit_exceeded", "The model has too much to do at the moment."),
    "unreachable": (502, SERVER, "model_unreachable", "The model cannot be reached at the moment."),
    "server": (502, SERVER, "model_failed", "The model has trouble at the moment."),
    "timeout": (504, SERVER, "model_timeout", "The model took too long to answer."),
    "cut_stream": (502, SERVER, "model_failed", "The model's answer was cut off."),
    "bad_answer": (502, SERVER, "model_failed", "The model gave no answer that can be used."),
    "context_overflow": (400, INVALID, "context_length_exceeded", "The conversation is too long for the model."),
}


class ApiError(Exception):
    """A request that is refused, or a turn that failed: what the client reads, and the status of the response.

    If its message `is_kept`, the same request again would be another message of the session.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = INVALID,  # noqa: A002 (OpenAI's word)
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        is_kept: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.is_kept = is_kept

    def as_dict(self) -> dict[str, Any]:
        """Return the error as a body of JSON."""
        return {"error": {"message": str(self), "type": self.type, "param": self.param, "code": self.code}}


def refuse(message: str, param: str | None = None, code: str | None = None) -> NoReturn:
    """Refuse a request for what it says: status 400."""
    raise ApiError(400, message, code=code, param=param)


def explain_failure(error: BaseException, error_id: str) -> ApiError:
    """Say what a turn failed with, to somebody who may be anybody: the details stay in the log, under the id."""
    known = _OF_MODELS.get(error.kind) if isinstance(error, ModelError) else None
    limit = getattr(error, "limit", None)
    if known is not None:
        status, kind, code, words = known
    elif isinstance(error, BubError) and isinstance(limit, str):  # a limit of the profile's budget
        status, kind, code = 429, LIMIT, "insufficient_quota"
        words = f"The turn has reached a limit of its profile (`budget.{limit}`)."
    else:
        status, kind, code, words = 500, SERVER, "internal_error", "Something went wrong while answering."
    return ApiError(status, f"{words} (error {error_id})", type=kind, code=code)
