"""A prediction written down: kept, set beside what came, judged."""

import pytest

from roofline import Count, Guess, Transfers
from roofline.guess import GuessError


def test_what_is_found_stands_beside():
    mine = Guess(Q="25 MB", Q_apart="88 MiB", T=..., share="50 %", row="fill")
    assert (mine.Q, mine.Q_apart, mine.T, mine.row) == (25e6, 88 * 2**20, ..., "fill")
    table = mine.against("modelled", Q=25_165_824, T=510e-6, share=0.6, row="fill").rows
    assert table[0][2] == "found, modelled"
    assert {row[0]: row[3] for row in table[1:]} == {
        "Q": f"{100 * (25e6 / 25_165_824 - 1):+.1f} %", "T": "", "share": "-16.7 %",
        "row": "the same"}
    assert "another" in repr(mine.against(row="idle")) and "25 MB" in repr(mine)
    assert repr(Guess()) == "nothing"


@pytest.mark.parametrize(("told", "held"), [
    (3.1e-3, True),    # as it came
    (2.83e-3, True),   # 0.27 ms off, of a change of 1.1 ms
    (2.80e-3, False),  # 0.30 ms off
    (3.37e-3, True), (3.40e-3, False)])
def test_a_prediction_holds_within_a_quarter_of_the_change(told, held):
    said = Guess(T=told).verdict(before=2e-3, after=3.1e-3)
    assert said.startswith("T held" if held else "T not held") and "1.1 ms" in said


def test_a_small_change_leaves_a_hundredth():
    assert Guess(T=1.009).verdict(1.0, 1.0).startswith("T held")
    assert Guess(T=1.011).verdict(1.0, 1.0).startswith("T not held")
    assert Guess(Q_new="2 MB").verdict(1e6, 2e6, "Q_new").startswith("Q_new held")
    assert "no prediction" in Guess(T=...).verdict(1.0, 2.0)


def test_what_is_no_prediction_is_refused():
    with pytest.raises(GuessError, match=r"T: .*Write it as in T="):
        Guess(T="long")
    with pytest.raises(GuessError, match="Q: "):
        Guess(Q="3 us")
    with pytest.raises(GuessError, match="words have none"):
        Guess(row="fill").verdict(1, 2, "row")
    with pytest.raises(AttributeError, match="it has T"):
        Guess(T=1.0).against(Q=3)


def test_a_table_of_transfers():
    table = Transfers(read={"a": (256, 8), "b": (1024, 2)}, written={"c": (512, 4)})
    assert table.count(bf16=100) == Count({"bf16": 100}, 256 * 8 + 1024 * 2, 512 * 4)
    assert "6,144 B" in repr(table) and "4,096 B read, 2,048 B written" in repr(table)
    assert Transfers().count() == Count()
    for wrong in ({"a": (256, -1)}, {"a": 256}, {"a": (2.5, 2)}, {"a": (1, True)}):
        with pytest.raises(ValueError, match="a: expected"):
            Transfers(read=wrong)
