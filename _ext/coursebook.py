"""What this book adds to Jupyter Book.

Question  how do forms, worked answers, live figures and bound numbers get into a page?
Answer    cells marked in their metadata, and the directives {live}, {computed} and {worked}
Assumes   the library is installed; a page without a kernel must read in full
Ignores   what a figure or a form looks like: that is roofline.figures and roofline.plot

A cell with metadata {"roofline": {"form": ID}} becomes that problem's form; a cell tagged
`worked` becomes a folded answer. Both are nodes of their own, not raw HTML, so the search
index never sees an answer.
"""

import ast
import contextlib
import hashlib
import html
import io
import os
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parent.parent


# --- nodes ---------------------------------------------------------------------------------


class Html(nodes.General, nodes.Element):
    """HTML that the search index and the other builders pass over."""


def _visit_html(translator: Any, node: Html) -> None:
    translator.body.append(node["html"])
    raise nodes.SkipNode


def _skip(translator: Any, node: Html) -> None:
    raise nodes.SkipNode


def worked(text: str) -> Html:
    """A worked answer: folded, readable without script, out of the search index."""
    return Html(html='<details class="worked"><summary>Worked answer</summary>'
                     f"<pre>{html.escape(text.strip())}</pre></details>\n")


class Folded(nodes.comment):
    """A worked answer made of other nodes; as a comment it is out of the search index."""


def _open_fold(translator: Any, node: Folded) -> None:
    translator.body.append('<details class="worked"><summary>Worked answer</summary>\n')


def _close_fold(translator: Any, node: Folded) -> None:
    translator.body.append("</details>\n")


# --- cells ---------------------------------------------------------------------------------


def _cells(app: Sphinx, doctree: nodes.document) -> None:
    """Put forms, predictions and folded answers where the notebook marks them.

    A form brings its own worked answer, so the worked cell of the same question goes.
    """
    forms, guesses, answered = 0, 0, False
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") != "cell_code":
            continue
        metadata = cell["cell_metadata"]
        if guess := metadata.get("roofline", {}).get("predict"):
            guesses += _predict(cell, guess, scripted=not guesses)
        if form := metadata.get("roofline", {}).get("form"):
            from roofline import figures

            # The first form's script serves the others of the page.
            cell.replace_self(Html(html=figures.form(form, scripted=not forms)))
            forms, answered = forms + 1, True
        elif "worked" in metadata.get("tags", []):
            if answered:
                cell.parent.remove(cell)
            else:
                cell.replace_self(worked(_output_text(cell)))
            answered = False


def _predict(cell: nodes.Element, guess: dict[str, Any], scripted: bool) -> bool:
    """Ask for a guess before a cell; its output, folded, is what the guess is about.

    Returns whether it is asked: not where the reader's own machine gave another kind of text.
    """
    from roofline import figures

    if "hide-output" not in cell["cell_metadata"].get("tags", []):
        raise figures.PredictionError(f"prediction {guess['id']}: its cell shows its output; tag "
                                      "it hide-output")
    cell["ids"].append(result := "result-" + re.sub(r"[^\w-]", "-", guess["id"]))
    try:
        form = figures.prediction(guess["id"], guess["parts"], _output_text(cell), result,
                                  scripted=scripted)
    except figures.PredictionError:
        if os.environ.get("ROOFLINE_RECORDED"):
            raise
        # On a reader's own machine a result may be another text: partly measured, another engine.
        return False
    cell.parent.insert(cell.parent.index(cell), Html(html=form))
    return True


def _output_text(cell: nodes.Element) -> str:
    """A cell's text outputs, as the notebook stores them."""
    texts = []
    for output in cell.findall(nodes.container):
        if output.get("nb_element") == "cell_code_output":
            for child in output.children:
                plain = [n for n in child.children
                         if isinstance(n, nodes.Element) and n.get("mime_type") == "text/plain"]
                texts.append((plain[0] if plain else child).astext())
    return "\n".join(texts)


