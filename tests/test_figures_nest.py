"""The live player of a loop nest: its events are Nest.walk's, its totals Nest.achieved's."""

import json
import random
import re
from collections import Counter

import pytest
from figuretext import uncut
from test_figures import READS, page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import figures, ops, units
from roofline.figures.live import script
from roofline.loopnest import Nest, NestError

MATMUL = ops.Matmul(1280, 512, 2048)
# text, times A and B are read
FOUR = (("m128 n512 C k128 A B", 4, 10),             # N / 512 and M / 128
        ("m128 A n512 C k128 B", 1, 10),             # 128 rows of A stay
        ("B m128 A n512 C k128", 1, 1),              # B stays whole
        ("m256 n1024 C k128 A B m128 n512", 2, 5))   # N / 1024 and M / 256
MLP = Nest(ops.MLP(256, 512, 2048), "b128 x y f512 g (d128 W_up) (W_down e512)")
ATTENTION = Nest(ops.Attention(1024, 128), "i128 Q O j512 A (K) (V)")
OPEN = Nest(ops.MLP(4, 4, 8), "b2 g (d2 f4 x W_up) (e2 y f4 W_down)")  # sums of g wait in PSUM
SPILLS = Nest(MATMUL, "k128 m128 A n512 B C")


def four():
    return figures.nest([Nest(MATMUL, text) for text, *_ in FOUR])


# --- Python side ---------------------------------------------------------------------------


def test_the_question_and_the_tables_are_the_library_s():
    text = uncut(four())
    assert "Which of them moves the fewest bytes over HBM?" in text and "<" not in text
    M, K, N = 1280, 512, 2048
    for nest, r_A, r_B in FOUR:
        read, written = 2 * (r_A * M * K + r_B * K * N), 2 * M * N
        shown = (units.show(read, "B"), units.show(written, "B"), units.show(read + written, "B"),
                 units.show(2 * M * K * N / (read + written), "FLOP/B"))
        assert re.search(rf"^{nest} +read {r_A} x +read {r_B} x +written 1 x +"
                         + " +".join(map(re.escape, shown)), text, re.M), nest
    assert four()._repr_html_() == four()._repr_html_()


def test_one_nest_asks_for_the_tensor_that_comes_back_most():
    data = figures.nest(SPILLS).data  # B: once a step of m, 1280 / 128
    assert data["says"][-1].endswith("How many times does each byte of B cross HBM?")
    assert [data["answers"][i] for i in data["right"]] == ["10 times"]
    assert len(set(data["answers"])) == len(data["answers"]) >= 3
    assert "g is made on chip and never crosses HBM" in figures.nest(MLP).text
    assert data["says"][0].startswith("A matmul of 1280 x 512 by 512 x 2048 in bf16 is computed")
    assert figures.nest(MLP).text.startswith(
        "An MLP of x (256 x 512), W_up (512 x 2048) and W_down (2048 x 512) in bf16 is")
    once = figures.nest(Nest(ops.Matmul(8, 8, 8), "C A B")).data
    assert [once["answers"][i] for i in once["right"]] == ["once"] and len(once["answers"]) >= 3


def test_an_output_that_spills_is_asked_for_its_writes():
    live = figures.nest(Nest(ops.Matmul(256, 1024, 2048), "k128 A B m128 n512 C"))
    data = live.data  # 1024 / 128 steps of k: written at each, read at each but the first
    assert data["says"][-1].endswith("How many times is each block of C written to HBM?")
    assert [data["answers"][i] for i in data["right"]] == ["8 times"]
    assert {"7 times", "15 times"} <= set(data["answers"])  # read; both ways
    assert data["verdict"] == "Each block of C is written 8 times, and read back 7 times."
    assert re.search("read 1 x +read 1 x +written 8 x, read 7 x ", uncut(live))
    twice = figures.nest(Nest(ops.Matmul(2, 2, 2), "k1 A B C")).data
    assert twice["verdict"] == "Each block of C is written 2 times, and read back once."


@pytest.mark.parametrize(("op", "words"), [
    (ops.Linear(2, 3, 4, w_dtype="fp8"), "A linear layer of 2 x 3 by 3 x 4 in bf16 and fp8"),
    (ops.Attention(4, 2), "One head of attention of Q (4 x 2), K (4 x 2) and V (4 x 2) in bf16"),
    (ops.Softmax(2, 3), "A softmax of 2 x 3 in fp32"),
    (ops.Elementwise(8, 1, 1), "An elementwise op of 8 in bf16")])
