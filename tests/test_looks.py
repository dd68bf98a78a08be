"""What a page shows and how it is reached: figures told in words and numbers, no matter the
screen, the colors, the motion or the means of input.

Each page is opened once in every mode; the tests read what was found there.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pages import book_pages
from visits import DESK, PAGES, PHONE, answer, forms, reveal, settle, unfold, url, violations

MODES = {"light": {"viewport": DESK},
         "dark": {"viewport": DESK, "color_scheme": "dark", "reduced_motion": "reduce"},
         "phone": {"viewport": PHONE}}
FORMS = {name: forms(path) for name, path in zip(PAGES, book_pages(), strict=True)}


@dataclass
class Look:
    """What was found on a page in one mode."""

    complaints: list[str] = field(default_factory=list)  # of the browser
    theme: str = ""
    violations: list[str] = field(default_factory=list)  # of axe: as it opens, and used
    found: dict[str, Any] = field(default_factory=dict)  # by the probes below, by name


# --- probes: JavaScript that lists what is wrong ---------------------------------------------

# Every drawing is told in words and in numbers.
UNTOLD = """() => {
    const wrong = [], say = (node, what) => wrong.push(`${what}: ${node.outerHTML.slice(0, 160)}`);
    const words = (node) => (node.getAttribute("aria-label") || node.getAttribute("alt") ||
        (node.getAttribute("aria-labelledby") || "").split(" ").map((id) =>
            document.getElementById(id)?.textContent || "").join(" ")).trim();
    const article = document.querySelector("article");
    for (const image of article.querySelectorAll("img, [role=img]")) {
        // What it shows takes more than a title.
        if (words(image).split(/\\s+/).length < 8) say(image, "no telling alt text");
    }
    for (const svg of article.querySelectorAll("svg")) {
        if (svg.closest("[aria-hidden=true], [role=img], button, .svg-inline--fa")) continue;
        if (!words(svg)) say(svg, "an unnamed drawing");
    }
    for (const canvas of article.querySelectorAll("canvas")) {
        if (!canvas.closest("[aria-hidden=true]") && !words(canvas)) say(canvas, "unnamed canvas");
    }
    const numbers = (box) => [...box.querySelectorAll("details table, .rl-tables table")].some(
        (table) => table.rows.length > 1 && table.querySelector("thead th[scope=col]") &&
            table.querySelector("tbody th[scope=row]"));
    for (const figure of article.querySelectorAll("figure")) {
        if (figure.querySelector("svg, img, canvas") && !numbers(figure)) say(figure, "no table");
        if (!figure.querySelector("figcaption")?.textContent.trim()) say(figure, "no caption");
    }
    for (const live of article.querySelectorAll(".rl-live")) {
        // A live figure that leaves its table out has it as text that follows its state.
        if (!numbers(live) && !live.querySelector("dl.rl-reads")) say(live, "no numbers");
        if (!live.querySelector("[role=status], [aria-live]")) say(live, "nothing is told");
    }
    for (const details of article.querySelectorAll("figure details, .rl-tables")) {
        const box = details.querySelector("table")?.parentElement;
        if (!details.querySelector("summary")?.textContent.trim()) say(details, "no summary");
        if (box && !(box.tabIndex === 0 && words(box))) say(details, "not reachable by keys");
    }
    for (const table of article.querySelectorAll("table")) {
        const heads = table.querySelectorAll("th");
        if (!heads.length) say(table, "a table without heads");
    }
    return wrong;
}"""

# Headings in order, one h1; language and title.
OUTLINE = """() => {
    const levels = [...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")]
        .filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]));
    const wrong = levels.flatMap((level, i) => level > (levels[i - 1] ?? 0) + 1
        ? [`h${level} follows h${levels[i - 1] ?? 0}`] : []);
    if (levels.filter((level) => level === 1).length !== 1) wrong.push("not one h1");
    if (document.documentElement.lang !== "en") wrong.push(`lang ${document.documentElement.lang}`);
    if (document.title.length < 8) wrong.push(`title ${document.title}`);
    if (document.querySelector("[tabindex]:not([tabindex='0'], [tabindex='-1'])")) {
        wrong.push("an order of its own for keys");
    }
    return wrong;
}"""

# In sight: neither folded away nor hidden.
SHOWN = """const SHOWN = (node) => node.getClientRects().length > 0 &&
    node.checkVisibility({ visibilityProperty: true });"""

# Where keys are shows, on each thing that they reach.
UNMARKED = """() => {
    %SHOWN%
    const at = (node) => {
        const style = getComputedStyle(node), ring = node.querySelector?.(".rl-ring");
        return [style.outlineStyle !== "none" && style.outlineWidth, style.outlineColor,
            style.boxShadow, style.borderColor, style.backgroundColor, style.color,
            style.textDecoration, ring && getComputedStyle(ring).stroke].join("|");
    };
    const wrong = [];
    for (const node of document.querySelectorAll(
        "article :is(a[href], button, input, select, textarea, summary, [tabindex='0'])")) {
        if (node.disabled || !SHOWN(node)) continue;
        document.activeElement?.blur();
        const before = at(node);
        node.focus({ focusVisible: true, preventScroll: true });
        const what = node.outerHTML.slice(0, 120);
        if (document.activeElement !== node) wrong.push(`no focus: ${what}`);
        else if (at(node) === before) wrong.push(`unmarked: ${what}`);
    }
    document.activeElement?.blur();
    return wrong;
}"""

# 24 px for a finger, but for links in a sentence; a field's label counts.
SMALL = """() => { %SHOWN% return [...document.querySelectorAll(
        "article :is(button, input, select, textarea, summary, [role=slider])")]
    .filter((node) => SHOWN(node) && !node.disabled).flatMap((node) => {
        const target = node.closest("label") ?? node.querySelector(".rl-hit") ?? node;
        const { width, height } = target.getBoundingClientRect();
        return width < 23.5 || height < 23.5
            ? [`${width.toFixed()} x ${height.toFixed()}: ${node.outerHTML.slice(0, 120)}`] : [];
    }); }"""

# What sticks out of the screen, if the page scrolls sideways.
WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [
    `${document.documentElement.scrollWidth} px`, ...[...document.querySelectorAll("article *")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 &&
        ![...function* (n) { while ((n = n.parentElement)) yield n; }(e)].some((n) =>
            ["auto", "scroll", "hidden"].includes(getComputedStyle(n).overflowX) &&
            n.tagName !== "BODY" && n.tagName !== "HTML"))
    .slice(0, 5).map((e) => e.outerHTML.slice(0, 160))]"""

