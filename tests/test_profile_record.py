"""A profile's counts, clocks, windows and the check of the profiler's own figures."""

import numpy as np
from timelines import timeline

from roofline.timeline import Spans


def test_activity_is_the_files_own_or_all_rows_but_waits():
    rows = timeline(matmuls=[(10, 20)], control=[(0, 4)],
                    vector=[(0, 9, {"opcode": "EVENT_SEMAPHORE"}), (9, 12)])
    assert rows.activity("tensor").length == 10
    assert rows.activity("sync").length == 4  # DRAIN is control, and active
    assert rows.activity("vector").length == 3
    two = Spans.of(np.array([0, 8]), np.array([5, 9]))
    from dataclasses import replace
    given = replace(rows, active={(0, "tensor"): Spans.one(3, 8), (1, "tensor"): two})
    assert [*given.activity("tensor")] == [(0, 9)]  # both cores, and 8 touches 8
    assert given.activity("vector").length == 0     # the file says when, and not of this engine