def test_every_op_with_loops_has_words(op, words):
    assert figures.nest(Nest(op, " ".join(op.DIMS))).text.startswith(f"{words} is computed in")


def test_equal_mappings_are_both_right():
    live = figures.nest([Nest(MATMUL, FOUR[0][0]), Nest(MATMUL, "n512 m128 C k128 A B")])
    assert live.data["right"] == [0, 1]


@pytest.mark.parametrize(("made", "names", "says"), [
    ([], (), "expected nests of one op, got no nest"),
    ("m128 A B C", (), "got 'm128 A B C'; expected a loopnest.Nest"),
    ([MLP, MLP.op], (), r"got MLP\(.*; expected a loopnest.Nest"),
    (None, (), "got None; expected a loopnest.Nest"),
    ([MLP, ATTENTION], (), "expected nests of one op, got MLP"),
    ([MLP, MLP], (), "a name of its own for each of 2 nests, got 'b128"),
    ([MLP], ("a", "b"), "a name of its own for each of 1 nests, got 'a', 'b'"),
    (Nest(MATMUL, "m16 n16 C k128 A B"), (), "past 4000 loads, stores and steps.*larger tiles"),
    # 160 tiles of C: 1 + 4 x 3 + 1 each
    ([Nest(MATMUL, f"{loops} C k128 A B") for loops in ("m128 n128", "n128 m128")], (),
     "'n128 m128 C k128 A B' takes the figure past 4000"),
])
def test_what_it_cannot_show_it_says(made, names, says):
    with pytest.raises(ValueError, match=says):
        figures.nest(made, names)


def test_a_figure_stays_small():
    for live in (four(), figures.nest(MLP), figures.nest(ATTENTION)):
        assert len(live._repr_html_()) < 80_000
    # The most events that it takes: 20 x 20 x (1 + 3 x 3 + 1) = 4400 are too many, 18 x 20 fit.
    nest = Nest(ops.Matmul(18, 3, 20), "m1 n1 C k1 A B")
    assert len(figures.nest(nest)._repr_html_()) < 80_000


def test_the_script_is_inlined_whole():
    text = script("nest", "x")
    assert text.count("</") == 1 and "<!--" not in text and "innerHTML" not in text
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert "fetch(" not in text and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


# --- the page: every event -----------------------------------------------------------------

NTH = ["no", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth",
       "ninth", "tenth"]


def nth(n):
    if n < len(NTH):
        return NTH[n]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{'th' if n % 100 in (11, 12, 13) else ending}"


def spoken(nest):
    """What the player has to say at each event of Nest.walk, and the counters beside it."""
    outs = {r.name for r in nest.resident if r.write_bytes}
    memory = {(r.name, r.level): r.memory for r in nest.resident}
    times, read, written = Counter(), 0, 0
    for event in nest.walk():
        shape = f"[{', '.join(str(b - a) for a, b in event.where.values())}]"
        place = f"{event.name}[{', '.join(f'{a}:{b}' for a, b in event.where.values())}]"
        what = f"{event.name} block {shape}"
        here, out = memory.get((event.name, event.level)), event.name in outs
        moved = units.show(event.bytes, "B")
        if event.kind == "step":
            said = None
        elif event.kind == "load" and out and not event.bytes:
            said = f"open {what} in {here}: new sums" + (", nothing is read." if not event.level
                                                          else ".") + f" It is {place}."
        elif event.level:
            ways = [memory[event.name, event.level - 1], here]
            one, other = ways if event.kind == "load" else ways[::-1]
            said = (f"{event.kind} {what} from {one} to {other}: nothing crosses HBM. "
                    f"It is {place}.")
        else:
            read += event.bytes * (event.kind == "load")
            written += event.bytes * (event.kind == "store")
            times[place, event.kind] += 1
            n = times[place, event.kind]
            if event.kind == "load" and out:
                said = f"fetch {what}, {moved}: partial sums come back; read so far "
            else:
                partial = ", partial sums" if out and n < nest.reloads[event.name] else ""
                said = (f"{event.kind} {what}, {moved}: {nth(n)} time{partial}; "
                        f"{'written' if out else 'read'} so far ")
            said += f"{units.show(written if event.kind == 'store' else read, 'B')}. It is {place}."
        yield event, said, units.show(read, "B"), units.show(written, "B")