# What is cut off at the edge of a form or a figure, and no scrolling brings it in.
CUT = """() => [...document.querySelectorAll("article :is(.rl, .rl-figure)")].flatMap((box) => {
    const edge = box.getBoundingClientRect().right + 2;
    return [...box.querySelectorAll("p, table, td, th, dl, button, select, input, label, output")]
        .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > edge &&
            !node.closest(".rl-scroll, .rl-table, .rl-causes, pre"))
        .slice(0, 2).map((node) => `${(node.getBoundingClientRect().right - edge).toFixed()} px: ` +
            node.outerHTML.slice(0, 120));
})"""

# Letters of drawings, in px on the screen.
TINY = """() => [...document.querySelectorAll("article svg text")].flatMap((text) => {
    if (!text.checkVisibility() || !text.textContent.trim()) return [];
    const svg = text.ownerSVGElement, view = svg.viewBox.baseVal;
    const scale = view && view.width ? svg.getBoundingClientRect().width / view.width : 1;
    const px = parseFloat(getComputedStyle(text).fontSize) * scale;
    return px < 10.9 ? [`${px.toFixed(1)} px: ${text.textContent}`] : [];
})"""

# Whoever asks for no motion gets none.
MOVING = """() => [...document.getAnimations().map((a) => `runs: ${a.animationName ||
        a.transitionProperty}`), ...[...document.querySelectorAll("*")].flatMap((node) => {
    const style = getComputedStyle(node);
    const lasts = (times) => times.split(",").some((time) => parseFloat(time) > 0);
    return (style.animationName !== "none" && lasts(style.animationDuration)) ||
        lasts(style.transitionDuration) || style.scrollBehavior === "smooth"
        ? [`moves: ${node.outerHTML.slice(0, 100)}`] : [];
})]"""

# Under the reader's own colors: what a drawing says stands off the ground.
PALE = """() => {
    const probe = document.createElement("i"), canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const light = (color) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = color;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
        const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        return a < 128 ? null : 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    probe.style.color = "Canvas";
    document.body.append(probe);
    const ground = light(getComputedStyle(probe).color);
    probe.remove();
    const wrong = [], quiet = /rl-(grid|fine|hint|faint|lane-line|whole|part|pe|block|under)/;
    for (const node of document.querySelectorAll("article svg :is(text, path, line)")) {
        if (!node.checkVisibility() || quiet.test(node.getAttribute("class") ?? "")) continue;
        const style = getComputedStyle(node);
        if (/--rl-grid/.test(node.getAttribute("style") ?? "")) continue;
        if (parseFloat(style.opacity) < 0.5) continue;
        const inks = (node.tagName === "text" ? [style.fill] : [style.fill, style.stroke])
            .filter((color) => color !== "none").map(light).filter((ink) => ink !== null);
        const off = inks.map((ink) =>
            (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05));
        if (off.length && Math.max(...off) < 3) {
            wrong.push(`${Math.max(...off).toFixed(1)}: ${node.outerHTML.slice(0, 120)}`);
        }
    }
    return [ground, wrong];
}"""


