"""Resources that SMs, or units of an SM, share: the sum is limited, and no unit is busy beyond the whole time."""

import pytest

from tileiras.sim.estimate import units
from tileiras.sim.estimate.units import BURST, Chip, Multiprocessor, Shares
from tileiras.targets.rates import gpu, names

H200 = gpu("H200")


def shares(l2: float = 32.0, dram: float = 16.0) -> Shares:
    return Shares(l2, dram, lambda what: 0.0, lambda what: 0.0)


def cluster(members: int, **rates: float) -> list[Multiprocessor]:
    chip = Chip(shares(**rates), members)
    return [Multiprocessor(H200, shares(**rates), 1 << 17, chip) for _ in range(members)]


def transferred(sms: list[Multiprocessor], sizes: list[int], missing: float = 0.0) -> float:
    """End of transfers of 4 KiB, as many as each SM has, alternately."""
    end = 0.0
    for turn in range(max(sizes)):
        for sm, size in zip(sms, sizes):
            if turn < size:
                end = max(end, sm.l2_transfer(0.0, 4096, missing)[1])
    return end


def test_one_sm_of_a_cluster_may_fetch_for_all():
    """Half of an SM's port is its share: two SMs that fetch as much together take as long in any division."""
    even, uneven = transferred(cluster(2), [64, 64]), transferred(cluster(2), [128, 0])
    assert uneven == pytest.approx(even, abs=1.01 * BURST)


def test_an_sm_does_not_exceed_its_port():
    size = 256 * 4096
    assert transferred(cluster(8, l2=60.0), [256] + [0] * 7) >= size / H200.bytes_per_cycle["l2"]


@pytest.mark.parametrize("missing, rate", [(0.0, 32.0), (1.0, 16.0)])
def test_in_the_long_run_an_sm_has_its_share(missing, rate):
    (sm,) = cluster(1)
    count = 512
    end = transferred([sm], [count], missing)
    assert count * 4096 / rate - BURST <= end <= count * 4096 / rate * 1.05


def test_waits_grow_with_the_load():
    waits = [units.queued(load) for load in (0.0, 0.3, 0.6, 0.9)]
    assert waits[0] == 0 and waits == sorted(waits)
    assert waits[3] - waits[2] > waits[2] - waits[1]


def test_dots_copies_and_threads_share_the_port_of_shared_memory():
    """Operands at 96 bytes a cycle and copies at 64 take 160 / 128 of the time of dots alone."""
    (sm,) = cluster(1)
    now = 0.0
    for _ in range(200):
        ready = sm.read_operands(now, 64.0, 96 * 64)
        sm.copied(now, 64 * 64)
        now = max(now + 64.0, ready)
    assert now == pytest.approx(200 * 64 * 160 / 128, rel=0.03)
    assert sm.units["shared"].busy <= max(now, sm.port) * 1.001


def test_dots_that_leave_the_port_free_are_not_slowed():
    (sm,) = cluster(1)
    now = 0.0
    for _ in range(200):
        ready = sm.read_operands(now, 128.0, 96 * 64)
        sm.copied(now, 32 * 128)
        now = max(now + 128.0, ready)
    assert now == 200 * 128.0


@pytest.mark.parametrize("name", names())
def test_an_access_occupies_the_load_store_units_by_lanes(name):
    chosen = gpu(name)
    sm = Multiprocessor(chosen, shares(), 1 << 17)
    for _ in range(10):
        sm.shared_access(0.0, 1.0)
    assert sm.units["lsu"].busy == 10 * 32 / chosen.lanes["lsu"]
