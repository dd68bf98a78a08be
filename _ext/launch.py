"""How a page of the book is run: JupyterLab on one's own machine, or Binder.

Question  where can a reader run the notebook that a page shows, and what does that need?
Answer    each notebook's page ends with it: the command, the notebook, the course's folder as a
          zip; where the build knows its repository, also Binder, a hub, and the source
Assumes   GITHUB_REPOSITORY (GitHub Actions sets it) or ROOFLINE_REPOSITORY=https://HOST/OWNER/NAME
          is the public repository of this course, and its branch main is what is published
Ignores   Colab: it opens a notebook without the folder that the notebook reads
"""

import html
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ConfigError

ROOT = Path(__file__).parent.parent
ZIP = "entitlement-to-roofline-folder.zip"
TOP = "entitlement-to-roofline"

# --- the repository ------------------------------------------------------------------------

_URL = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+")
_BINDER = ("https://github.com/", "https://gitlab.com/")


def repository(environ: Mapping[str, str]) -> str:
    """Where the course is published, or nothing."""
    url = environ.get("ROOFLINE_REPOSITORY", "")
    if not url and (name := environ.get("GITHUB_REPOSITORY")):
        url = f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    url = url.rstrip("/").removesuffix(".git")
    if url and not _URL.fullmatch(url):
        raise ConfigError(f"the course's repository: got {url!r}; ROOFLINE_REPOSITORY is "
                          "https://HOST/OWNER/NAME, or unset for a site without launch buttons")
    return url


def options(environ: Mapping[str, str]) -> dict[str, Any]:
    """The theme's options for what launches a page; none without a repository."""
    if not (url := repository(environ)):
        return {}
    launch = {"notebook_interface": "jupyterlab"}
    if url.startswith(_BINDER):
        launch["binderhub_url"] = "https://mybinder.org"
    if hub := environ.get("ROOFLINE_JUPYTERHUB", ""):
        if not re.fullmatch(r"https?://[^\s\"'<>]+", hub):
            raise ConfigError(f"ROOFLINE_JUPYTERHUB: expected https://..., got {hub!r}")
        launch["jupyterhub_url"] = hub
    return {"repository_url": url, "repository_branch": "main", "path_to_docs": "",
            "repository_provider": "gitlab" if "gitlab" in url.split("/")[2] else "github",
            "use_repository_button": True, "use_source_button": True, "launch_buttons": launch}


def _configure(app: Sphinx, config: Any) -> None:
    config.html_theme_options = {**config.html_theme_options, **options(os.environ)}


# --- the folder ----------------------------------------------------------------------------

_FILES = re.compile(r"(?!\.).*\.(md|py|txt|in|toml|yml|bib|cff)|LICENSE")
_NOT = re.compile(r"(.*/)?(\..*|__pycache__|.*\.egg-info)(/.*)?|.*\.pyc")


def folder(root: Path) -> Iterator[tuple[str, Path]]:
    """What course.py serves, builds and opens in JupyterLab: the course without its tests."""
    pages = re.findall(r"(?:file|root): *(\S+)", (root / "_toc.yml").read_text(encoding="utf-8"))
    tops = {"lib", "_ext", "_jupyter", "_static", "assets", "workshop", "LICENSES"} | {
        page.partition("/")[0] for page in pages if "/" in page}
    found = [path for top in tops for path in (root / top).rglob("*")]
    found += [path for path in root.iterdir() if _FILES.fullmatch(path.name)]
    for path in sorted(found):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not _NOT.fullmatch(name):
            yield name, path


def write(root: Path, target: Path) -> None:
    """Write the folder's zip; the same files give the same bytes."""
    scratch = target.with_name(f".{target.name}.tmp")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, path in folder(root):
                entry = zipfile.ZipInfo(f"{TOP}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3             # whatever the system, the same bytes
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, path.read_bytes())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def _write(app: Sphinx) -> None:
    if app.builder.name == "html":
        Path(app.outdir).mkdir(parents=True, exist_ok=True)
        write(ROOT, Path(app.outdir) / ZIP)


# --- the page ------------------------------------------------------------------------------


def beside(page: Path) -> list[str]:
    """What the course keeps beside a notebook for it to read."""
    found = [path.name + "/" * path.is_dir() for path in sorted(page.parent.iterdir())
             if path.suffix not in (".ipynb", ".md") and not _NOT.fullmatch(path.name)]
    return sorted(found, key=lambda name: name.endswith("/"))


def _codes(names: list[str]) -> str:
    return ", ".join(f"<code>{html.escape(name)}</code>" for name in names)


def how(page: str, pathto: Any, size: float, url: str, launches: list[tuple[str, str]],
        needs: list[str]) -> str:
    """The lines at the end of a notebook's page: what runs it, and with what."""
    name, notebook = html.escape(page), pathto(f"_sources/{page}.ipynb", 1)
    source = f' or from <a href="{html.escape(url)}">its repository</a>' if url else ""
    lines = [
        f"<code>python3 course.py lab {name}</code> in the course's folder opens this page in "
        f'JupyterLab on your machine. The folder: <a href="{pathto(ZIP, 1)}" download>course '
        f"folder (zip, {size / 1e6:.1f} MB)</a>{source}.",
        f'<a href="{notebook}" download>Download this notebook</a>. It runs inside the folder, in '
        "an environment with <code>requirements.txt</code>: its cells use the library in "
        f"<code>lib/</code>{' and, beside it, ' if needs else ''}{_codes(needs)}.",
    ]
    for text, where in launches:
        said = ("mybinder.org, a free public service, builds the environment of "
                "<code>requirements.txt</code>: minutes when nobody has been there lately. It has "
                "no Trainium, so recordings are replayed, and it keeps nothing that you write."
                if text == "Binder" else
                "the hub needs the packages of <code>requirements.txt</code> and nbgitpuller.")
        lines.append(f'<a href="{html.escape(where)}">Open this page on {html.escape(text)}</a>: '
                     f"{said}")
    items = "".join(f"<li>{line}</li>" for line in lines)
    return ('<aside class="run-page d-print-none" id="run-this-page" '
            'aria-labelledby="run-this-page-title"><p id="run-this-page-title">'
            f"<strong>Run this page</strong></p><ul>{items}</ul></aside>\n")


def _page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
          doctree: Any) -> None:
    source = Path(app.env.doc2path(pagename)) if pagename in app.env.all_docs else None
    if source is None or source.suffix != ".ipynb" or "body" not in context:
        return
    launches = []
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if group.get("label") == "launch-buttons":
                launches.append((button["text"], button["url"]))
                button["tooltip"] = f"Open this page on {button['text']}"
            elif button.get("label") == "download-source-button":
                button |= {"text": "Notebook (.ipynb)", "tooltip": "Download notebook"}
        if group.get("label") == "download-buttons":
            group["buttons"].insert(1, {
                "type": "link", "url": context["pathto"](ZIP, 1), "icon": "fas fa-file",
                "text": "Course folder (.zip)", "label": "download-folder-button",
                "tooltip": "Download the folder that the notebook runs in"})
    context["body"] += how(pagename, context["pathto"], (Path(app.outdir) / ZIP).stat().st_size,
                           repository(os.environ), launches, beside(source))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", _configure)
    app.connect("builder-inited", _write)
    app.connect("html-page-context", _page, priority=550)   # the theme's buttons are there
    return {"parallel_read_safe": True, "parallel_write_safe": True}
