"""The book as a PDF, printed from book.html by Chromium: `python3 course.py pdf`.

Question  how does the whole book get onto paper, with page numbers to find things by?
Answer    two printings: the first tells on which page everything is, the second says so in the
          contents and beside questions and answers; bookmarks and tags are Chromium's
Assumes   the site is built; a Chromium of 2025 or later, which prints margin boxes
Ignores   other browsers, and the network: every request that is not of the site is refused
"""

import argparse
import errno
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "_build" / "html" / "book.html"
PDF = ROOT / "_build" / "entitlement-to-roofline.pdf"

# What a page of the site links to beside pages is not there beside a PDF.
_STRIP = """() => document.querySelectorAll("a[href]").forEach((link) => {
  if (!/^(#|https?:)/.test(link.getAttribute("href"))) link.removeAttribute("href");
})"""
_PLACES = """() => [...document.querySelectorAll(".page[data-of]")].map((n) => n.dataset.of)"""
_NUMBER = """(pages) => document.querySelectorAll(".page[data-of]").forEach((node) => {
  node.textContent = pages[node.dataset.of] ?? "000";
})"""


class Stop(Exception):
    """What went wrong and what to do about it."""


def chromium() -> str:
    """The Chromium to print with."""
    named = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, (
        [named] if named else ["chromium", "chromium-browser", "google-chrome"]))), None)
    if found is None:
        where = f"$CHROMIUM names {named}, which is not there" if named else "there is none here"
        raise Stop(f"the PDF is printed by Chromium, and {where}. On Debian: apt install chromium, "
                   "or name one in $CHROMIUM. Without one: open _build/html/book.html in your "
                   "browser and print it.")
    return found


def pages_of(pdf: bytes) -> dict[str, int]:
    """On which page, from 1, each named place of a PDF of Chromium's is.

    Raises Stop for a PDF that is not laid out as Chromium's are.
    """
    objects = {int(m[1]): m[2] for m in re.finditer(
        rb"(?m)^(\d+) 0 obj\s*<<((?:(?!endobj).)*?)>>\s*(?:endobj|stream)", pdf, re.S)}
    order: list[int] = []

    def walk(number: int) -> None:
        kids = re.search(rb"/Kids\s*\[([^\]]*)\]", objects.get(number, b""))
        if kids is None:
            order.append(number)
        else:
            for kid in re.findall(rb"(\d+) 0 R", kids[1]):
                walk(int(kid))

    roots = [int(m[1]) for m in re.finditer(rb"/Type\s*/Catalog.*?/Pages (\d+) 0 R|", pdf, re.S)
             if m[1]] or [int(m[1]) for m in re.finditer(rb"/Pages (\d+) 0 R", pdf)]
    if not roots:
        raise Stop("Chromium's PDF has no list of pages; it may be newer than this course knows")
    walk(roots[-1])
    at = {number: page for page, number in enumerate(order, start=1)}
    return {re.sub(rb"#([0-9a-fA-F]{2})", lambda h: bytes.fromhex(h[1].decode()), m[1]).decode():
            at[int(m[2])]
            for m in re.finditer(rb"/([^\s/<>\[\]()]+) \[(\d+) 0 R /XYZ", pdf) if int(m[2]) in at}


def printed(book: Path, browser: Any, paper: str) -> tuple[bytes, int]:
    """The PDF of `book`, and how many pages it has."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    foreign: list[str] = []

    def gate(route: Any) -> None:
        if route.request.url.startswith(("file:", "data:")):
            route.continue_()
        else:
            foreign.append(route.request.url)
            route.abort()

    context.route("**/*", gate)
    page.goto(book.as_uri(), wait_until="load", timeout=300_000)
    page.evaluate("() => window.MathJax?.startup?.promise?.then(() => true) ?? true")
    unset = page.evaluate("() => document.querySelectorAll('.math:not(:has(mjx-container)), "
                          "mjx-merror').length")
    if unset or foreign:
        raise Stop(f"{book.name}: {unset} formulas were not set, "
                   f"{len(foreign)} requests would have left the site {foreign[:3]}")
    page.evaluate(_STRIP)
    places = page.evaluate(_PLACES)
    numbers: dict[str, int] = {}
    for _ in range(4):      # until the numbers, once written, are still right
        page.evaluate(_NUMBER, numbers)
        pdf = page.pdf(format=paper, print_background=True, outline=True, tagged=bool(numbers))
        pages = pages_of(pdf)
        if missing := set(places) - set(pages):
            raise Stop(f"the PDF lost the places {', '.join(sorted(missing)[:5])}")
        before, numbers = numbers, {place: pages[place] for place in places}
        if numbers == before:
            break
    else:
        raise Stop("page numbers did not settle; print book.html from a browser")
    context.close()
    return pdf, len(re.findall(rb"/Type\s*/Page\b", pdf))


def save(pdf: bytes, path: Path) -> None:
    """Whole or not at all; what was there stays until then."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(pdf)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
            raise


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="course.py pdf", description=__doc__)
    parser.add_argument("--paper", choices=["A4", "Letter"], default="A4")
    parser.add_argument("--probe", action="store_true", help="only say whether it can print")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        program = chromium()
        if options.probe:
            return 0
        if not BOOK.exists():
            raise Stop(f"{BOOK.relative_to(ROOT)} is not there: python3 course.py build")
        from playwright.sync_api import Error, sync_playwright

        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=program, args=[
                    "--disable-gpu", "--disable-background-networking", "--no-first-run", *root])
                pdf, count = printed(BOOK, browser, options.paper)
                browser.close()
        except Error as error:
            raise Stop(f"{program} did not print: {str(error).strip().splitlines()[0]}") from None
        save(pdf, PDF)
    except Stop as stop:
        print(f"course.py: {stop}", file=sys.stderr)
        return 1
    except OSError as error:
        hint = "; the disk is full: free 100 MB" if error.errno == errno.ENOSPC else ""
        print(f"course.py: the PDF was not written: {error}{hint}", file=sys.stderr)
        return 1
    print(f"{PDF.relative_to(ROOT)}: {count} pages of {options.paper}, {len(pdf) / 1e6:.1f} MB, "
          f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