# --- visits ----------------------------------------------------------------------------------

def visited(page: str, mode: str, address: str, visit: Any) -> Look:
    """Open a page as a reader does, then use all that is on it."""
    seen, look = visit(url(address, page), **MODES[mode]), Look()
    opened = seen.page
    settle(opened)
    look.theme = opened.evaluate("() => document.documentElement.dataset.theme")
    if mode == "phone":  # there as it is used, below
        unfold(opened)
    else:
        look.violations += violations(opened)
    # Used: what was hidden shows; every other form is answered wrong, in the dark the others.
    reveal(opened)
    for first, right in ((0, mode == "dark"), (1, mode != "dark")):
        answer(opened, FORMS[page][first::2], right)
    look.violations += violations(opened, within=".rl", without=".worked, .rl-tables")
    find = {"light": {"untold": UNTOLD, "outline": OUTLINE, "unmarked": UNMARKED, "small": SMALL},
            "dark": {"moving": MOVING},
            "phone": {"small": SMALL, "tiny": TINY, "wide": WIDE, "cut": CUT}}[mode]
    for name, probe in find.items():
        look.found[name] = opened.evaluate(probe.replace("%SHOWN%", SHOWN))
    if mode == "light":  # letters twice as large
        opened.evaluate("() => { document.documentElement.style.fontSize = '200%'; }")
        look.found |= {"wide": opened.evaluate(WIDE), "cut": opened.evaluate(CUT)}
    if mode == "dark":
        opened.emulate_media(forced_colors="active", color_scheme="dark")
        look.found["pale"] = opened.evaluate(PALE)
    if mode == "phone":
        opened.set_viewport_size({"width": 320, "height": 640})
        opened.wait_for_timeout(100)  # live figures draw at the new width
        for name in ("wide", "cut", "tiny"):
            look.found[name] += opened.evaluate(find[name])
    look.complaints = seen.complaints
    return look


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, str], Look]:
    return {}


@pytest.fixture
def look(kept, address, visit) -> Callable[[str, str], Look]:
    def at(page: str, mode: str) -> Look:
        if (page, mode) not in kept:
            kept[page, mode] = visited(page, mode, address, visit)
        return kept[page, mode]
    return at


# --- tests -----------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("page", PAGES)
def test_page_is_accessible(page, mode, look):
    """As it opens, and with every guess revealed, and every form answered, wrong and right."""
    seen = look(page, mode)
    assert seen.theme == ("dark" if mode == "dark" else "light")
    assert not seen.violations, "\n".join(seen.violations)
    assert not seen.complaints


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_told_in_words_and_numbers(page, look):
    assert not look(page, "light").found["untold"]


@pytest.mark.parametrize("page", PAGES)
def test_headings_language_and_title(page, look):
    assert not look(page, "light").found["outline"]


@pytest.mark.parametrize("page", PAGES)
def test_focus_shows_on_everything_that_keys_reach(page, look):
    assert not look(page, "light").found["unmarked"]


@pytest.mark.parametrize("mode", ["light", "phone"])
@pytest.mark.parametrize("page", PAGES)
def test_targets_are_large_enough(page, mode, look):
    assert not look(page, mode).found["small"]


@pytest.mark.parametrize("mode", ["light", "phone"])
@pytest.mark.parametrize("page", PAGES)
def test_no_sideways_scroll(page, mode, look):
    """On phones of 390 and 320 px, and on a desk with letters twice as large."""
    assert not look(page, mode).found["wide"]
    assert not look(page, mode).found["cut"]


@pytest.mark.parametrize("page", PAGES)
def test_letters_of_drawings_are_readable_on_a_phone(page, look):
    assert not look(page, "phone").found["tiny"]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_moves_where_no_motion_is_asked_for(page, look):
    assert not look(page, "dark").found["moving"]


@pytest.mark.parametrize("page", PAGES)
def test_drawings_stand_off_the_ground_in_high_contrast(page, look):
    ground, pale = look(page, "dark").found["pale"]
    assert ground < 0.2  # the emulation is on: a dark ground
    assert not pale


# --- keys ------------------------------------------------------------------------------------

