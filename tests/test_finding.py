"""Search: what a reader types, and what comes first; served, from disk, without a mouse."""

import json
import re

import finding
import pytest
from docutils import nodes
from pages import ROOT
from sphinx.search.en import SearchEnglish
from visits import DESK, violations

# --- splitting -----------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [
    (r"T_\text{best}", ["T_best"]),
    (r"I^{*} = P/BW", ["I*", "P", "BW"]),
    ("I^* or I*", ["I*", "or", "I*"]),
    (r"H_{kv}", ["H_kv"]),
    ("nisa.nc_matmul(dst)", ["nisa.nc_matmul", "dst"]),
    ("187 us; 187us; 187 \u00b5s", ["187us"] * 3),
    ("78.6 TFLOP/s, 78.6 TFLOPS", ["78.6TFLOP", "s", "78.6TFLOP"]),
    ("78.6 at most", ["78.6", "at", "most"]),
    ("LNC=2 or LNC 2", ["LNC=2", "or", "LNC=2"]),
    ("k = 0. So k == 0", ["k=0", "So", "k", "0"]),
    ("memory-bound", ["memory", "bound"]),
    ("2 bytes in 3 steps", ["2", "bytes", "in", "3", "steps"]),
])
def test_a_name_is_one_word(text, expected):
    assert finding.words(text) == expected


@pytest.mark.parametrize(("word", "expected"), [
    ("nisa.nc_matmul", {"nc_matmul", "nisa", "nc", "matmul"}),
    ("a.b.c", {"b.c", "c", "a", "b"}),
    ("psum_bank_fmax", {"psum", "bank", "fmax"}),
    ("78.6", set()), ("78.6TFLOP", {"78.6", "TFLOP"}), ("187us", {"187", "us"}),
    ("LNC=2", {"LNC", "2"}), ("I*", {"I"}), ("ridge", set()),
])
def test_and_is_found_by_its_parts(word, expected):
    assert set(finding.parts(word)) == expected


def test_endings_are_taken_off_words_alone():
    search = finding.CourseSearch({})
    assert search.stem("ridges") == search.stem("ridge") == SearchEnglish({}).stem("ridge")
    assert [search.stem(w) for w in ("psum_banks", "I*", "nl.ds", "T_best", "187us")] == [
        "psum_banks", "i*", "nl.ds", "t_best", "187us"]


@pytest.mark.parametrize(("latex", "expected"), [
    (r"\min(P,\ I \times BW)", "min(P, I \u00d7 BW)"), (r"\frac{W}{P}", "W/P"),
    (r"2MNK/\sqrt{S} - 2S", "2MNK/\u221aS - 2S"), (r"W_\text{up}", "W_up"),
])
def test_formulas_are_read_as_text(latex, expected):
    assert finding.read(latex) == expected


def test_data_never_ends_its_script():
    class Env:
        class config:
            root_doc = "intro"
        toctree_includes = {"intro": ["b", "a"], "b": ["c"]}  # noqa: RUF012
        finding = {"a": [{"names": [["</script>", "x"]]}], "c": [{"names": []}]}  # noqa: RUF012

    data = finding.data(Env)
    assert "<" not in data
    back = json.loads(data)
    assert back["order"] == ["intro", "b", "a", "c"]
    assert [e["page"] for e in back["entries"]] == ["a", "c"]
    assert back["entries"][0]["names"][0][0] == "</script>"


def test_an_entry_has_the_names_its_term_gives():
    document = nodes.document(None, None)
    document.ids = {}
    term = nodes.term("", "", nodes.inline("", "", nodes.math("", r"r_A,\ r_B"), ids=["sym-r"]),
                      nodes.Text(", reload counts, count, "), nodes.literal("", "r_A"))
    document += nodes.definition_list("", nodes.definition_list_item(
        "", term, nodes.definition("", nodes.paragraph("", "How often. ",
                                                       nodes.literal("", "input reload")))))
    (entry,) = finding._symbols(document)
    assert {name for name, _ in entry["names"]} == {"r_A, r_B", "r_A", "r_B", "reload counts"}
    assert {anchor for _, anchor in entry["names"]} == {"sym-r"}
    assert entry["also"] == ["input reload"] and entry["text"] == "How often. input reload"


# --- the built page ------------------------------------------------------------------------

FIND = """(queries) => queries.map((query) => Search.find(query).results.map(
    ({kind, page, anchor}) => [kind, anchor ? `${page}#${anchor}` : page]))"""

