"""Who may ask the page of `bub studio`: a process of its own, asked as nobody should ask."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fakes.studio import Browser, StudioProcess, bub_studio

from bub.errors import UsageError
from bub.inbox.started import MARK
from bub.studio.access import Access, RefusedRequestError
from bub.studio.settings import read_settings

FOREIGN_HOSTS = ("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "")
GOOD = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioProcess]:
    with bub_studio(tmp_path_factory.mktemp("studio")) as process:
        yield process


@pytest.fixture
def browser(page: StudioProcess) -> Iterator[Browser]:
    with page.browser() as browser:
        yield browser


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_never_see(page: StudioProcess) -> None:
    with Browser(page.url) as browser:
        answer = browser.send("enter", token=browser.token)
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"bub-studio-{page.port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        assert "Domain" not in cookie
        assert browser.token not in cookie
        assert browser.get("state")["gateway"] is False


def test_who_left_is_unknown(browser: Browser) -> None:
    browser.post("leave")
    assert browser.ask("state").status_code == 401


def test_every_answer_binds_the_browser(page: StudioProcess, browser: Browser) -> None:
    for answer in (
        browser.http.get("/"),
        browser.ask("state"),
        browser.ask("nothing"),
        httpx.get(f"{browser.origin}/x"),
    ):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    assert browser.ask("state").headers["cache-control"] == "no-store"


@pytest.mark.skipif(not files("bub.studio").joinpath("page", "index.html").is_file(), reason="there is none yet")
def test_the_page_itself_needs_no_token_and_holds_none(page: StudioProcess) -> None:
    with Browser(page.url) as stranger:
        answer = stranger.http.get("/")
        assert answer.status_code == 200
        assert stranger.token not in answer.text
        assert stranger.http.get("/", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


@pytest.mark.parametrize("path", ["state", "feed", "turns", "approvals", "file", "tape?session=x", "nothing"])
def test_nothing_is_shown_without_the_cookie(page: StudioProcess, path: str) -> None:
    with Browser(page.url) as stranger:
        assert stranger.ask(path).status_code == 401
        stranger.http.cookies.set(f"bub-studio-{page.port}", "x" * 43)
        assert stranger.ask(path).status_code == 401


def test_a_cookie_of_another_page_is_none_here(page: StudioProcess, browser: Browser, tmp_path: Path) -> None:
    with bub_studio(tmp_path) as other, Browser(other.url) as stranger:
        (name, value), *_ = browser.http.cookies.items()
        for own in (name, f"bub-studio-{other.port}"):  # a browser sends it, too: cookies know no ports
            assert stranger.http.get("/api/state", headers={"Cookie": f"{own}={value}"}).status_code == 401
        assert stranger.send("enter", token=browser.token).status_code == 403
        assert stranger.enter().get("state")
        assert browser.get("state")


def test_the_cookie_alone_is_worth_nothing_to_a_server_at_another_port(page: StudioProcess, browser: Browser) -> None:
    """A browser sends it there: cookies know no ports, and `SameSite` neither."""
    with Browser(page.url) as entered:
        other = entered.enter().http.headers["X-Bub"]
    for mark in ("", "1", "x", "\xe9", other, browser.token):
        headers = [(b"X-Bub", mark.encode("latin-1")), (b"Origin", browser.origin.encode())]
        for path in ("/api/state", "/api/feed", f"/api/feed?mark={quote(mark)}", f"/api/state?mark={quote(mark)}"):
            assert browser.http.get(path, headers=headers).status_code == 401
        answer = browser.http.post("/api/approvals/q1", json={"yes": True}, headers=headers)
        assert answer.status_code in (401, 403)
    own = browser.http.headers.pop("X-Bub")
    assert browser.http.get("/api/state", params={"mark": own}).status_code == 401
    with browser.http.stream("GET", "/api/feed", params={"mark": own}) as feed:
        assert feed.status_code == 200
    assert browser.token not in own


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_another_host_name_leads_nowhere(page: StudioProcess, browser: Browser, host: str) -> None:
    host = host.format(port=page.port)
    for path in ("/", "/api/state"):
        answer = browser.http.get(path, headers={"Host": host})
        assert answer.status_code in (400, 421)
        assert browser.token not in answer.text


@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_names_of_this_machine_lead_here(page: StudioProcess, browser: Browser, host: str) -> None:
    assert browser.http.get("/api/state", headers={"Host": host.format(port=page.port)}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Origin": ""},
        {},
    ],
)
def test_only_this_page_changes_something(page: StudioProcess, browser: Browser, headers: dict[str, str]) -> None:
    headers = GOOD | {name: value.format(port=page.port) for name, value in headers.items()}
    assert browser.http.post("/api/leave", content="{}", headers=headers).status_code == 403
    assert browser.get("state")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_makes_a_browser_ask_is_refused(browser: Browser, site: str) -> None:
    assert browser.http.get("/api/state", headers={"Sec-Fetch-Site": site}).status_code == 403
    right = GOOD | {"Origin": browser.origin, "Sec-Fetch-Site": site}
    assert browser.http.post("/api/leave", content="{}", headers=right).status_code == 403
    assert browser.http.get("/api/state", headers={"Origin": "null"}).status_code == 403
    assert browser.get("state")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]
)
def test_a_form_changes_nothing(browser: Browser, media_type: str | None) -> None:
    headers = {"Origin": browser.origin} | ({"Content-Type": media_type} if media_type else {})
    assert browser.http.post("/api/leave", content=b"{}", headers=headers).status_code == 415
    headers["X-Bub"] = ""
    assert browser.http.post("/api/leave", content=b"{}", headers=headers).status_code == 403
    assert browser.get("state")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_no_other_method_changes_something(browser: Browser, method: str) -> None:
    headers = GOOD | {"Origin": browser.origin, "X-HTTP-Method-Override": "POST"}
    answer = browser.http.request(method, "/api/leave?_method=POST", headers=headers)
    assert answer.status_code == 405
    assert browser.get("state")


@pytest.mark.parametrize(
    "path",
    [
        "/../settings.py",
        "/%2e%2e/settings.py",
        "/..%2fsettings.py",
        "/page/index.html",
        "/index.html/",
        "//index.html",
        "/app.py",
        "/%00",
        "/.env",
        "/api/../settings.py",
        "/api",
        "/api/",
        "/C:\\windows",
        "/./",
    ],
)
def test_a_path_leads_to_a_file_of_the_page_or_nowhere(page: StudioProcess, path: str) -> None:
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{page.port}\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: line.recv(65_536), b""))
    assert answer.split()[1] in (b"400", b"401", b"404")
    assert b"import" not in answer


def test_what_is_too_large_or_no_object_is_refused(browser: Browser) -> None:
    right = GOOD | {"Origin": browser.origin}
    for content, status in (
        (b"{}" + b" " * 1_100_000, 413),
        (b"[]", 400),
        (b"{", 400),
        (b"[" * 90_000, 400),
        (b"\xff", 400),
        (b"", 400),
    ):
        assert browser.http.post("/api/leave", content=content, headers=right).status_code == status
    chunks = (b" " * 65_536 for _ in range(40))
    own = browser.http.headers["X-Bub"]
    with httpx.Client(base_url=browser.origin, cookies=browser.http.cookies, headers={"X-Bub": own}) as other:
        with suppress(httpx.WriteError):  # it does not read on
            assert other.post("/api/leave", content=chunks, headers=right).status_code == 413
        assert browser.http.get("/", headers={"X-Long": "x" * 40_000}).status_code in (400, 431)
    assert browser.get("state")


def test_wrong_tokens_are_counted_and_lock_nobody_out_who_has_the_right_one(page: StudioProcess) -> None:
    access = Access(read_settings({}, Path()), 9)

    async def guess() -> None:
        right = access.url.rpartition("#")[2]
        said = []
        for number in range(12):
            try:
                access.enter(str(number))
            except RefusedRequestError as error:
                said.append(error.status)
        assert said == [*[403] * 10, 429, 429]
        assert access.knows(access.enter(right))

    import trio

    trio.run(guess)


def test_an_agent_cannot_open_a_page_to_say_yes_to_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bub", "studio"],
        cwd=tmp_path,
        env={**os.environ, "BUB_HOME": str(tmp_path / "home"), MARK: "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Bub started this command" in done.stderr


def test_token_and_cookie_are_in_no_argument_no_variable_and_no_file(page: StudioProcess, browser: Browser) -> None:
    (cookie,) = browser.http.cookies.values()
    browser.ask("state", token=browser.token)
    browser.send("enter", token=f"{browser.token}x")
    process = Path(f"/proc/{page.process.pid}")
    places = [*(one for one in page.home.parent.rglob("*") if one.is_file()), process / "environ", process / "cmdline"]
    for place in places:
        said = place.read_bytes()
        assert browser.token.encode() not in said, place
        assert cookie.encode() not in said, place


@pytest.mark.parametrize(
    "section",
    [
        {"listen": "0.0.0.0:9465"},
        {"listen": "192.168.1.2:9465"},
        {"listen": "[::]:9465"},
        {"listen": "example.org:80"},
        {"listen": "127.0.0.1:9465", "public_url": "http://example.org"},
        {"listen": "127.0.0.1:9465", "public_url": "https://example.org/bub"},
        {"listen": "127.0.0.1:9465", "public_url": "https://u@example.org"},
        {"listen": "127.0.0.1:9465", "public_url": "https://example.org:x"},
        {"listen": "127.0.0.1:9465", "tls": {"certificate": "x.pem"}},
    ],
)
def test_settings_that_would_show_the_token_are_refused(section: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(section, Path())
    assert caught.value.help


def test_behind_a_proxy_with_tls_the_cookie_is_for_that_alone() -> None:
    settings = read_settings({"listen": "0.0.0.0:9465", "public_url": "https://Bub.example.org/"}, Path())
    access = Access(settings, 9465)
    assert access.url.startswith("https://bub.example.org/#")
    assert access.set_cookie("x") == "__Host-bub-studio-9465=x; Path=/; HttpOnly; SameSite=Strict; Secure"
    access.check_host(["bub.example.org"])
    access.check_change({**{k.lower(): v for k, v in GOOD.items()}, "x-bub": "1", "origin": "https://bub.example.org"})
    for host in (["bub.example.org:9465"], ["0.0.0.0:9465"], ["bub.example.org", "bub.example.org"], []):
        with pytest.raises(RefusedRequestError):
            access.check_host(host)


def test_with_a_certificate_the_page_is_reached_by_the_names_of_this_machine() -> None:
    tls = {"certificate": "a.pem", "key": "b.pem"}
    for listen, url in (("0.0.0.0:9465", "https://127.0.0.1:9465/#"), ("[::]:443", "https://[::1]:443/#")):
        settings = read_settings({"listen": listen, "tls": tls}, Path("/etc/bub"))
        assert settings.certificate is not None
        assert settings.certificate.file == "/etc/bub/a.pem"
        access = Access(settings, settings.listen.port)
        assert access.url.startswith(url)
        assert "; Secure" in access.set_cookie("x")
        port = "" if settings.listen.port == 443 else ":9465"
        access.check_host([f"localhost{port}"])
        access.check_site({"origin": f"https://127.0.0.1{port}"})
        with pytest.raises(RefusedRequestError):
            access.check_site({"origin": f"http://127.0.0.1{port}"})


def test_the_browser_that_is_silent_for_longest_is_forgotten_first() -> None:
    import trio

    async def enter_often() -> None:
        access = Access(read_settings({}, Path()), 9)
        token = access.url.rpartition("#")[2]
        first, second, *_ = [access.enter(token) for _ in range(32)]
        assert access.knows(first)
        access.enter(token)
        assert access.knows(first)
        assert not access.knows(second)
        assert not access.knows(None)
        assert token not in repr(access)

    trio.run(enter_often)