# What keys reach in a live figure, in their order; of a group of radios one.
REACHED = """(figure) => [...figure.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((node) =>
    SHOWN(node) && !node.disabled && !(node.type === "radio" && [...figure.querySelectorAll(
        `input[name="${node.name}"]`)].find((one) => one.checked || !figure.querySelector(
        `input[name="${node.name}"]:checked`)) !== node))"""


def kinds(site: Any) -> dict[str, str]:
    """Each kind of live figure and the first page that has one."""
    found: dict[str, str] = {}
    for page in PAGES:
        for kind in re.findall(r'rl-live"[^>]*data-module="(\w+)"',
                               (site / f"{page}.html").read_text("utf-8")):
            found.setdefault(kind, page)
    return found


def test_keys_reach_and_work_every_control_of_a_live_figure(site, address, visit):
    """Tab goes through it in order and out again, both ways; arrows, Space and Enter do something
    on each control; of every kind of figure, as it opens and revealed.
    """
    pages = kinds(site)
    assert len(pages) >= 5
    for kind, page in pages.items():
        opened = visit(url(address, page), viewport=DESK).page
        settle(opened)
        unfold(opened)
        opened.evaluate("(reached) => { window.reached = (0, eval)(reached); }",
                        REACHED.replace("(figure) =>", f"(figure) => {{ {SHOWN} return")
                        .rstrip() + "; }")
        figure = opened.locator(f".rl-live[data-module={kind}]").first
        for state in ("as it opens", "revealed"):
            if state == "revealed" and not reveal(opened):
                break
            walk(opened, figure, f"{kind} on {page}, {state}")
        work(opened, figure, f"{kind} on {page}")


def walk(opened: Any, figure: Any, where: str) -> None:
    """From before the figure through it, and back."""
    opened.wait_for_timeout(700)  # the theme has taken keys off text that need not scroll
    count = figure.evaluate("""(figure) => {
        window.all = reached(figure);
        const before = document.createElement("button");
        before.id = "before";
        figure.before(before);
        before.focus();
        return all.length;
    }""")
    at = "() => all.indexOf(document.activeElement)"
    for keys, order in (("Tab", [*range(count), -1]), ("Shift+Tab", [*reversed(range(count)), -1])):
        seen = []
        for _ in order:
            opened.keyboard.press(keys)
            seen.append(opened.evaluate(at))
        assert seen == order, f"{where}, {keys}: {seen}"
    assert opened.evaluate("() => document.activeElement.id") == "before", where
    opened.evaluate("() => document.getElementById('before').remove()")


def work(opened: Any, figure: Any, where: str) -> None:
    """Every control answers its keys."""
    opened.evaluate("""() => {
        window.clicks = 0;
        addEventListener("click", () => { clicks += 1; }, true);
    }""")
    state = """() => { const node = document.activeElement; return [node.value, node.checked,
        node.getAttribute("aria-valuenow"), node.getAttribute("aria-valuetext"), clicks,
        node.parentElement?.open, node.closest(".rl-live")?.textContent].join("|"); }"""
    seen = figure.evaluate("(figure) => reached(figure).length")
    for n in range(seen):
        what = figure.evaluate("""(figure, n) => {
            const node = reached(figure)[n];
            if (!node) return "";
            node.focus();
            return node.matches("select") && node.options.length < 2 ? ""
                : node.matches("[role=region], [role=group]") ? ""
                : node.getAttribute("role") ?? (node.type === "text" ? "text" : node.tagName);
        }""", n)
        if not what:
            continue
        before = opened.evaluate(state)
        for key in {"text": ["1"], "BUTTON": ["Enter"], "SUMMARY": ["Enter"], "A": ["Enter"]}.get(
                what, ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Space"]):
            opened.keyboard.press(key)
            if opened.evaluate(state) != before:
                if what == "text":
                    opened.keyboard.press("Backspace")  # as it was
                break
        else:
            pytest.fail(f"{where}: no key moves control {n}, a {what}")


def test_the_skip_link_shows_and_leads_to_the_text(address, visit):
    opened = visit(url(address, PAGES[1]), viewport=DESK).page
    settle(opened)
    opened.keyboard.press("Tab")
    link = opened.locator(":focus")
    assert link.text_content().strip() == "Skip to main content"
    opened.wait_for_function("""() => {
        const box = document.activeElement.getBoundingClientRect();
        return box.top >= 0 && box.bottom <= innerHeight && box.height > 0;
    }""")
    opened.keyboard.press("Enter")
    opened.keyboard.press("Tab")
    assert opened.evaluate("() => Boolean(document.activeElement.closest('main'))")