# What a reader types: what must come first, and a page that must be among the rest.
FIRST = {
    "I": ("notation#sym-i", "day1/roofline"), "W": ("notation#sym-w", "day1/roofline"),
    "Q": ("notation#sym-q", "day5/reuse"), "P": ("notation#sym-p", "day3/spec_roofs"),
    "p": ("notation#sym-p-bytes", "day5/reuse"),
    "BW": ("notation#sym-bw", "day3/spec_roofs"), "I*": ("notation#sym-ridge", "day1/roofline"),
    "I^{*}": ("notation#sym-ridge", "day1/roofline"), "r_A": ("notation#sym-r", "day5/reuse"),
    "$r_B$": ("notation#sym-r", "day5/reuse"), "T_best": ("notation#sym-t-best", "day1/roofline"),
    r"T_\text{best}": ("notation#sym-t-best", "day1/roofline"),
    "t_worst": ("notation#sym-t-worst", "day1/roofline"), "T": ("notation#sym-t", "day1/roofline"),
    "A": ("notation#sym-abc", None), "k": ("notation#sym-k-crossings", "day5/reuse"),
    "k = 0": ("notation#sym-k-crossings", "day5/reuse"),
    "hbm_bytes": ("notation#sym-q", "day5/reuse"),
    "ridge": ("glossary#term-ridge", "day1/roofline"),
    "ridges": ("glossary#term-ridge", "day1/roofline"),
    '"ridge point"': ("notation#sym-ridge", "day1/roofline"),
    "machine balance": ("glossary#term-machine-balance", "glossary"),
    "operational intensity": ("glossary#term-operational-intensity", "day1/paper2009"),
    "memory bound": ("glossary#term-memory-bound", "day1/roofline"),
    "MFU": ("glossary#term-MFU", "day7/capstone"), "HFU": ("glossary#term-HFU", "day7/stranger"),
    "GELU": ("glossary#term-GELU", "day5/reuse"), "SBUF": ("glossary#term-SBUF", "day5/reuse"),
    "psum": ("glossary#term-PSUM", "day6/trn2_sheet"),
    "LNC": ("notation#sym-lnc", "day6/trn2_sheet"),
    "LNC=2": ("notation#sym-lnc", "day6/trn2_sheet"),
    "LNC 2": ("notation#sym-lnc", "day6/trn2_sheet"),
    "bf16": ("notation#entry-bf16-fp16", "day3/spec_roofs"),
    "fp8": ("notation#entry-fp8-cfp8", "day6/trn2_sheet"),
    "roofline": ("glossary#term-roofline", "day1/roofline"),
    "loop nest": ("glossary#term-loop-nest", "day5/reuse"),
    "day5.traffic": ("day5/reuse#form-day5.traffic", "day5/reuse#form-day5.traffic"),
}
# Code and figures: no entry has them; every page that is found has them in its text.
USED = {
    "psum_bank_fmax": "day6/trn2_sheet", "gemm_moving_fmax": "day3/spec_roofs",
    "nc_matmul": "day5/count_from_code", "nisa.nc_matmul": "day5/count_from_code",
    "dma_copy": "day4/measured_roofs", "nl.ds": "day5/count_from_code",
    "figures.recount": "day5/count_from_code", "device.measure": "day4/measured_roofs",
    "78.6": "day6/trn2_sheet", "91.75": "day3/spec_roofs", "187 us": "day7/matmul",
    "M08": "day7/matmul",
}


@pytest.fixture
def ask(visit, address):
    seen = visit(f"{address}/search.html", viewport=DESK)

    def found(queries):
        result = dict(zip(queries, seen.page.evaluate(FIND, list(queries)), strict=True))
        assert not seen.complaints
        return result
    return found


def anchors(site, page):
    return set(re.findall(r'\bid="([^"]+)"', (site / f"{page}.html").read_text()))


def test_what_readers_type_is_found(ask, site):
    found = ask(FIRST)
    for query, (first, used) in FIRST.items():
        places = [where for _, where in found[query]]
        assert places[:1] == [first], query
        assert used is None or used in places, query
        page, _, anchor = first.partition("#")
        assert anchor in anchors(site, page), query


def test_code_and_figures_are_found_where_they_stand(ask, site):
    found = ask(USED)
    for query, used in USED.items():
        pages = [where for kind, where in found[query] if kind == "page"]
        assert used in pages, query
        assert len(pages) < 15, query
        for page in pages:
            text = re.sub(r"<[^>]+>", "", (site / f"{page}.html").read_text())
            assert query.replace(" ", "").lower() in re.sub(
                "\\s|&#160;", "", text.replace("\u00b5", "u")).lower(), (query, page)


