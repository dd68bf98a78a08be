"""What each page of the built site weighs on its first load, compressed, and when it stands.

Target: 1.2 MB. Chromium opens every page with an empty cache; everything it asks for is gzipped
and summed. A second time the processor is slowed down four times, as a phone's: ms until the
document is read (DOMContentLoaded), loaded, and its first live figure drawn.
Run   pytest -m bench tests/bench/bench_pages.py -s
  or  python tests/bench/bench_pages.py [site folder, by default _build/html]
"""

import functools
import gzip
import os
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).resolve().parents[2] / "_build" / "html"
CHROMIUM = (os.environ.get("CHROMIUM") or shutil.which("chromium")
            or shutil.which("chromium-browser"))
NOT_PAGES = ("book.html", "genindex.html", "index.html", "search.html")  # paper; no pages
LIMIT = 1.2e6


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, format: str, *args: object) -> None:
        pass


def weigh(browser: Any, url: str) -> tuple[int, list[tuple[int, str]], list[str]]:
    """Compressed bytes of one page, its parts, heaviest first, and requests to elsewhere."""
    home = url.split("/", 3)[2]
    foreign: list[str] = []
    responses: dict[str, Any] = {}
    context = browser.new_context()  # nothing cached

    def asked(address: str) -> None:
        if not address.startswith(("data:", "blob:")) and address.split("/", 3)[2] != home:
            foreign.append(address)

    page = context.new_page()
    page.on("request", lambda request: asked(request.url))
    page.on("response", lambda response: responses.setdefault(response.url, response))
    page.goto(url, wait_until="load")
    page.wait_for_load_state("networkidle")
    parts: dict[str, int] = {}
    # Reading a body lets a late response come in; it counts too.
    while late := [u for u, r in responses.items() if u not in parts and r.ok
                   and u.split("/", 3)[2:3] == [home]]:
        for address in late:
            parts[address] = len(gzip.compress(responses[address].body(), 6))
    context.close()
    heavy = sorted(((size, address.rsplit("/", 1)[1]) for address, size in parts.items()),
                   reverse=True)
    return sum(parts.values()), heavy, foreign


def stand(browser: Any, url: str) -> list[float]:
    """ms to DOMContentLoaded, to load, to the first live figure (0: none), at a quarter speed."""
    context = browser.new_context()
    page = context.new_page()
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.add_init_script("""
        addEventListener("DOMContentLoaded", () => {
            const drawn = () => document.querySelector(".rl-live[data-ready] :is(svg, canvas)");
            const look = () => { if (drawn()) window.figureAt ??= performance.now(); };
            new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
            look();
        });""")
    page.goto(url, wait_until="load")
    page.wait_for_function("""() => performance.getEntriesByType("navigation")[0].loadEventEnd &&
        (window.figureAt || !document.querySelector(".rl-live[data-ready]"))""", timeout=60_000)
    times = page.evaluate("""() => {
        const { domContentLoadedEventEnd, loadEventEnd } = performance.getEntriesByType(
            "navigation")[0];
        return [domContentLoadedEventEnd, loadEventEnd, window.figureAt ?? 0];
    }""")
    context.close()
    return times


def report(site: Path = SITE) -> None:
    if CHROMIUM is None or not site.is_dir():
        print(f"page weights left out: no {'Chromium' if CHROMIUM is None else 'built site'}")
        return
    from playwright.sync_api import sync_playwright

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html")
                   if p.name not in NOT_PAGES and not {"_static", "assets"} & set(p.parts))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[
            "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync"])
        for page in pages:
            total, heavy, foreign = weigh(
                browser, f"http://127.0.0.1:{server.server_port}/{page}")
            document, loaded, figure = stand(browser, f"http://127.0.0.1:{server.server_port}/{page}")
            most = ", ".join(f"{name} {size / 1e3:.0f} kB" for size, name in heavy[:3])
            print(f"{page:28} {total / 1e6:5.2f} MB{' OVER' if total > LIMIT else ''} in "
                  f"{len(heavy):2} requests; read {document:5.0f} ms, loaded {loaded:5.0f} ms"
                  + (f", figure {figure:5.0f} ms" if figure else "") + f"; {most}"
                  + (f"  requests elsewhere: {len(foreign)}" if foreign else ""), flush=True)
        browser.close()
    server.shutdown()


@pytest.mark.bench
def test_bench_pages() -> None:
    report()


if __name__ == "__main__":
    report(Path(sys.argv[1]) if len(sys.argv) > 1 else SITE)
