import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import units


@pytest.mark.parametrize(("value", "unit", "text"), [
    (8589934592, "FLOP", "8.59 GFLOP"),
    (375e9, "B/s", "375 GB/s"),
    (0.5e12, "FLOP/s", "500 GFLOP/s"),
    (4e-3, "s", "4 ms"),
    (0.43e-6, "s", "430 ns"),
    (5.0, "FLOP/B", "5 FLOP/B"),
    (1 / 12, "FLOP/B", "0.0833 FLOP/B"),
    (999.9e9, "B/s", "1 TB/s"),      # rounds up into the next prefix
    (9.999, "FLOP/B", "10 FLOP/B"),  # three digits, not four
    (2.4e9, "Hz", "2.4 GHz"),
    (5.6e9, "transfer/s", "5.6 GT/s"),
    (0, "B", "0 B"),
    (1365.3, "", "1365"),            # whole digits are never dropped
    (-2e9, "FLOP", "-2 GFLOP"),
    (math.inf, "FLOP/B", "inf FLOP/B"),
])
def test_show(value, unit, text):
    assert units.show(value, unit) == text


@pytest.mark.parametrize(("text", "unit", "value"), [
    ("46.1 MB", "B", 46.1e6),
    ("46.1MB", "B", 46.1e6),
    ("28 MiB", "B", 28 * 1024 * 1024),
    ("0.375 TB/s", "B/s", 375e9),
    ("1 TFLOPS", "FLOP/s", 1e12),
    ("2 GFLOPs", "FLOP", 2e9),
    ("33,554,432", "FLOP", 33554432),
    ("89.5 us", "s", 89.5e-6),
    ("89.5 µs", "s", 89.5e-6),
    ("89.5 \u03bcs", "s", 89.5e-6),   # Greek mu, as some keyboards type it
    ("210 FLOPs/byte", "FLOP/B", 210),
    ("0.5 %", "", 0.005),
    ("2x", "", 2),
    ("1e-3", "s", 1e-3),
    ("1/12", "FLOP/B", 1 / 12),
    ("7/8 FLOP/B", "FLOP/B", 0.875),
    ("1,024 / 2 GB", "B", 512e9),
    ("5600 MT/s", "transfer/s", 5.6e9),
    ("375 GBps", "B/s", 375e9),
    ("375 GB/sec", "B/s", 375e9),
    ("375 GB per second", "B/s", 375e9),
    ("8 gb/s", "B/s", 8e9),
    ("2 GFLOP / s", "FLOP/s", 2e9),
    ("2 gflop/s", "FLOP/s", 2e9),
    ("210 FLOP per byte", "FLOP/B", 210),
    ("2 tflops", "FLOP/s", 2e12),   # what case does not say, the expected kind does
    ("2 tflops", "FLOP", 2e12),
    (4e-3, "s", 4e-3),
])
def test_parse(text, unit, value):
    assert units.parse(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(("text", "unit", "says"), [
    ("5 ms", "B", "'ms' is a time; expected bytes, in B"),
    ("4 GB", "B/s", "'GB' is bytes; expected a bandwidth, in B/s"),
    ("abc", "B", "no number in 'abc'"),
    ("", "B", "no number in ''"),
    ("nan", "s", "no number in 'nan'"),
    ("1e400", "s", "not a finite number"),
    ("1e300 GFLOP/s", "FLOP/s", "not a finite number"),   # not after its prefix, either
    (float("nan"), "s", "not a finite number"),
    ("5 parsec", "B", "unknown unit 'parsec'"),
    ("0,5 ms", "s", "comma may only group thousands; use a decimal point"),
    ("1.2 Gb", "B", "'Gb' is bits; bytes are written with a capital B"),
    ("1.2 Gb/s", "B/s", "'Gb/s' is bits"),
    ("10 Gbps", "B/s", "'Gbps' is bits"),
    ("10 gbps", "B/s", "'gbps' is bits"),
    ("8 bits", "B", "'bits' is bits"),
    ("2 TFLOPs", "FLOP/s", "'TFLOPs' is work; expected a compute rate, in FLOP/s"),
    ("5600 MHz", "transfer/s", "'MHz' is a clock frequency; expected a transfer rate"),
    ("1/0", "B", "not a finite number"),
    ("1/2/3", "", "unknown unit '/3'"),
    ("1" + " " * 2000 + "x\ny", "B", "no number in"),     # at once, not after a minute
    ([1], "s", "expected a number or text, got list"),
    (True, "s", "expected a number or text, got bool"),
])
def test_parse_says_what_is_wrong(text, unit, says):
    with pytest.raises(units.UnitError) as error:
        units.parse(text, unit)
    assert says in str(error.value)


@pytest.mark.parametrize("unit", units.BASES)
@pytest.mark.parametrize("text", ["x", "5 parsec", "0,5", "5 Gb"])
def test_no_error_names_a_number_that_could_be_an_answer(text, unit):
    with pytest.raises(units.UnitError) as error:
        units.parse(text, unit)
    assert not re.search(r"[0-9]", str(error.value).replace(repr(text), ""))


@given(st.floats(1e-9, 1e15), st.sampled_from(["FLOP", "B", "B/s", "FLOP/s", "FLOP/B", "Hz"]))
def test_what_is_shown_reads_back(value, unit):
    # three significant digits: at most half a unit in the third, 0.5 %
    assert units.parse(units.show(value, unit), unit) == pytest.approx(value, rel=5.1e-3)


@given(st.floats(1e-9, 1e3))
def test_shown_times_read_back(value):
    assert units.parse(units.show(value, "s"), "s") == pytest.approx(value, rel=5.1e-3)


def test_prefixes_are_decimal_and_binary_ones_spelled_out():
    assert units.UNITS["GB"] == (10**9, "B")
    assert units.UNITS["GiB"] == (2**30, "B")
    assert units.mebi(128 * 224 * 1024) == "28 MiB"
    assert units.mebi(2 * 1024) == "2 KiB"
    assert units.mebi(512) == "512 B"


def test_unknown_base_unit():
    with pytest.raises(units.UnitError, match="not a base unit"):
        units.show(1, "GB")
    with pytest.raises(units.UnitError, match="not a base unit"):
        units.parse("1", "GB")


def test_what_is_not_finite_has_no_digits():
    assert [units.significant(x) for x in (math.inf, -math.inf, math.nan, 0, -0.0)] == [
        "inf", "-inf", "nan", "0", "0"]
