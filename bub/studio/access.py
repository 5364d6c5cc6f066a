"""Who may ask: the token that is shown once, the cookie it becomes, and which requests come from the page itself.

A browser brings its cookies along with whatever a foreign page makes it ask; so a request has to name a host that is
this page's (DNS rebinding), and one that changes something has to say that a script of this very page sent it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping
from secrets import token_bytes, token_urlsafe

import trio

from bub.errors import BubError
from bub.studio.settings import StudioSettings

MARK = "x-bub"
"""The header that a request carries, and a form of a foreign page cannot.

Who enters says anything there, and is given what all that they ask from then on has to say.
"""

_BYTES = 32
_MOST_SESSIONS = 32
"""How many browsers may be known at once; the one that has not asked for the longest time has to enter again."""

_MOST_FAILURES, _WINDOW = 10, 60.0
"""How many wrong tokens are taken in so many seconds."""


class RefusedRequestError(BubError):
    """A request that is not answered: `status` is that of HTTP."""

    def __init__(self, status: int, message: str, *, help: str | None = None) -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.status = status


class Access:
    """The token of one process and the sessions it has opened; they end with the process.

    `port` is the one that the page got.
    """

    def __init__(self, settings: StudioSettings, port: int) -> None:
        self._token = token_urlsafe(_BYTES)
        self._origins = settings.origins(port)
        self._hosts = frozenset(origin.partition("://")[2] for origin in self._origins)
        self._is_secure = settings.is_secure
        self._address = settings.address(port)
        # Cookies are for a host, whatever the port: two pages of one machine must not take each other's.
        self.cookie = f"{'__Host-' if self._is_secure else ''}bub-studio-{port}"
        self._sessions: OrderedDict[bytes, None] = OrderedDict()
        self._secret = token_bytes(_BYTES)
        self._failures: list[float] = []

    def __repr__(self) -> str:
        return "Access()"  # whoever prints it prints no token

    @property
    def url(self) -> str:
        """The address with the token, in the part that a browser sends to nobody."""
        return f"{self._address}/#{self._token}"

    # What every request has to be.

    def check_host(self, hosts: list[str]) -> None:
        """Raise `RefusedRequestError` (421) unless a request names one host, and one that is this page's."""
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise RefusedRequestError(
                421, "Bub does not serve this page under that name", help="open the address that Bub has printed"
            )

    def check_site(self, headers: Mapping[str, str]) -> None:
        """Raise `RefusedRequestError` (403) if a foreign page has made a browser ask."""
        site = headers.get("sec-fetch-site", "same-origin")
        origin = headers.get("origin")
        if site not in ("same-origin", "none") or (origin is not None and origin not in self._origins):
            raise RefusedRequestError(403, "a page of another site may not send requests here")

    def check_change(self, headers: Mapping[str, str]) -> None:
        """Raise `RefusedRequestError` (403, 415) unless a script of this page has sent what changes something."""
        self.check_site(headers)
        if headers.get("origin") not in self._origins:
            raise RefusedRequestError(
                403, "only this page may send this request", help="send `Origin` with its address"
            )
        if not headers.get(MARK):
            raise RefusedRequestError(403, "only a script of this page may send this request", help="send `X-Bub`")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RefusedRequestError(415, "the body has to be JSON", help="send `Content-Type: application/json`")

    # Sessions.

    def enter(self, token: str) -> str:
        """Return the value of a cookie for who has the token; raises `RefusedRequestError` (403, 429) for others.

        Who has the token gets in however many wrong ones others have tried: nobody locks the operator out.
        """
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            raise self._count_failure()
        value = token_urlsafe(_BYTES)
        self._sessions[_name_of(value)] = None
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return value

    def _count_failure(self) -> RefusedRequestError:
        now = trio.current_time()
        self._failures = [at for at in self._failures if now - at < _WINDOW]
        if len(self._failures) >= _MOST_FAILURES:
            return RefusedRequestError(429, "too many wrong tokens", help=f"try again in {_WINDOW:.0f} seconds")
        self._failures.append(now)
        return RefusedRequestError(403, "that is not the token", help="open the address that Bub has printed")

    def leave(self, value: str) -> None:
        """Forget a session."""
        self._sessions.pop(_name_of(value), None)

    def knows(self, value: str | None) -> bool:
        """Whether a cookie has this value that was given here and not forgotten."""
        name = _name_of(value or "")
        if name not in self._sessions:
            return False
        self._sessions.move_to_end(name)
        return True

    def mark_of(self, value: str) -> str:
        """Return what a session has to say beside its cookie.

        A browser sends the cookie to whatever listens at another port of the same host, such as a server that an agent
        has begun. What a script keeps for its origin goes nowhere else.
        """
        return hmac.new(self._secret, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def lets_in(self, value: str | None, mark: str) -> bool:
        """Whether a request has the cookie of a session that is known, and what this has to say beside it."""
        return self.knows(value) and hmac.compare_digest(self.mark_of(value or "").encode(), mark.encode())

    def set_cookie(self, value: str) -> str:
        """Return the header that gives a browser its session; with "" the one that takes it away."""
        end = "" if value else "; Max-Age=0"
        secure = "; Secure" if self._is_secure else ""
        return f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}"


def _name_of(value: str) -> bytes:
    """Name a session without its value, so that what compares names tells nothing of values by its time."""
    return hashlib.sha256(value.encode("utf-8", "replace")).digest()