def test_every_symbol_and_term_is_found_first_by_its_own_name(ask, site):
    """Two entries may share a name: then both come before anything else."""
    entries = json.loads(re.search(r"globalThis\.courseEntries = (.*?)</script>",
                                   (site / "search.html").read_text())[1])["entries"]
    own = {name: set() for entry in entries for name, _ in entry["names"]}
    for entry in entries:
        assert entry["names"], entry
        for name, anchor in entry["names"]:
            for other in own:
                if other.lower() == name.lower():
                    own[other].add(f"{entry['page']}#{anchor}")
            assert anchor in anchors(site, entry["page"]), (name, anchor)
    for name, found in ask(own).items():
        places = [where for _, where in found]
        if not any("#form-" in where for where in own[name]):
            assert set(places[:1]) <= own[name] and places, name

    def written(page):
        return (ROOT / f"{page}.md").read_text()

    symbols = set(re.findall(r"\{#(sym-[\w-]+)\}", written("notation")))
    assert len(symbols) >= 40
    known = {where.lower() for places in own.values() for where in places}
    assert {f"notation#{symbol.lower()}" for symbol in symbols} <= known
    terms = [line for block in re.findall(r"```\{glossary\}\n(.*?)```", written("glossary"), re.S)
             for line in re.findall(r"^(?=\S)(.+)$", block, re.M)]
    assert len(terms) > 150
    assert not [term for term in terms if term not in own]


def test_answers_predictions_and_forms_are_not_found(site):
    """A form is known by its id and title; what it asks and answers is not on the search page."""
    from roofline import problems

    page = (site / "search.html").read_text()
    entries = json.loads(re.search(r"courseEntries = (.*?)</script>", page)[1])["entries"]
    asked = [entry for entry in entries if entry.get("question")]
    assert len(asked) > 50
    for entry in asked:
        assert entry["text"] == "" and entry["also"] == []
        problem = problems.ask(entry["names"][0][0])
        assert {name for name, _ in entry["names"]} == {problem.id, entry["title"]}
        worked = " ".join(str(problem.worked()).split())
        assert worked[:60] not in page and json.dumps(worked)[1:60] not in page


def test_unknown_words_say_so_and_names_of_javascript_are_words(ask, visit, address):
    found = ask(["xyzzyq", "constructor", "hasOwnProperty", "toString", "", "the", "*", "("])
    assert not any(found.values()), found
    seen = visit(f"{address}/search.html?q=xyzzyq%3Cb%3E", viewport=DESK)
    status = seen.page.locator("[role=status]").inner_text()
    assert "Nothing in this book has" in status and "xyzzyq<b>" in status
    assert not seen.complaints


@pytest.mark.parametrize("served", [True, False], ids=["served", "from disk"])
def test_the_page(served, site, address, visit):
    """From disk no page can be read: entries still say what they are."""
    where = f"{address}/search.html" if served else f"{(site / 'search.html').as_uri()}"
    seen = visit(f"{where}?q=nothing", viewport=DESK)
    page = seen.page
    page.keyboard.press("Control+A")            # the field has the focus
    page.keyboard.type("r_A")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=r_A*")
    first = page.locator("ul.search li").first
    assert first.locator("p.context").inner_text().startswith("How often each byte")
    assert re.match(r"\d+ results for .r_A.\.$", page.locator("[role=status]").inner_text())
    pages = page.locator("ul.search li.kind-page")
    if served:
        # Where it first stands: a link to that section.
        pages.filter(has_text="Day 5: Buffers").locator("p.context").wait_for()
        page.wait_for_load_state("networkidle")
        assert "day5/reuse.html#" in pages.filter(has_text="Day 5: Buffers").locator(
            ".where + a").get_attribute("href")
    for _ in range(20):                         # by keyboard to the first result
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('ul.search') !== null"):
            break
    page.wait_for_load_state("networkidle")
    assert not seen.complaints
    page.keyboard.press("Enter")                # what is still on its way then fails
    page.wait_for_url("**/notation.html#sym-r")
    assert page.locator("#sym-r").is_visible()
    assert not seen.foreign and not seen.errors


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_violation(scheme, address, visit):
    seen = visit(f"{address}/search.html?q=LNC", viewport=DESK, color_scheme=scheme)
    seen.page.locator("ul.search li.kind-page p.context").first.wait_for()
    assert violations(seen.page) == []


def test_it_fits_a_phone(address, visit):
    seen = visit(f"{address}/search.html?q=P", viewport={"width": 320, "height": 700})
    seen.page.locator("ul.search li").first.wait_for()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 320


def test_summaries_leave_out_what_a_page_folds(address, visit):
    """The words of a worked answer are never around a word that the page has too."""
    seen = visit(f"{address}/search.html?q=bytes", viewport=DESK)
    seen.page.wait_for_function("""() => [...document.querySelectorAll('ul.search li.kind-page')]
        .filter((item) => item.querySelector('p.context')).length > 10""")
    said = seen.page.locator("ul.search").inner_text()
    assert "Worked answer" not in said and "How it is computed" not in said