def random_nest(draw):
    """A nest of some op with small, often uneven tiles; None for text that is no nest."""
    size = lambda: draw.randint(2, 7)  # noqa: E731
    loop = lambda dim: f"{dim}{draw.randint(1, 4)}"  # noqa: E731
    kind = draw.choice(["matmul", "matmul", "linear", "mlp", "attention", "elementwise", "softmax"])
    if kind in ("mlp", "attention"):
        op, shared, holds, parts = {
            "mlp": (ops.MLP(size(), size(), size()), "bf", ["x", "y", "g"],
                    [["d", "W_up"], ["e", "W_down"]]),
            "attention": (ops.Attention(size(), size()), "ij", ["Q", "O", "A"],
                          [["K", "d"], ["V", "d"]])}[kind]
        tokens = [*map(loop, shared), *holds]
        for part in parts:  # a name of a part may also stand further out
            if draw.random() < 0.3:
                tokens.append(part.pop(part.index(max(part, key=str.isupper))))
        draw.shuffle(tokens)
        for part in parts:
            words = [loop(w) if w in "de" else w for w in part]
            draw.shuffle(words)
            tokens.append(f"({' '.join(words)})")
    else:
        op, dims, holds = {
            "matmul": (ops.Matmul(size(), size(), size()), "mnk", ["A", "B", "C"]),
            "linear": (ops.Linear(size(), size(), size(), w_dtype="int8"), "bdf", ["x", "W", "y"]),
            "elementwise": (ops.Elementwise(size() * 3, 1, 1), "n", ["x", "y"]),
            "softmax": (ops.Softmax(size(), size()), "rc", ["x", "y"])}[kind]
        again = draw.sample(dims, draw.randint(0, 1)) + draw.sample(holds, draw.randint(0, 1))
        tokens = [loop(w) if w in dims else w for w in [*dims, *holds, *again]]
        draw.shuffle(tokens)
    try:
        nest = Nest(op, " ".join(tokens))
    except NestError:
        return None
    return nest if sum(1 for _ in nest.walk()) <= 150 else None


# Steps through every figure of a page by its own keys: [status, read-outs, current line] each.
PLAY = """() => [...document.querySelectorAll(".rl-live")].map((el) => {
  [...el.querySelectorAll("button")].find((b) => b.textContent === "Skip").click();
  const slide = el.querySelector("input[type=range]"), found = [];
  const reads = () => Object.fromEntries([...el.querySelectorAll(".rl-reads dt")].map(
    (dt) => [dt.textContent, dt.nextElementSibling.textContent]));
  const first = reads();
  for (let i = 0; i < Number(slide.max); i++) {
    slide.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    found.push([el.querySelector(".rl-status").textContent, reads(),
      el.querySelector("[aria-current] .rl-words").textContent]);
  }
  return { first, found, now: Number(slide.value), numbers: [...el.querySelectorAll(
    ".rl-times")].map((t) => t.textContent) };
})"""


def test_the_page_is_walk_for_random_nests(page_of):  # noqa: F811
    """Order, blocks, bytes, counters and lines of each event; the end is Nest.achieved."""
    draw, made, tries = random.Random(5), [MLP, ATTENTION, OPEN], 0
    while len(made) < 40 and tries < 4000:
        tries += 1
        nest = random_nest(draw)
        made += [nest] if nest else []
    assert len({type(nest.op) for nest in made}) == 6 and len(made) == 40
    assert any(r.level for nest in made for r in nest.resident)
    assert any(r.write_bytes and r.read_bytes for nest in made for r in nest.resident)
    page = page_of("".join(figures.nest(nest)._repr_html_() for nest in made)).page
    for nest, got in zip(made, page.evaluate(PLAY), strict=True):
        outs = {r.name for r in nest.resident if r.write_bytes}
        assert got["first"]["read"].startswith("0 B of ")
        want = list(spoken(nest))
        assert got["now"] == len(want) == len(got["found"])
        for (event, said, read, written), (status, reads, line) in zip(want, got["found"],
                                                                      strict=True):
            if event.kind == "step":
                assert line == "multiply" and status.startswith("multiply "), nest
                assert ": nothing moves." in status
                for dim, (start, stop) in event.where.items():
                    found = re.search(rf"\b{dim} (\d+:\d+)", status)
                    assert not found or found[1] == f"{start}:{stop}"
            else:
                assert status.startswith(said), nest
                verb = event.kind
                if verb == "load" and event.name in outs:
                    verb = "fetch" if event.bytes else "open"  # the line says what is done now
                assert f"{line} ".startswith(f"{verb} {event.name} "), nest
            assert reads["read"].startswith(f"{read} of ")
            assert reads["written"].startswith(f"{written} of ")
        ends(nest, got["found"][-1][1])
        for name, most in nest.held.items():  # it is reached, and never passed
            held = [reads[f"in {name}"] for _, reads, _ in got["found"]]
            assert units.mebi(most) in held


