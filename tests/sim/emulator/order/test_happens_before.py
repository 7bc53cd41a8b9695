"""`Clocks` against a plain model of happens-before on random traces, and its cost in atomics."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from tileiras.sim.emulator import EmulationError, emulate
from tileiras.sim.emulator.order import knowledge
from tileiras.sim.emulator.order.happens_before import Clocks
from tileiras.sim.emulator.order.memory_order import CLUSTER, CTA, GPU, Order

LANES, WARPS, BLOCKS = 32, 2, 4
#: The lanes that do anything in a trace: two of each warp, so that traces meet.
ACTIVE = (0, 5)


def group_of(warp: int, first: int) -> SimpleNamespace:
    """As much of a `WarpGroup` of one warp as clocks look at."""
    block, of_block = divmod(warp - first, WARPS)
    group = SimpleNamespace()
    group.warp_cta, group.cta = np.array([block]), np.full(LANES, block)
    group.thread = np.arange(LANES) + of_block * LANES
    group.active = lambda: np.arange(LANES)
    group.active_lanes = lambda: np.ones((1, LANES), bool)
    return group


class Model:
    """Every thread has the set of all accesses that precede its next access, every location all releases to it."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.known: dict[int, set] = {thread: set() for thread in range(BLOCKS * WARPS * LANES)}
        self.own: dict[int, set] = {thread: set() for thread in self.known}  # since the warp's lanes last met
        self.released: dict[int, list] = {}
        self.fences: dict[int, tuple[int, list[set]]] = {}
        self.observed: dict[int, list] = {}

    def _sees(self, release: tuple, scope: int, block: int) -> bool:
        of_scope, of_block, _ = release
        near = of_block // self.members == block // self.members
        return of_block == block or min(of_scope, scope) >= (CLUSTER if near else GPU)

    def update(self, thread: int, key: int, order: Order, reads: bool) -> None:
        block = thread // (LANES * WARPS)
        if reads:
            visible = [each for each in self.released.get(key, ()) if self._sees(each, order.scope, block)]
            if order.acquires:
                self.known[thread] = self.known[thread].union(*(each[2] for each in visible))
            else:
                self.observed.setdefault(thread, []).extend(visible)
        else:
            self.released.pop(key, None)
        if order.releases:
            self.released.setdefault(key, []).append((order.scope, block, self.known[thread] | self.own[thread]))
        if (fence := self.fences.get(thread // LANES)) is not None:
            scope, lanes = fence
            self.released.setdefault(key, []).append((min(scope, order.scope), block, lanes[thread % LANES]))

    def union(self, threads: range) -> set:
        return set().union(*(self.known[each] | self.own[each] for each in threads))

    def meet(self, threads: range, brought: frozenset | set = frozenset()) -> None:
        everything = self.union(threads) | brought
        for each in threads:
            self.known[each], self.own[each] = everything, set()

    def fence(self, warp: int, scope: int) -> None:
        threads = range(warp * LANES, (warp + 1) * LANES)
        for each in threads:
            block = warp // WARPS
            for release in self.observed.pop(each, ()):
                if self._sees(release, scope, block):
                    self.known[each] = self.known[each] | release[2]
        # The fence passes the acquires of one lane on to all of them.
        acquired = set().union(*(self.known[each] for each in threads))
        self.fences[warp] = scope, [acquired | self.own[each] for each in threads]


def random_step(random: Random) -> tuple:
    warp = random.randrange(BLOCKS * WARPS)
    semantics = random.choice(["relaxed", "acquire", "release", "acq_rel", "acq_rel"])
    order = Order(semantics, random.choice([CTA, CLUSTER, GPU, GPU, GPU]))
    lanes, keys = random.choice([ACTIVE, ACTIVE[:1], ACTIVE[1:]]), random.choices(range(3), k=2)
    choices = [
        ("access", warp, random.choice(ACTIVE)), ("update", warp, lanes, keys, order, random.random() < 0.9),
        ("barrier", warp // WARPS, (warp, lanes, keys, order, True)), ("meet", warp), ("fence", warp, order.scope),
        ("overwrite", keys[:1]),
    ]  # fmt: skip
    return random.choices(choices, [6, 12, 1, 1, 2, 0.2])[0]


class Trace:
    """Steps of threads, told to both."""

    def __init__(self, members: int, batches: int) -> None:
        launch = SimpleNamespace(threads=LANES * WARPS, cluster=(members, 1, 1))
        self.model, self.clocks = Model(members), Clocks(launch)
        self.blocks = BLOCKS // batches
        self.accesses: list[tuple[int, int]] = []
        self.begin(0)

    def begin(self, batch: int) -> None:
        self.first = batch * self.blocks
        self.clocks.begin(SimpleNamespace(count=self.blocks), self.first)

    def here(self, number: int, of_block: int) -> int:
        """A warp (or block) of the batch that is running, for a warp (or block) of the launch."""
        return number % (self.blocks * of_block) + self.first * of_block

    def step(self, kind: str, *rest) -> None:
        getattr(self, kind)(*rest)

    def access(self, warp: int, lane: int) -> None:
        thread = self.here(warp, WARPS) * LANES + lane
        clock = int(self.clocks.own[thread // LANES - self.clocks.first])
        self.accesses.append((thread, clock))
        self.model.own[thread] = self.model.own[thread] | {len(self.accesses) - 1}

    def update(self, warp: int, lanes: tuple[int, ...], keys: list[int], order: Order, reads: bool) -> None:
        threads = [self.here(warp, WARPS) * LANES + lane for lane in lanes]
        if not reads and order.acquires:
            order = Order("release", order.scope)
        self.clocks.synchronise(threads, keys[: len(threads)], order, reads, True)
        for thread, key in zip(threads, keys):
            self.model.update(thread, key, order, reads)

    def barrier(self, block: int, between: tuple) -> None:
        """A barrier of the block, and an update ``between`` the arrival and the departure of its warp."""
        block = self.here(block, 1)
        warps = range(block * WARPS, (block + 1) * WARPS)
        groups = [group_of(warp, self.clocks.first) for warp in warps]
        for group in groups:
            self.clocks.arrive(group, np.array([0]))
        arrived = self.model.union(range(warps.start * LANES, warps.stop * LANES))
        self.update(*between)
        for group, warp in zip(groups, warps):
            self.clocks.leave(group, np.ones(LANES, bool), 0)
            self.model.meet(range(warp * LANES, (warp + 1) * LANES), arrived)
        full = np.zeros((self.blocks, 16), bool)
        full[block - self.first, 0] = True
        self.clocks.reset(full, full)

    def meet(self, warp: int) -> None:
        warp = self.here(warp, WARPS)
        self.clocks.meet(np.array([warp - self.clocks.first]))
        self.model.meet(range(warp * LANES, (warp + 1) * LANES))

    def fence(self, warp: int, scope: int) -> None:
        warp = self.here(warp, WARPS)
        self.clocks.fence(group_of(warp, self.clocks.first), scope)
        self.model.fence(warp, scope)

    def overwrite(self, keys: list[int]) -> None:
        self.clocks.overwrite(np.array(keys))
        for key in keys:
            self.model.released.pop(key, None)

    def compare(self) -> None:
        """Ask all active threads of the batch about all accesses."""
        for warp in range(self.clocks.first, self.clocks.first + self.blocks * WARPS):
            for thread in (warp * LANES + lane for lane in ACTIVE):
                rest = [number for number, (other, _) in enumerate(self.accesses) if other != thread]
                others, times = np.array([self.accesses[number] for number in rest]).reshape(-1, 2).T
                threads = np.full(len(rest), thread)
                bad = self.clocks.unordered(threads, others, times)
                assert bad.tolist() == [number not in self.model.known[thread] for number in rest], thread


@pytest.mark.parametrize("short", [1, 2, 16])
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("members", [1, 2])
def test_clocks_agree_with_sets_of_accesses(monkeypatch, members, batches, short):
    """``short``: entries of a vector above which it is shared."""
    monkeypatch.setattr(knowledge, "_SHORT", short)
    for seed in range(12):
        random = Random(seed)
        trace = Trace(members, batches)
        for part in range(4):
            if part == 2 and batches == 2:
                trace.begin(1)
            for _ in range(20):
                trace.step(*random_step(random))
            trace.compare()


def columns_ptx(kernel, blocks: int, order: str = "acq_rel") -> str:
    """A column sum as of a layer norm's gradient: every block adds to all 512 columns, then to 512 others."""
    body = f"""
        mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
        NEXT: mad.lo.u32 %r3, %r2, 128, %r1; mad.wide.u32 %q1, %r3, 4, %a0;
        atom.{order}.gpu.global.add.u32 %r4, [%q1], 1; bar.sync 0;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 8; @%p1 bra NEXT;
        setp.ne.u32 %p2, %r1, 0; @%p2 ret;
        mov.u32 %r5, %ctaid.x; mad.wide.u32 %q2, %r5, 4, %a0; st.global.u32 [%q2+4096], %r5;
        atom.{order}.gpu.global.add.u32 %r6, [%a0+8192], 1;
        setp.ne.u32 %p2, %r6, {blocks - 1}; @%p2 ret;
        xor.b32 %r5, %r5, 1; mad.wide.u32 %q2, %r5, 4, %a0;
        ld.global.u32 %r7, [%q2+4096]; st.global.u32 [%a0+8196], 7;
    """
    return kernel(body, threads=128)


@pytest.mark.slow
def test_atomics_cost_the_same_however_many_there_were(kernel, monkeypatch):
    """Entries that are copied, joined or released, for 8 blocks and for 16."""
    work = {}
    initialise = Clocks.__init__
    monkeypatch.setattr(Clocks, "__init__", lambda self, launch: initialise(self, launch) or work.update(clocks=self))
    counted = {}
    for blocks in (8, 16):
        sums = np.zeros(2050, np.uint32)
        result = emulate(columns_ptx(kernel, blocks), "k", blocks, [sums])
        assert (sums[:1024] == blocks).all() and sums[2049] == 7 and result.searched_races
        counted[blocks] = work["clocks"].work
    assert counted[16] < 2.5 * counted[8]


def test_a_race_behind_many_atomics_is_still_one(kernel):
    sums = np.zeros(2050, np.uint32)
    with pytest.raises(EmulationError, match="race on address"):
        emulate(columns_ptx(kernel, 4, "relaxed"), "k", 4, [sums])