# --- directives ----------------------------------------------------------------------------


def names(source: str) -> dict[str, Any]:
    """The library's names that `source` mentions, as `from roofline import ...` binds them."""
    import roofline

    words = set(re.findall(r"\w+", source))
    return {name: getattr(roofline, name) for name in dir(roofline) if name in words}


def run(source: str, scope: dict[str, Any]) -> str:
    """Run `source` as a notebook cell does; what it prints, then the last expression's repr."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            tree.body.pop()
            exec(compile(tree, "<computed>", "exec"), scope)
            value = eval(compile(ast.Expression(last.value), "<computed>", "eval"), scope)
        else:
            exec(compile(tree, "<computed>", "exec"), scope)
    return printed.getvalue() + ("" if value is None else repr(value))


class _Python(SphinxDirective):
    """A directive whose body is Python with the library's names at hand."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        source = "\n".join([*self.arguments, *self.content])
        try:
            return self.show(source)
        except Exception as error:  # whatever the page's own code raises, the build names it
            what = f"{self.name}: {type(error).__name__}: {error}"
            raise self.error(f"{what}\n  in: {source.strip().splitlines()[-1]}") from error

    def show(self, source: str) -> list[nodes.Node]:
        raise NotImplementedError


class Live(_Python):
    """```{live} expression``` puts a live figure or a picture into a page."""

    def show(self, source: str) -> list[nodes.Node]:
        value = eval(source, names(source))
        if not hasattr(value, "_repr_html_"):
            raise TypeError(f"expected a figure, got {type(value).__name__}")
        return [Html(html=value._repr_html_() + "\n")]


class Worked(SphinxDirective):
    """```{worked}``` folds a worked answer in a page without cells."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [Folded("", "", *self.parse_content_to_nodes())]


class Computed(_Python):
    """```{computed}``` runs its body; the page shows the result and, folded, the code.

    The blocks of one page share their names, as a notebook's cells do. Option `hide-result`
    keeps the block out of the page: it still runs, and still binds the prose around it.
    """

    option_spec: ClassVar[dict[str, Any]] = {"hide-result": directives.flag}

    def show(self, source: str) -> list[nodes.Node]:
        scope = self.env.temp_data.setdefault("computed", {})
        scope.update(names(source))
        result = run(source, scope)
        if "hide-result" in self.options:
            return []
        code = Html(html='<details class="computed"><summary>How it is computed</summary>'
                         f"<pre>{html.escape(source.strip())}</pre></details>\n")
        return [nodes.literal_block(result, result, language="text", classes=["computed"]), code]


# --- staying fresh -------------------------------------------------------------------------


def fingerprint() -> str:
    """Hash of everything that executed outputs depend on, beside the pages themselves."""
    found = [ROOT / "requirements.txt"]
    for pattern in ("lib/roofline/**/*", "_ext/*.py", "day*/**/*", "casestudy/**/*"):
        found += ROOT.glob(pattern)
    digest = hashlib.sha256(os.environ.get("ROOFLINE_RECORDED", "").encode())
    for path in sorted(found):
        if path.is_file() and path.suffix not in (".ipynb", ".md", ".pyc") \
                and ".ipynb_checkpoints" not in path.parts:
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _drop_stale_outputs(app: Sphinx, config: Any) -> None:
    """Jupyter's execution cache does not notice an edited library; this does."""
    now, stamp = fingerprint(), Path(app.outdir).parent / ".fingerprint"
    config.course_fingerprint = now
    if not stamp.exists() or stamp.read_text() != now:
        shutil.rmtree(stamp.parent / ".jupyter_cache", ignore_errors=True)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(now)


# --- the page ------------------------------------------------------------------------------


def _assets(app: Sphinx, config: Any) -> None:
    # Not in _static/: Jupyter Book puts every script and style sheet below it on every page.
    config.html_static_path.append(str(ROOT / "assets"))


