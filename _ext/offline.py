"""The whole site as one file to take along: entitlement-to-roofline.zip.

Question  how does a reader get the book onto a machine, or into a room, without a network?
Answer    at the end of a build the site is written into a zip beside its pages: unpacked, it
          opens from disk at index.html; every page links to it and says its size
Assumes   pages need nothing that is not of the site; what they fetch from disk is not fetched
Ignores   how often the book is built: the same site gives the same bytes, and then none are
          written
"""

import errno
import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

NAME = "entitlement-to-roofline.zip"
TOP = NAME.removesuffix(".zip")     # the folder in it

# Sphinx's own notes, reports of failed cells, maps for the theme's developers, and the Python that
# runs in a page that is served, and in none that is opened from disk.
_LEFT_OUT = re.compile(r"\.buildinfo.*|\.nojekyll|reports/.*|.*\.map|_static/python/.*|"
                       rf"{re.escape(NAME)}|(.*/)?\..*\.tmp")
_LINK = re.compile(r'<a class="offline-zip"[^>]*>.*?</a>', re.S)
_SIZE = re.compile(r'(<span class="offline-size">)[^<]*(</span>)')
_COPY = "<span>This is a copy to read offline.</span>"

# Where a page is opened from disk, a browser lets no script read the others: results of a search
# show their titles alone.
_SEARCH = ('if (location.protocol === "file:") '
           "DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;")


def files(site: Path) -> Iterator[tuple[str, Path]]:
    """The site's files that go along, by name."""
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site).as_posix()
        if path.is_file() and not _LEFT_OUT.fullmatch(name):
            yield name, path


def content(name: str, path: Path) -> bytes:
    """What stands in the zip under `name`: the file itself, but that no copy offers the zip."""
    data = path.read_bytes()
    if PurePosixPath(name).suffix == ".html":
        return _LINK.sub(_COPY, data.decode("utf-8")).encode("utf-8")
    return data


def write(site: Path) -> Path:
    """Write the zip, unless the one that is there has this content already.

    Raises OSError when it cannot be written; what was there stays.
    """
    target = site / NAME
    contents = [(name, content(name, path)) for name, path in files(site)]
    digest = hashlib.sha256()
    for name, data in contents:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    comment = f"sha256 of its content: {digest.hexdigest()}".encode()
    if _comment(target) == comment:
        return target
    handle, scratch = tempfile.mkstemp(dir=site, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file, \
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.comment = comment
            for name, data in contents:
                entry = zipfile.ZipInfo(f"{TOP}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3             # whatever the system, the same bytes
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, data)
        os.chmod(scratch, 0o644)
        os.replace(scratch, target)
    except BaseException:
        os.unlink(scratch)
        raise
    return target


def _comment(path: Path) -> bytes:
    """What a zip says of itself; nothing if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment
    except (OSError, zipfile.BadZipFile):
        return b""


def _offline(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    site = Path(app.outdir)
    try:
        size = f"{write(site).stat().st_size / 1e6:.1f} MB"
        for page in site.rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            said = _SIZE.sub(rf"\g<1>{size}\g<2>", text)
            if said != text:
                page.write_text(said, encoding="utf-8")
    except OSError as problem:
        why = "the disk is full: free about 100 MB, then build again" \
            if problem.errno == errno.ENOSPC else str(problem)
        raise ExtensionError(f"{NAME}, the site to read offline, was not written: {why}") from None
    logging.getLogger(__name__).info("%s: %s", NAME, size)


def _link(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
          doctree: Any) -> None:
    """A line at the foot of every page."""
    if pagename == "search":
        app.add_js_file(None, body=_SEARCH)
    context["theme_extra_footer"] = (context.get("theme_extra_footer") or "") + (
        f'<p class="d-print-none"><a class="offline-zip" href="{context["pathto"](NAME, 1)}" '
        'download>The whole site to read offline (zip, <span class="offline-size"></span>)</a></p>')


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", _link, priority=600)
    app.connect("build-finished", _offline, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
