"""A prediction written down: kept, set beside what came, judged."""

import math

import pytest

from roofline import Count, Guess, Transfers, predict
from roofline.count import CountError
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
    assert "the same" in repr(mine.against(row="Fill "))
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
    with pytest.raises(GuessError, match=r"Q: it is not in this guess; .* Add Q=\.\.\. to it"):
        Guess(T=1.0).verdict(1, 2, "Q")
    with pytest.raises(GuessError, match="row: expected words, got 3"):
        Guess(row=3)


@pytest.mark.parametrize("value", [-1, "-2 us", math.nan, math.inf, "nan s", True, None, [1]])
def test_a_guess_is_a_finite_number_that_is_not_negative(value):
    with pytest.raises(GuessError, match=r"^Guess: T: .*Write it as in T='2\.5 ms'$"):
        Guess(T=value)


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "2 ms"])
def test_a_verdict_is_of_numbers(value):
    for pair, role in (((value, 1.0), "before"), ((1.0, value), "after")):
        with pytest.raises(GuessError, match=f"verdict: {role}: expected a number in s, got"):
            Guess(T=1.0).verdict(*pair)


def test_what_is_unknown_is_not_off():
    """No figure, or none that is finite."""
    rows = [Guess(Q="1 MB", row="fill").against(Q=value, row=None).rows
            for value in (None, math.inf, math.nan)]
    assert [row[1][2:] for row in rows] == [("unknown", ""), ("inf B", ""), ("nan B", "")]
    assert all(row[2][2:] == ("unknown", "") for row in rows)


def test_of_nothing_a_guess_is_the_same_or_another():
    assert [Guess(W=mine).against(W=0).rows[1][2:] for mine in (0, 3)] == [
        ("0 FLOP", "the same"), ("0 FLOP", "another")]


def test_a_guess_may_have_any_name():
    mine = Guess(verdict="memory", against="compute")
    assert [row[3] for row in mine.against(verdict="memory", against="memory").rows[1:]] == [
        "the same", "another"]


def test_a_capacity_and_a_share_are_shown_as_such():
    mine = Guess(SBUF="4 MiB", share=0.5)
    assert repr(mine).split() == ["SBUF", "4", "MiB", "share", "50", "%"]
    table = mine.against("by the code", SBUF=3 * 2**20, share=0.25)
    assert table.rows[0][2] == "found, by the code"
    assert [row[1:] for row in table.rows[1:]] == [("4 MiB", "3 MiB", "+33.3 %"),
                                                   ("50 %", "25 %", "+100.0 %")]


def test_no_line_is_wider_than_a_page():
    mine = Guess(row="fill " * 40, T=1e-12, Q_quite_long=...)
    table = Transfers(read={"name" * 30: (2**34, 2**20)})
    for shown in (mine, mine.against("modelled", row="y" * 200, T=1.0), table):
        assert max(map(len, repr(shown).splitlines())) <= 98
    assert mine.row == "fill " * 40


def test_a_table_of_transfers():
    table = Transfers(read={"a": (256, 8), "b": (1024, 2)}, written={"c": (512, 4)})
    assert table.count(bf16=100) == Count({"bf16": 100}, 256 * 8 + 1024 * 2, 512 * 4)
    *_, read, written, both = (line.split() for line in repr(table).splitlines())
    assert read[:3] == ["4,096", "B", "read"] and written[:3] == ["2,048", "B", "written"]
    assert both == ["Q", "6,144", "B", "both"]
    assert Transfers().count() == Count()
    for pair in ((256, -1), 256, (2.5, 2), (1, True), (1, 2.0)):
        with pytest.raises(ValueError, match=r"a: expected.*got .*Divide with //"):
            Transfers(read={"a": pair})
    with pytest.raises(CountError, match=r"written: expected names .*, got list\. Write it as in"):
        Transfers(written=[("c", 512, 4, "written")])


def test_a_table_stays_as_it_was_written():
    rows = {"a": (256, 8)}
    table = Transfers(read=rows)
    rows["a"] = (256, 9)
    assert table.read_bytes == 256 * 8


def test_what_floats_leave_is_no_change():
    same = 0.1 + 0.2  # 0.30000000000000004
    said = Guess(T=same).verdict(same, 0.3)
    assert said == "T held: it changed by 0 s, the prediction is 0 s off"


def test_a_share_without_its_percent_is_refused():
    assert Guess(share="75 %").share == Guess(share=0.75).share == 0.75
    assert Guess(share_of_P="0.9").share_of_P == 0.9 and Guess(share="300 %").share == 3
    for lost in ("75", 75):
        with pytest.raises(GuessError, match=r"share: .*got 75\. Write it with its %"):
            Guess(share=lost)


def test_words_are_the_same_however_they_stand():
    mine = Guess(order="Once,block,  reload", row="wait for DMA")
    found = {row[0]: row[3] for row in mine.against(order="once, block, reload",
                                                    row="wait for dma").rows[1:]}
    assert found == {"order": "the same", "row": "the same"}
    assert mine.against(order="block, once, reload").rows[1][3] == "another"


def test_a_miss_has_its_sign():
    """Predicted 3 ms, came 3.1: 0.1 ms too little."""
    assert "the prediction is -100 us off" in Guess(T="3 ms").verdict(2e-3, 3.1e-3)
    assert "the prediction is 100 us off" in Guess(T="3.2 ms").verdict(2e-3, 3.1e-3)
    assert "changed by -1 ms" in Guess(T="1 ms").verdict(2e-3, 1e-3)


def test_a_long_name_stays_on_the_page():
    mine = Guess(**{"row_" * 40: "fill"})
    assert max(map(len, (*repr(mine).splitlines(),
                         *repr(mine.against(**{"row_" * 40: "idle"})).splitlines()))) <= 98


def test_numbers_of_numpy_are_numbers():
    np = pytest.importorskip("numpy")
    assert Guess(W=np.int64(2**40), T=np.float32(0.5)).W == 2**40


# --- a prediction -------------------------------------------------------------------------


def test_a_prediction_shows_what_it_took():
    taken = predict("day5.plain", binds="HBM", rate=3e12, T=...)
    assert " ".join(repr(taken).split()) == "binds HBM rate 3000000000000.0 T not filled in"
    assert taken.id == "day5.plain" and taken.filled == {"binds": "HBM", "rate": "3000000000000.0"}


def test_an_untouched_prediction_is_none():
    assert predict("day5.plain", binds=..., rate=...).filled == {}


@pytest.mark.parametrize("wrong", [None, True, "", "  ", float("nan"), ["HBM"], 1j])
def test_what_no_prediction_is(wrong):
    with pytest.raises(GuessError, match=r"^day5\.plain: rate: expected .* leave the \.\.\.$"):
        predict("day5.plain", rate=wrong)


def test_a_prediction_of_any_length_stays_on_the_page():
    shown = repr(predict("day5.plain", **{"row_" * 40: "HBM\n" * 400}))
    assert len(shown.splitlines()) == 1 and len(shown) <= 98
