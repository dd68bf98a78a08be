"""Every source that a number names stands on the page of sources."""

import re
import tomllib

import pytest
from pages import ROOT

LIB = ROOT / "lib" / "roofline"
PAGE = (ROOT / "sources.md").read_text()
KEYS = sorted({source.split(",")[0] for source in
               re.findall(r'source = "([^"]+)"', (LIB / "machine.toml").read_text())})
CARDS = tomllib.loads((LIB / "models.toml").read_text())


@pytest.mark.parametrize("key", KEYS)
def test_a_source_of_machine_is_listed(key):
    assert f"{{#src-{key}}}" in PAGE
    assert re.search(rf"^@\w+{{{re.escape(key)},", (ROOT / "references.bib").read_text(), re.M)


@pytest.mark.parametrize("card", CARDS)
def test_a_model_card_links_its_file(card):
    assert CARDS[card]["url"] in PAGE


def test_there_are_sources():
    assert len(KEYS) > 20 and len(CARDS) > 5