def _no_thebe(app: Sphinx) -> None:
    # Jupyter Book always loads it; without a kernel server it only raises errors on the page.
    for listeners in app.events.listeners.values():
        listeners[:] = [listener for listener in listeners if not
                        getattr(listener.handler, "__module__", "").startswith("sphinx_thebe")]


# Where a browser denies storage the theme's scripts would throw: they get one that keeps nothing.
_NO_STORAGE = """<script>
try { localStorage.length } catch { Object.defineProperty(window, "localStorage",
  { value: { getItem: () => null, setItem() {}, removeItem() {} } }) }
</script>
"""


def _page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    from roofline import plot

    for name in ("progress.js", "theme.js"):
        app.add_js_file(name, loading_method="defer")
    context["metatags"] = f"{context.get('metatags', '')}\n{_NO_STORAGE}<style>\n{plot.CSS}</style>"


# An icon in the theme's icon script: name:[width,height,[other names],"code",path or paths],
_ICON = re.compile(r'(?:"([\w-]+)"|([A-Za-z_$][\w$]*)):'
                   r'\[\d+,\d+,\[([^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\[[^\]]*\])\],?')


def _icons(app: Sphinx, error: Exception | None) -> None:
    """Keep the icons that the site shows: the theme's script holds 2000, over half a page's
    weight, and the pages use a dozen."""
    if error or app.builder.format != "html":
        return
    import pydata_sphinx_theme

    out, name = Path(app.outdir), "scripts/fontawesome.js"
    found = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static" / name
    shown = set()
    for page in [*out.rglob("*.html"), *out.glob("_static/scripts/*theme.js")]:
        shown |= set(re.findall(r"\bfa-([\w-]+)", page.read_text(encoding="utf-8")))

    def keep(icon: re.Match) -> str:
        names = {icon[1] or icon[2], *re.findall(r"[a-z][\w-]+", icon[3])}
        return icon[0] if names & shown else ""

    (out / "_static" / name).write_text(_ICON.sub(keep, found.read_text(encoding="utf-8")),
                                        encoding="utf-8")


_OPENS, _CLOSES = re.compile(r"[(\[“]+$"), re.compile(r"[^\s\w(\[“]+")


def together(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Keep a formula on one line with the punctuation before and after it."""
    for math in list(doctree.findall(nodes.math)):
        around: Any = math.parent
        at = around.index(math)
        before: Any = around[at - 1] if at else None
        after = around[at + 1:at + 2]
        opens = _OPENS.search(before) if isinstance(before, nodes.Text) else None
        closes = _CLOSES.match(after[0]) if after and isinstance(after[0], nodes.Text) else None
        if not opens and not closes:
            continue
        whole = nodes.inline(classes=["together"])
        math.replace_self(whole)
        if opens:
            around[at - 1] = nodes.Text(before[:opens.start()])
            whole += nodes.Text(opens[0])
        whole += math
        if closes:
            around[at + 1] = nodes.Text(after[0][closes.end():])
            whole += nodes.Text(closes[0])


def setup(app: Sphinx) -> dict[str, Any]:
    skip = (_skip, None)
    app.add_node(Html, html=(_visit_html, None), latex=skip, text=skip, man=skip, texinfo=skip)
    app.add_node(Folded, html=(_open_fold, _close_fold), latex=skip, text=skip, man=skip,
                 texinfo=skip)
    app.add_directive("worked", Worked)
    app.add_directive("live", Live)
    app.add_directive("computed", Computed)
    # A configuration value that pages depend on: when it changes, every page is read again.
    app.add_config_value("course_fingerprint", "", "env")
    app.connect("config-inited", _drop_stale_outputs)
    app.connect("config-inited", _assets)
    app.connect("builder-inited", _no_thebe, priority=1)
    app.connect("doctree-read", _cells)
    app.connect("doctree-resolved", together)
    app.connect("html-page-context", _page)
    app.connect("build-finished", _icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
