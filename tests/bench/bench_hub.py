"""How long a room waits: login to server, a kernel, one check, with 1, 10 and 20 at once.

Everybody begins each step at the same moment and does nothing in between: the worst that a room can
do. Real accounts, PAM, servers and kernels; needs root.
Run   pytest -m bench tests/bench/bench_hub.py -s
"""

import os
from functools import partial

import psutil
import pytest
from tests.classroom import PARTICIPANTS, a_class
from workshop.hub import load


def report() -> None:
    with a_class() as room:
        key = room.key()
        room.start()
        for n in (1, 10, PARTICIPANTS):
            people = room.people()[:n]
            load.room(people, load.come_in)
            asked = load.questions(people[0].notebook(), key)
            checks = [took for some in load.room(
                people, partial(load.answer, asked=asked)) for took in some]
            print(load.table(people, checks), flush=True)
            processes = [p for one in people for p in room.processes(one.name)]
            print(f"{sum(p.memory_full_info().uss for p in processes) / n / 2**20:.0f} MiB and "
                  f"{sum(sum(p.cpu_times()[:2]) for p in processes) / n:.1f} s of CPU each, "
                  "server and kernel\n", flush=True)
            for one in people:
                one.stop_server()
                one.close()
            psutil.wait_procs(processes, timeout=60)


@pytest.mark.bench
@pytest.mark.skipif(os.geteuid() != 0, reason="accounts and their servers need root")
def test_bench_hub() -> None:
    report()