def ends(nest, reads):
    """The read-outs after the last event are the library's totals."""
    count = nest.achieved
    assert reads["read"] == " of ".join([units.show(count.hbm_read_bytes, "B")] * 2)
    assert reads["written"] == " of ".join([units.show(count.hbm_write_bytes, "B")] * 2)
    assert reads["I so far"] == reads["I"] == units.show(count.intensity, "FLOP/B")
    for row in nest.resident:
        if row.level or row.name not in nest.reloads:
            continue
        label, back = f"{row.name} {'written' if row.write_bytes else 'read'}", (
            f"{row.name} read back")
        assert reads[label] == blocks(row.runs)
        if not row.write_bytes:
            assert reads[f"r_{row.name}"] == str(row.times)
        elif row.times > 1:
            assert reads[back] == blocks(row.runs - row.runs // row.times)
            assert reads[f"{row.name} written, times"] == str(row.times)
        else:
            assert back not in reads
    for name, most in nest.held.items():
        assert reads[f"most in {name}"] == units.mebi(most)


def blocks(n):
    return f"{n} of {n} block{'s' * (n != 1)}"


@pytest.mark.parametrize("nest", [*[Nest(MATMUL, text) for text, *_ in FOUR], MLP, ATTENTION,
                                  SPILLS], ids=lambda nest: nest.text)
def test_the_numbers_at_the_end_are_achieved(nest, page_of):  # noqa: F811
    page = page_of(figures.nest(nest)._repr_html_()).page
    page.click("text=Skip")
    page.keyboard.press("End")
    reads = page.evaluate(READS)
    ends(nest, reads)
    events = sum(1 for _ in nest.walk())
    assert reads["event"] == f"{events} of {events}"
    count = nest.achieved
    assert page.inner_text(".rl-status").endswith(
        f"That was the last one: Q {units.show(count.hbm_bytes, 'B')}, "
        f"I {units.show(count.intensity, 'FLOP/B')}.")
    # Each tile wears how often it has crossed.
    tiles = {r.name: r.runs // r.times for r in nest.resident if r.read_bytes or r.write_bytes}
    want = Counter(str(nest.reloads[name]) for name, n in tiles.items() for _ in range(n))
    assert Counter(page.locator(".rl-times").all_text_contents()) <= want


# Opacities of each tensor's tiles.
SHADES = """() => [...document.querySelectorAll(".rl-block")].reduce((found, one) => {
  (found[one.dataset.of] ??= new Set()).add(Number(one.style.fillOpacity).toFixed(3));
  return found;
}, {})"""


def test_one_scale_of_shades_for_all_tensors_and_mappings(page_of):  # noqa: F811
    """At the end a tensor that came once is the paler, the more often another came."""
    page = page_of(four()._repr_html_()).page
    page.click("text=Skip")
    shades = "JSON.stringify(Object.entries((" + SHADES + ")()).map(([k, v]) => [k, [...v]]))"
    for text, r_A, r_B in FOUR:
        page.get_by_label("Mapping", exact=True).select_option(label=text)
        page.get_by_text("End", exact=True).click()
        want = [[name, [f"{0.1 + 0.6 * n / 10:.3f}"]]  # 10: the most often of the four
                for name, n in (("A", r_A), ("B", r_B), ("C", 1))]
        assert sorted(json.loads(page.evaluate(shades))) == want


# Where the marks of a kind lie in their matrices: {tensor: [left, top, right, bottom]}, 0 to 1.
MARKS = """(kind) => Object.fromEntries([...document.querySelectorAll(
    `.rl-mark-${kind}`)].map((m) => {
  const all = [...document.querySelectorAll(`.rl-block[data-of="${m.dataset.of}"]`)].map(
    (one) => one.getBBox());
  const [x, y] = [Math.min(...all.map((b) => b.x)), Math.min(...all.map((b) => b.y))];
  const w = Math.max(...all.map((b) => b.x + b.width)) - x;
  const h = Math.max(...all.map((b) => b.y + b.height)) - y, b = m.getBBox();
  return [m.dataset.of, [(b.x - x) / w, (b.y - y) / h, (b.x + b.width - x) / w,
    (b.y + b.height - y) / h]];
}))"""


@pytest.mark.parametrize("nest", [*[Nest(MATMUL, text) for text, *_ in FOUR], ATTENTION],
                         ids=lambda nest: nest.text)
def test_marks_lie_where_the_blocks_are(nest, page_of):  # noqa: F811
    """What was loaded last is outlined, what the step works on is filled; K lies transposed."""
    page = page_of(figures.nest(nest)._repr_html_()).page
    page.click("text=Skip")
    events = list(nest.walk())
    dims = {event.name: tuple(event.where) for event in events if event.name}
    sizes, slide, seen = nest.sizes, page.locator("input[type=range]"), 0

    def box(name, where):
        (a, b), (c, d) = ([place / sizes[dim] for place in where[dim]] for dim in dims[name])
        return [a, c, b, d] if name == "K" else [c, a, d, b]

    for at in range(len(events) // 3, len(events), len(events) // 7):
        at = next(i for i in range(at, len(events)) if events[i].kind == "step")
        slide.fill(str(at + 1))
        last = {e.name: e.where for e in events[:at] if e.kind == "load"}
        held, used = page.evaluate(MARKS, "held"), page.evaluate(MARKS, "step")
        for name in set(held) & set(dims):
            assert held[name] == pytest.approx(box(name, last[name]), abs=1e-4)
        for name in set(used) & set(dims):
            assert used[name] == pytest.approx(box(name, events[at].where), abs=1e-4)
        seen += len(held) + len(used)
        assert set(used) <= set(held)  # one works on what is there
    assert seen >= 30


# --- the page: hands -----------------------------------------------------------------------


def test_from_the_guess_to_the_end_by_keyboard_alone(page_of):  # noqa: F811
    page = page_of(four()._repr_html_()).page
    status = page.locator(".rl-status")
    assert page.locator(".rl-reads, input[type=range]").count() == 0
    assert page.locator(".rl-tables").is_hidden()  # they would tell
    assert "160 x" not in page.inner_text(".rl-code")  # runs would tell
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert status.inner_text() == "Choose one of them, or skip the guess."
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert status.inner_text() == (
        "B m128 A n512 C k128: 8.65 MB, the fewest bytes. You said so. "
        "Play, or step with the arrow keys; Page Up finds the next load, Page Down the one before.")
    assert page.locator(".rl-tables").is_visible()
    assert page.locator(".rl-tables").get_attribute("open") is None
    at = lambda: page.evaluate(READS)["event"].removesuffix(" of 560")  # noqa: E731
    assert at() == "0"
    page.keyboard.press("ArrowRight")
    assert status.inner_text() == (
        "open C block [128, 512] in PSUM: new sums, nothing is read. It is C[0:128, 0:512].")
    page.keyboard.press("PageUp")
    assert status.inner_text() == (  # 128 x 128 x 2 B
        "load A block [128, 128], 32.8 kB: first time; read so far 32.8 kB. It is A[0:128, 0:128].")
    assert page.inner_text("[aria-current]") == "load A [128, 128] in SBUF"
    for _ in range(8):  # A and B of 4 steps of k, then of the next n
        page.keyboard.press("PageUp")
    assert status.inner_text().startswith("load A block [128, 128], 32.8 kB: second time; ")
    page.keyboard.press("PageDown")
    assert status.inner_text().startswith("load B block [128, 512], 131 kB: first time; ")
    page.keyboard.press("ArrowLeft")
    assert status.inner_text().startswith("load A block [128, 128]")
    page.keyboard.press("End")
    assert at() == "560" and status.inner_text().startswith("store C block [128, 512], 131 kB: ")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageUp")
    assert at() == "560" and status.inner_text() == "No load is left."
    page.keyboard.press("Home")
    assert at() == "0" and status.inner_text() == "Start. Nothing has moved yet."
    page.keyboard.press("PageDown")
    assert status.inner_text() == "No load came before."


def test_a_wrong_guess_is_told(page_of):  # noqa: F811
    page = page_of(figures.nest(SPILLS)._repr_html_()).page
    page.get_by_label("once").check()
    page.click("text=Check my guess")
    assert page.inner_text(".rl-status").startswith(
        "Each byte of B crosses 10 times. You said once.")


def test_it_plays_pauses_and_ends(page_of):  # noqa: F811
    page = page_of(four()._repr_html_()).page
    page.click("text=Skip")
    assert page.inner_text(".rl-status").startswith("B m128") and "You" not in page.inner_text(
        ".rl-status")
    event = "document.querySelector('.rl-reads dd').textContent.split(' ')[0]"
    page.get_by_label("Speed").select_option(label="16 events a second")
    page.focus("input[type=range]")
    page.keyboard.press("Space")
    page.wait_for_function(f"Number({event}) >= 3")
    assert page.get_by_text("Pause").is_visible()
    assert page.get_attribute(".rl-status", "aria-live") == "off"  # no chatter while it plays
    page.keyboard.press("Space")
    there = page.evaluate(event)
    page.wait_for_timeout(200)
    assert page.evaluate(event) == there and page.get_by_text("Play", exact=True).is_visible()
    page.get_by_label("Speed").select_option(label="256 events a second")
    page.get_by_text("Play", exact=True).click()
    page.wait_for_function(f"{event} === '560'")
    assert page.get_by_text("Play", exact=True).is_visible()
    assert page.get_attribute(".rl-status", "aria-live") == "polite"
    page.get_by_text("Play", exact=True).click()  # from the start again
    page.wait_for_function(f"Number({event}) < 560")


def test_buttons_jump_and_mappings_change(page_of):  # noqa: F811
    page = page_of(figures.nest([Nest(MATMUL, text) for text, *_ in FOUR],
                                ["reload", "A stays", "B stays", "C stays"])._repr_html_()).page
    mapping = page.get_by_label("Mapping", exact=True)
    mapping.select_option(label="B stays")  # before the guess: to look at the code
    assert page.inner_text(".rl-code li >> nth=0") == "load B [512, 2048] in SBUF"
    assert page.locator(".rl-predict label").nth(3).inner_text() == f"C stays: {FOUR[3][0]}"
    page.get_by_text("Skip").click()
    page.get_by_text("Next store").click()
    assert page.inner_text(".rl-status").startswith("store C block [128, 512], 131 kB: first time")
    assert page.evaluate(READS)["B read"] == "1 of 1 block"
    page.get_by_text("Next load").click()  # the next rows of A; B is there
    assert page.inner_text(".rl-status").startswith("load A block [128, 512], 131 kB: first time")
    page.get_by_text("Step", exact=True).click()
    page.get_by_text("Back", exact=True).click()
    assert page.inner_text("[aria-current]") == "load A [128, 512] in SBUF"
    mapping.select_option(label="C stays")
    reads = page.evaluate(READS)
    assert reads["event"].startswith("0 of ") and page.evaluate(
        "document.activeElement.tagName") == "SELECT"
    Q = 2 * (2 * 1280 * 512 + 5 * 512 * 2048 + 1280 * 2048)
    assert reads["C stays"] == (
        f"{units.show(Q, 'B')}, {units.show(2 * 1280 * 512 * 2048 / Q, 'FLOP/B').split()[0]}")
    page.get_by_text("End", exact=True).click()
    ends(Nest(MATMUL, FOUR[3][0]), page.evaluate(READS))
    page.get_by_text("Start", exact=True).click()
    assert page.evaluate(READS)["event"].startswith("0 of ")


@pytest.mark.parametrize("nest", [Nest(MATMUL, FOUR[0][0]), SPILLS], ids=lambda n: n.text)
def test_no_number_wraps_beside_the_matrices(nest, page_of):  # noqa: F811
    page = page_of(figures.nest(nest)._repr_html_(), viewport={"width": 720, "height": 900}).page
    page.click("text=Skip")
    page.keyboard.press("End")
    assert 200 < page.evaluate("document.querySelector('.rl-side').clientWidth") < 300
    assert page.evaluate("""[...document.querySelectorAll(
      ".rl-reads dt, .rl-reads dd > span:first-child")].filter((e) => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1;
      }).map((e) => e.textContent)""") == []


def test_less_motion_means_a_coarse_step_a_press(page_of):  # noqa: F811
    page = page_of(four()._repr_html_(), reduced_motion="reduce").page
    page.click("text=Skip")
    assert page.get_by_label("Speed").count() == 0
    for n in (28, 56):  # 560 / 20
        page.keyboard.press("Space")
        assert page.evaluate(READS)["event"] == f"{n} of 560"
    page.wait_for_timeout(300)
    assert page.evaluate(READS)["event"] == "56 of 560"
    assert page.get_by_text("On by 28").is_visible()


def test_the_slider_is_dragged_in_silence(page_of):  # noqa: F811
    page = page_of(four()._repr_html_()).page
    page.click("text=Skip")
    slide = page.locator("input[type=range]")
    slide.fill("200")
    assert page.evaluate(READS)["event"] == "200 of 560"
    assert slide.get_attribute("aria-valuetext") == "200 of 560"
    assert page.get_attribute(".rl-status", "aria-live") == "off"


def test_without_script_the_text_and_the_totals_are_there(page_of):  # noqa: F811
    page = page_of(four()._repr_html_(), java_script_enabled=False).page
    assert page.inner_text(".rl-live p >> nth=0").startswith("Where scripts run, a player of ")
    assert "Which of them moves the fewest bytes" in page.inner_text(".rl-live")
    assert page.locator(".rl-tables table").first.is_visible()
    for text, *_ in FOUR:
        count = Nest(MATMUL, text).achieved
        assert units.show(count.hbm_bytes, "B") in page.inner_text(".rl-tables table >> nth=0")
    assert "store C" in page.inner_text(".rl-tables")
    assert page.locator("input, button, select").count() == 0


def test_two_figures_on_a_page_keep_apart(page_of):  # noqa: F811
    html = figures.nest(MLP)._repr_html_()
    page = page_of(html + four()._repr_html_() + html).page
    for skip in page.get_by_text("Skip").all()[::-1]:
        skip.click()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    last = page.locator(".rl-live").nth(2)
    last.locator("input[type=range]").focus()
    page.keyboard.press("End")
    assert [page.locator(".rl-live").nth(i).locator("dd").first.inner_text().split(" ")[0]
            for i in range(3)] == ["0", "0", str(sum(1 for _ in MLP.walk()))]


def test_data_is_text_never_markup(page_of):  # noqa: F811
    nasty = '</script><img src=x onerror="document.title=1"><b id=bad>"&amp;'
    seen = page_of(figures.nest([MLP, Nest(MLP.op, "b256 x y f512 g (d128 W_up) (W_down e512)")],
                                [nasty, "other"])._repr_html_())
    assert nasty in seen.page.inner_text(".rl-predict")
    seen.page.click("text=Skip")
    assert nasty in seen.page.inner_text(".rl-panel")
    assert seen.page.locator("#bad, img").count() == 0 and seen.page.title() == "Test"
    assert not seen.complaints


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_accessible_and_legible(dark, width, page_of):  # noqa: F811
    page = page_of(four()._repr_html_() + figures.nest(ATTENTION)._repr_html_(), dark=dark,
                   viewport={"width": width, "height": 700}).page
    assert violations(page) == []
    for skip in page.get_by_text("Skip").all()[::-1]:
        skip.click()
    for slide, at in zip(page.locator("input[type=range]").all(), ("60", "30"), strict=True):
        slide.fill(at)
    page.evaluate("document.querySelectorAll('.rl-tables').forEach((t) => { t.open = true; })")
    assert violations(page) == []
    assert not sideways(page)
    assert page.evaluate("""[...document.querySelectorAll("button, select, fieldset label, "
      + "input[type=range]")].every((e) => e.getBoundingClientRect().height >= 44)""")
    assert page.evaluate("""Math.min(...[...document.querySelectorAll(".rl-plot text")].map(
      (t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))""") >= 11.9
    boxes = page.evaluate("""[...document.querySelectorAll(".rl-plot text.rl-value")].map((t) => {
      const r = t.getBoundingClientRect(), s = t.closest("svg").getBoundingClientRect();
      return [t.textContent, r.left, r.top + 3, r.right, r.bottom - 3, s.left, s.right]; })""")
    for i, (one, l, t, r, b, left, right) in enumerate(boxes):
        assert l >= left and r <= right + 1, one
        for other, L, T, R, B in (box[:5] for box in boxes[i + 1:]):
            assert not (l < R and r > L and t < B and b > T), (one, other)
