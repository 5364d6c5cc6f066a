"""How large the page is, and how soon it is there."""

from __future__ import annotations

import gzip
import os
import re
import statistics
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from fakes.chromium import Chromium
from fakes.studio_gateway import Studio

LARGEST = 60 * 1024
SLOWEST = 0.2


def test_the_page_is_smaller_than_60_KB(office: Studio, figures: list[str]) -> None:
    sizes, names = {}, ["/"]
    with httpx.Client(base_url=office.address, headers={"accept-encoding": "gzip"}, trust_env=False) as client:
        for name in names:  # it grows by what each file names
            with client.stream("GET", name) as answer:
                packed = b"".join(answer.iter_raw())
            assert answer.status_code == 200, name
            assert answer.headers["content-encoding"] == "gzip", name
            text = gzip.decompress(packed).decode()
            sizes[name] = len(packed)
            quoted = re.findall(r'["\'](?:\./)?([a-z][\w-]*\.(?:js|css|svg))["\']', text)
            names += [f"/{one}" for one in quoted if f"/{one}" not in names]
    total = sum(sizes.values())
    figures.append(f"the page: {total:,} bytes in {len(sizes)} files, as they are sent (gzip); at most {LARGEST:,}")
    assert total < LARGEST, sizes
    assert {"/app.js", "/turns.js"} < set(sizes)


def test_the_first_paint_comes_within_a_fifth_of_a_second(
    browser: Chromium, office: Studio, figures: list[str]
) -> None:
    """Measured beside a page of one word in the same browser: what that one takes is the machine's."""
    times: dict[str, list[float]] = {"first paint": [], "of an empty page": [], "graph": []}
    with Bare() as bare:
        for _ in range(5):
            for name, address, sign in (
                ("of an empty page", bare.address, "p"),
                ("first paint", office.link, "main svg .stage"),
            ):
                page = browser.open()
                page.go(address)
                page.see(sign)
                paints = dict(page.look("performance.getEntriesByType('paint').map(e => [e.name, e.startTime])"))
                times[name].append(paints["first-contentful-paint"])
                if name == "first paint":
                    times["graph"].append(page.look("performance.now()"))
                page.close()
    first, empty, graph = (statistics.median(times[name]) for name in ("first paint", "of an empty page", "graph"))
    figures.append(
        f"on loopback, nothing kept, median of 5: first paint after {first:.0f} ms (an empty page: {empty:.0f} ms);"
        f" the graph is there after {graph:.0f} ms"
    )
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # how many wait for each core
    assert first - empty < SLOWEST * 1e3 * crowd


class Bare(ThreadingHTTPServer):
    """A page of one word."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Word)
        self.address = f"http://127.0.0.1:{self.server_port}/"
        self._thread = threading.Thread(target=self.serve_forever)

    def __enter__(self) -> Bare:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Word(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        body = b"<!doctype html><html lang=en><title>word</title><link rel=icon href=data:,><p>word</p></html>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
