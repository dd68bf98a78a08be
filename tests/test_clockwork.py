"""The clockwork against arrays of registers that are moved one step a cycle."""

import random
from dataclasses import replace

import numpy as np
import pytest

from roofline import derate, machine, units
from roofline.clockwork import LOADS, Clockwork, ClockworkError

FULL = dict(K=128, M=128, N=512)


# --- the oracle ----------------------------------------------------------------------------


def starts_by_walking(N, passes, M, floor, load, matmuls, toy):
    """One instruction after another: when each matmul's first column enters."""
    loading = -(-M // 4) if toy else M / 4
    now = 0 if load == "kept" else loading
    starts = []
    for _ in range(matmuls):
        starts.append(int(np.ceil(now)))
        streamed = now + max(N, floor) * passes
        if load == "shown":
            streamed += loading  # nothing enters meanwhile
        elif load == "hidden":
            streamed = max(streamed, now + loading)
        now = streamed
    return starts


def walk(rows, columns, starts, tiles, passes=1, lanes=1):
    """Registers of every PE, moved right and down one step a cycle.

    tiles   (a, b) of each matmul, [K, M] and [K, N]; a row holds values k and k + K / lanes
    Gives active PEs of each cycle, MACs done by its end, and what left below: (cycle, m, sum).
    """
    wave, held = np.full((rows, columns), -1), []
    used, M = tiles[0][0].shape[0] // lanes, tiles[0][0].shape[1]
    N = tiles[0][1].shape[1]
    for a, b in tiles:
        padded = [np.zeros((rows * lanes, t.shape[1]), int) for t in (a, b)]
        there = np.zeros(rows * lanes, int)
        for row in range(a.shape[0]):
            place = row % used + rows * (row // used)
            padded[0][place], padded[1][place], there[place] = a[row], b[row], 1
        held.append((*(p.reshape(lanes, rows, -1) for p in padded),
                     there.reshape(lanes, rows).sum(0)))
    sums = np.zeros((rows, columns), int)
    active, macs, out, cycle, done = [], [], [], 0, 0
    while len(out) < len(tiles) * M * N:
        # The left edge: row k gets in cycle t what row 0 got in cycle t - k.
        entering = np.full(rows, -1)
        for k in range(rows):
            for i, start in enumerate(starts):
                step = cycle - k - start
                if 0 <= step < N * passes:
                    entering[k] = i * N * passes + step
        wave = np.hstack([entering[:, None], wave[:, :-1]])
        above = np.vstack([np.zeros((1, columns), int), sums[:-1]])
        sums, busy = above.copy(), 0
        for k, m in zip(*np.nonzero(wave >= 0), strict=True):
            i, step = divmod(wave[k, m], N * passes)
            n, turn = divmod(step, passes)
            if m >= M:
                continue
            a, b, there = held[i]
            if k < used:
                busy += 1
                if turn == passes - 1:
                    sums[k, m] += (a[:, k, m] * b[:, k, n]).sum()
                    done += there[k]
            if k == rows - 1 and turn == passes - 1:
                out.append((cycle, m, sums[k, m]))
        sums[wave < 0] = 0
        active.append(busy)
        macs.append(done)
        cycle += 1
    return active, macs, out


def tiles_of(clock, draw):
    kept = clock.load == "kept"
    deep, wide = (clock.K, clock.N * clock.matmuls) if kept else (clock.K * clock.matmuls, clock.N)
    return (np.array([[draw.randint(-9, 9) for _ in range(clock.M)] for _ in range(deep)]),
            np.array([[draw.randint(-9, 9) for _ in range(wide)] for _ in range(deep)]))


def split(clock, a, b):
    if clock.load == "kept":
        return [(a, b[:, i * clock.N:(i + 1) * clock.N]) for i in range(clock.matmuls)]
    return [(a[i * clock.K:(i + 1) * clock.K], b[i * clock.K:(i + 1) * clock.K])
            for i in range(clock.matmuls)]


def drawn(draw):
    dtype, core = draw.choice([("bf16", machine.trn1), ("fp32", machine.trn1),
                               ("bf16", machine.trn2), ("fp8", machine.trn2)])
    array = draw.randint(2, 8)
    return Clockwork(draw.randint(1, array) * (2 if dtype == "fp8" else 1),
                     draw.randint(1, array), draw.randint(1, 7), dtype, core,
                     draw.randint(1, 4), draw.choice(list(LOADS)), array)


@pytest.mark.parametrize("seed", range(300))
def test_registers_moved_one_by_one_agree(seed):
    """Start, cycles, active PEs and MACs of every cycle, every sum and when it arrives."""
    draw = random.Random(seed)
    clock = drawn(draw)
    passes, lanes = {"fp32": 4}.get(clock.dtype, 1), {"fp8": 2}.get(clock.dtype, 1)
    starts = starts_by_walking(clock.N, passes, clock.M, 0, clock.load, clock.matmuls, True)
    assert [clock.start(i) for i in range(clock.matmuls)] == starts
    a, b = tiles_of(clock, draw)
    active, macs, out = walk(clock.array, clock.array, starts, split(clock, a, b), passes, lanes)
    assert clock.cycles == len(active)
    assert [clock.active(t) for t in range(clock.cycles)] == active
    assert [clock.macs(t) for t in range(clock.cycles)] == macs
    assert clock.working == np.nonzero(active)[0].max() - np.nonzero(active)[0].min() + 1
    assert clock.active(clock.full) == max(active) and clock.full == active.index(max(active))
    # What left the last row, in its order per column, is what PSUM holds.
    a_, b_ = a.tolist(), b.tolist()
    for t in sorted({draw.randrange(clock.cycles) for _ in range(3)} | {clock.cycles - 1}):
        state = clock.state(t, a_, b_)
        assert sum(pe.moving is not None for row in state.pes for pe in row) == active[t]
        for m in range(clock.M):
            left = [value for when, column, value in out if column == m and when <= t]
            want = [None] * len(state.psum[m])
            for j, value in enumerate(left):
                n = j if clock.load == "kept" else j % clock.N
                want[n] = (want[n] or 0) + value
            assert list(state.psum[m]) == want
    assert (np.array(state.psum) == a.T @ b).all()


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("K, M, N, dtype", [
    (128, 128, 80, "bf16"), (64, 100, 32, "bf16"), (37, 90, 65, "bf16"), (128, 126, 17, "fp32"),
    (254, 127, 70, "fp8"), (128, 64, 40, "fp8")])
def test_the_real_array_agrees_with_the_registers(K, M, N, dtype, load):
    core = machine.trn2 if dtype == "fp8" else machine.trn1
    clock = Clockwork(K, M, N, dtype, core, 3, load)
    passes, lanes = {"fp32": 4}.get(dtype, 1), {"fp8": 2}.get(dtype, 1)
    starts = starts_by_walking(N, passes, M, 64, load, 3, False)
    assert [clock.start(i) for i in range(3)] == starts
    active, macs = count_by_walking(128, starts, K // lanes, M, K, N, passes)
    assert clock.cycles == len(active)
    assert [clock.active(t) for t in range(clock.cycles)] == active
    assert [clock.macs(t) for t in range(clock.cycles)] == macs


def count_by_walking(side, starts, used, M, K, N, passes):
    """As walk, but only flags: a column's step number shifts right, row by row later."""
    wave = np.full((side, side), -1)
    history = [-1] * side  # what entered row 0, latest first
    lanes = np.array([sum(1 for row in range(K) if row % used == k) if k < used else 0
                      for k in range(side)])
    active, macs, done, out = [], [], 0, 0
    while out < len(starts) * M * N:
        cycle = len(active)
        step = [cycle - s for s in starts if 0 <= cycle - s < N * passes]
        history = [step[0] if step else -1, *history[:-1]]
        wave = np.hstack([np.array(history)[:, None], wave[:, :-1]])
        work = (wave >= 0) & (np.arange(side)[:, None] < used) & (np.arange(side) < M)
        last = wave % passes == passes - 1
        done += int((lanes[:, None] * (work & last)).sum())
        out += int(((wave >= 0) & last)[-1, :M].sum())
        active.append(int(work.sum()))
        macs.append(done)
    return active, macs


# --- numbers a reader can redo -------------------------------------------------------------


@pytest.mark.parametrize("core, clock", [(machine.trn1, 2.8e9), (machine.trn2, 2.4e9)])
def test_full_tiles_back_to_back_reach_the_peak(core, clock):
    run = Clockwork(**FULL, core=core, matmuls=3)
    assert run.rate == run.peak == core.peak("bf16") == 128 * 128 * 2 * clock
    # The second matmul's interval is over: the window of 512 cycles holds nothing but full ones.
    moment = run.at(run.start(2) - 1)
    assert (moment.active, moment.rate) == (128 * 128, 128 * 128 * 2 * clock)
    assert units.show(moment.rate, "FLOP/s", 4) in moment.text
    assert run.interval == 512 and run.load_cycles == 32


@pytest.mark.parametrize("change, share", [
    (dict(K=64), 1 / 2), (dict(M=32), 1 / 4), (dict(N=32), 32 / 64), (dict(N=64), 1),
    (dict(load="shown"), 512 / (512 + 32)), (dict(N=128, load="shown"), 128 / (128 + 32)),
    (dict(N=32, load="shown"), 32 / (64 + 32)), (dict(N=32, load="kept"), 32 / 64),
    (dict(K=64, N=16), 1 / 2 * 16 / 64)])
def test_what_is_left_of_the_peak(change, share):
    run = Clockwork(**{**FULL, **change}, matmuls=12)
    assert run.rate / run.peak == pytest.approx(share, rel=1e-12)
    product = 1.0
    for left in run.shares.values():
        product *= left
    assert product == pytest.approx(share, rel=1e-12)
    # Seen in the cycles too, between filling and draining.
    late = run.start(run.matmuls - 1)
    assert run.at(late).rate == pytest.approx(run.peak * share, rel=1e-12)


def test_back_to_back_it_is_what_the_derating_rules_leave():
    """Interval, rate and each share, exactly, for tiles drawn from a seed."""
    draw, chips = random.Random(5), (machine.trn1, machine.trn2, machine.trn3)
    for _ in range(500):
        core = draw.choice(chips)
        dtype = draw.choice([d for d in core.peaks if not d.startswith("sparse")])
        lanes = max(int(core.peak(dtype) / core.peak("bf16")), 1)
        run = Clockwork(draw.randint(1, 128) * lanes, draw.randint(1, 128), draw.randint(1, 512),
                        dtype, core, 2, draw.choice(list(LOADS)))
        rule = derate.matmul(core, run.K, run.M, run.N, dtype, run.load)
        assert (run.rate, run.interval, run.mm_cycles, run.load_cycles) == (
            rule.rate, rule.interval, rule.mm_cycles, rule.load_cycles)
        given = {r.name: float(r.share) for r in rule.rules if r.name != "dtype"}
        assert {name: share for name, share in run.shares.items() if share < 1} == given


def test_32_columns_take_64_cycles():
    assert Clockwork(128, 128, 32).interval / 2.8e9 == pytest.approx(22.857e-9, rel=1e-4)


def test_fp32_takes_four_passes():
    run = Clockwork(**FULL, dtype="fp32", matmuls=2)
    assert (run.interval, run.passes) == (4 * 512, 4)
    assert run.rate == run.peak == machine.trn1.peak("fp32") == 128 * 128 * 2 * 2.8e9 / 4
    assert run.active(run.start(1)) == 128 * 128  # every PE is busy in each pass


def test_fp8_does_two_at_once():
    run = Clockwork(256, 128, 512, "fp8", machine.trn2, matmuls=2)
    assert run.rate == machine.trn2.peak("fp8") and run.used_rows == 128
    assert Clockwork(128, 128, 512, "fp8", machine.trn2).shares["rows"] == 1 / 2


def test_a_core_with_another_peak_is_refused():
    """Its cycles and its rates would not belong together."""
    for core in (machine.trn1.using(bf16="80 TFLOP/s"), machine.trn2.under("throttled")):
        with pytest.raises(ClockworkError, match=f"Give machine.{core.key}"):
            Clockwork(64, 128, 512, core=core)
    assert Clockwork(64, 128, 512, core="trn2") == Clockwork(64, 128, 512, core=machine.trn2)
    with pytest.raises(ClockworkError, match="got mine"):
        Clockwork(4, 4, 4, core=replace(machine.trn2, key="mine"))


def test_weights_are_there_at_the_end_of_the_cycle_they_load_in():
    """Four columns a cycle: 8 columns in cycles 0 and 1, 4 in cycle 0 alone."""
    tile = [[1] * 8] * 8
    for cycle, columns in ((0, 4), (1, 8)):
        state = Clockwork(8, 8, 8, array=8).state(cycle, tile, tile)
        assert [m for m, pe in enumerate(state.pes[7]) if pe.held] == list(range(columns))
    small = Clockwork(4, 4, 4, array=4)
    assert small.start(0) == 1
    assert all(pe.held for pe in small.state(0, [[1] * 4] * 4, [[1] * 4] * 4).pes[3])


@pytest.mark.parametrize("shape", [dict(K=128, M=128, N=16), dict(K=96, M=32, N=100),
                                   dict(K=128, M=128, N=512, load="shown"),
                                   dict(K=90, M=37, N=70, load="shown")])
def test_the_busiest_cycle_of_a_long_run(shape):
    """Found in its first matmuls; no cycle of all of them is busier."""
    run = Clockwork(**shape, matmuls=24)
    most = max(map(run.active, range(run.cycles)))
    assert run.active(run.full) == most
    assert all(run.active(cycle) < most for cycle in range(run.full))


def test_a_toy_has_no_floor():
    assert Clockwork(4, 4, 2, array=4).shares["moving size"] == 1


def test_one_matmul_alone_fills_and_drains():
    """Weights in place: the last MAC after N + K + M - 2 cycles."""
    run = Clockwork(**FULL, load="kept")
    assert run.cycles == run.working == 512 + 128 + 128 - 2 == 766
    assert run.utilisation == pytest.approx(512 / 766)
    assert run.active(0) == 1 and run.active(1) == 3 and run.active(254) == 128 * 128
    assert run.active(253) == 128 * 128 - 1 and run.full == 254
    assert Clockwork(**FULL).cycles == 32 + 766
    # Half of the rows: the sums still leave below row 128, the work is over 64 cycles earlier.
    half = Clockwork(64, 128, 512, load="kept")
    assert (half.working, half.cycles) == (512 + 64 + 128 - 2, 766)


def test_phases_and_text():
    run = Clockwork(128, 128, 32, matmuls=2)
    assert run.phase(0) == "the first stationary tile loads"
    assert run.phase(32) == ("matmul 1 of 2: moving column 1 of 32 enters (the next stationary "
                             "tile loads in the background)")
    assert run.phase(64) == "matmul 1 of 2: nothing enters, starts are at least 64 cycles apart"
    assert run.phase(96 + 31) == "matmul 2 of 2: moving column 32 of 32 enters"
    assert "last sums move down" in run.phase(96 + 32)
    shown = Clockwork(128, 128, 64, matmuls=2, load="shown")
    assert "the next stationary tile loads" in shown.phase(32 + 64)
    assert run.at(32).text == (
        "Cycle 32 of 381: matmul 1 of 2: moving column 1 of 32 enters (the next stationary tile "
        "loads in the background). 1 of 16,384 PEs multiply (0.0061 %); 1 MACs so far, "
        # 2 x 2.8 GHz / 33
        "169.7 MFLOP/s over the last 33 cycles, 169.7 MFLOP/s since cycle 0.")


def test_a_state_as_text():
    """a.T @ b = [[3, 4], [8, 10]]: after two cycles one sum is in, the next ones are on the way."""
    run = Clockwork(2, 2, 2, load="kept", array=2)
    assert repr(run.state(1, [[1, 2], [2, 4]], [[1, 2], [1, 1]])).splitlines() == [
        "PEs   m 0       m 1", "k 0   1×2 > 2   2×1 > 2", "k 1   2×1 > 3   4",
        "PSUM  n 0   n 1", "m 0   3     ·", "m 1   ·     ·"]


def test_its_text_says_what_is_lost():
    said = repr(Clockwork(64, 128, 32, matmuls=4))
    assert "64 cycles, 22.9 ns at 2.8 GHz" in said and "25.0% of 91.75 TFLOP/s" in said
    assert "rows            x 0.5" in said and "moving size     x 0.5" in said
    assert "columns" not in said


@pytest.mark.parametrize("options, says", [
    (dict(K=129), "K: got 129; expected a whole number from 1 to 128. Split a larger K"),
    (dict(M=0), "M: got 0"), (dict(N=513), "1 to 512"), (dict(N=1.5), "N: got 1.5"),
    (dict(matmuls=0), "matmuls"), (dict(matmuls=2000), "1 to 1024. More only repeat"),
    (dict(array=4.0), "array: got 4.0"),
    (dict(core=machine.trn2, dtype="fp8", K=7), "K is a multiple of 2"),
    (dict(load="slow"), "hidden, shown, kept"),
    (dict(dtype="fp8"), "trn1 has no dense rate for 'fp8'"),
    (dict(core=machine.trn2, dtype="sparse_bf16"), "no dense rate"),
    (dict(core=machine.h100), "expected one NeuronCore"), (dict(array=64), "2 to 16 rows")])
def test_what_the_engine_does_not_take(options, says):
    with pytest.raises(ClockworkError, match=says):
        Clockwork(**{**FULL, **options})


def test_cycles_out_of_the_run_and_wrong_tiles():
    run = Clockwork(2, 2, 2, array=2)
    for cycle in (-1, run.cycles, 1.0):
        with pytest.raises(ClockworkError, match="0 to 4"):
            run.at(cycle)
    with pytest.raises(ClockworkError, match=r"a is not \[2, 2\]"):
        run.state(0, [[1, 2]], [[1, 2], [3, 4]])
