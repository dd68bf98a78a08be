"""Visits of built pages: open one, wait until it stands, unfold it, use what it asks."""

import json
from pathlib import Path
from typing import Any

from pages import ROOT, book_pages

from roofline import problems
from roofline.check import Choice

PAGES = [page.relative_to(ROOT).with_suffix("").as_posix() for page in book_pages()]
DESK, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
AXE = (ROOT / "tests/vendor/axe-core/axe.min.js").read_text()


def url(address: str, page: str) -> str:
    return f"{address}/{page}.html"


def settle(page: Any) -> None:
    """Wait until math is set and live figures have drawn."""
    page.evaluate("() => window.MathJax?.startup?.promise?.then(() => true) ?? true")


def unfold(page: Any) -> None:
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")


def violations(page: Any, within: str = "html", without: str = "#none") -> list[str]:
    """What axe finds serious or critical, every fold open; within and without: selectors."""
    unfold(page)
    if not page.locator(within).count():
        return []
    page.evaluate("(axe) => { if (!window.axe) (0, eval)(axe); }", AXE)
    found = page.evaluate("""([within, without]) => axe.run(
        {include: [within], exclude: without.split(", ")}, {resultTypes: ["violations"]})
        .then((result) => result.violations)""", [within, without])
    return [f"{v['id']}: {v['help']}: " + " | ".join(n["html"][:200] for n in v["nodes"][:3])
            for v in found if v["impact"] in ("serious", "critical")]


def forms(page: Path) -> list[str]:
    """Ids of the problems a page asks, in its order."""
    if page.suffix != ".ipynb":
        return []
    return [form for cell in json.loads(page.read_text())["cells"]
            if (form := cell["metadata"].get("roofline", {}).get("form"))]


def reveal(page: Any) -> int:
    """Skip every guess: live figures and predictions show what they have to show."""
    return page.evaluate("""() => {
        const skips = [...document.querySelectorAll('.rl button')].filter((button) =>
            button.textContent === 'Skip' && button.checkVisibility());
        for (const button of skips) button.click();
        return skips.length;
    }""")


# Fill forms with {form: {part: text}} and submit them.
FILL = """(answers) => {
    for (const [id, parts] of Object.entries(answers)) {
        const form = document.querySelector(`form.rl-form[data-form-id="${id}"]`);
        for (const input of form.querySelectorAll('input')) {
            const text = parts[input.name] ?? '';
            if (input.type === 'radio') input.checked = input.value === text;
            else input.value = text;
            input.dispatchEvent(new Event('input', {bubbles: true}));
        }
        form.requestSubmit();
    }
}"""


def wrong(part: Any) -> str:
    return next((key for key in part.options if key != part.answer), "") if isinstance(
        part, Choice) else "-1"


def answer(page: Any, ids: list[str], right: bool) -> None:
    """Answer every form of a page, all parts right or all parts wrong."""
    page.evaluate(FILL, {form: {part.name: part.answer if right else wrong(part)
                                for part in problems.ask(form).parts} for form in ids})
