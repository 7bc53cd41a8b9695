"""The synchronization required between two uses of tensor memory, and the reports when it is missing."""

import numpy as np
import pytest
from tensor_kernels import COMMIT, START, WAIT, dump, fill, run

from tileiras.sim import EmulationError

SEEDS = [None, 0, 1]
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
SYNCED = f"{BEFORE} bar.sync 0; {AFTER}"
# A in f16 and B, 32 bytes a row, swizzled so; all that is in the image is 1.
ROWS_OF_32 = 16 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46 | 6 << 61
DESCRIBE = f"""
    shr.u32 %r6, %r12, 4; and.b32 %r6, %r6, 16383; cvt.u64.u32 %q2, %r6; or.b64 %q3, %q2, {ROWS_OF_32:#x};
    add.u64 %q2, %q2, 256; or.b64 %q4, %q2, {ROWS_OF_32:#x}; or.b64 %q5, %q2, {1 << 46 | 8 << 32:#x};
    mov.b32 %r7, {1 << 4 | 32 >> 3 << 17 | 128 >> 4 << 24:#x}; setp.eq.u32 %p5, %r1, %r1; add.u32 %r13, %r10, 32;
    add.u32 %r14, %r10, 16; mov.b32 %r15, 0;
"""
MMA = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r10], %q3, %q4, %r7, %p5;"
OTHER = MMA.replace("[%r10]", "[%r13]")
ONES = np.full(8192, 1.0, np.float16).view(np.uint8)[:8192]
START_1 = f"{fill(64)} {SYNCED} {DESCRIBE}"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v250}, [%r11];"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r15};"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
COPY = "@%p1 tcgen05.cp.cta_group::1.128x128b [%r10], %q5;"
LOOK = "LOOK: mbarrier.try_wait.parity.shared.b64 %p4, [done], 0; @!%p4 bra LOOK;"
RELAXED = LOOK.replace("parity.shared", "parity.relaxed.cluster.shared")


READING = ("tensor-fences", "tensor-pipeline", "tensor-load-wait")


def result(kernel, main: str, seed=0, **options) -> np.ndarray:
    out = np.zeros((128, 32), np.uint32)
    run(kernel, f"{START_1} {main} {dump(32)}", out, ONES, seed=seed, **options)
    return out.view(np.float32)


#: A product whose A is where the other's result is: the zeros that are there.
OVER = MMA.replace("%q3", "[%r10]").replace("[%r10], [", "[%r13], [")

# Correct sequence -> value of each element of the first 32 columns.
RIGHT = {
    "product, load": (f"{MMA} {COMMIT} {WAIT}", 16),
    "two products": (f"{MMA} {MMA} {COMMIT} {WAIT}", 32),
    "product, load, store, product": (
        f"{MMA} {COMMIT} {WAIT} {LOAD} {WAIT_LD} {STORE} {WAIT_ST} {SYNCED} {MMA} {COMMIT.replace('done', 'done+8')} "
        + WAIT.replace("LOOK", "AGAIN").replace("done", "done+8"), None),
    "a copy, then a product of the same thread": (f"{COPY} {MMA} {COMMIT} {WAIT}", None),
    "a copy, then a product of another thread": (
        f"{COPY} {SYNCED} {MMA.replace('%p1', '%p7')} {COMMIT.replace('%p1', '%p7')} {WAIT}", None),
    "relaxed, with fences": (f"{MMA} {COMMIT} {RELAXED} {AFTER}", 16),
    "products of two accumulators": (f"{MMA} {OTHER} {COMMIT} {WAIT}", 16),
}  # fmt: skip
OF_OTHER = "setp.eq.u32 %p7, %r1, 64;"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RIGHT)
def test_ordered_programs_are_accepted(kernel, name, seed):
    main, expected = RIGHT[name]
    value = result(kernel, OF_OTHER + main, seed)
    if expected is not None:
        assert (value == expected).all()


@pytest.mark.parametrize("fence", ["fence.mbarrier_init.release.cluster;", "fence.proxy.async.shared::cta;", ""])
def test_commits_need_a_fence_behind_the_initialisation(kernel, fence):
    """A commit signals by the asynchronous proxy (PTX ISA, "membar, fence"); the fence of START is that of other
    threads, or before the initialisation."""
    late = f"@!%p1 bra SET; mbarrier.inval.shared.b64 [done]; mbarrier.init.shared.b64 [done], 1; {fence} SET: {SYNCED}"
    if fence:
        assert (result(kernel, f"{late} {MMA} {COMMIT} {WAIT}") == 16).all()
    else:
        with pytest.raises(EmulationError, match="no fence.mbarrier_init or fence.proxy.async between"):
            result(kernel, f"{late} {MMA} {COMMIT} {WAIT}")


IN_FLIGHT = "in flight: no tcgen05.commit that has been waited for"
NO_AFTER = "with no tcgen05.fence::after_thread_sync since it is known"
NO_BEFORE = "with no tcgen05.fence::before_thread_sync behind it"
UNORDERED = "and nothing orders the two"

WRONG = [
    # a read before its wait
    (f"{MMA} {COMMIT}", IN_FLIGHT),
    (f"{MMA} bar.sync 0; {AFTER}", IN_FLIGHT),
    (f"{COMMIT} {MMA} {WAIT}", IN_FLIGHT),
    (f"{STORE} {LOAD}", "in flight: no tcgen05.wait::st since"),
    (f"{LOAD} {STORE}", "in flight: no tcgen05.wait::ld since"),
    (f"{STORE} {SYNCED} {MMA}", "in flight: no tcgen05.wait::st since"),
    (f"{LOAD} {SYNCED} {MMA}", "in flight: no tcgen05.wait::ld since"),
    (f"{MMA} {STORE}", IN_FLIGHT),
    (f"{COPY} {LOAD}", IN_FLIGHT),
    # a product into memory that another one in flight reads, or writes otherwise
    (f"{MMA} {MMA.replace('[%r10]', '[%r14]')}", IN_FLIGHT),
    (f"{MMA} {OVER}", IN_FLIGHT),
    (f"{OVER} {MMA}", IN_FLIGHT),
    (f"{MMA} {COPY}", IN_FLIGHT),
    # a missing fence
    (f"{MMA} {COMMIT} {LOOK}", NO_AFTER),
    (f"{MMA} {COMMIT} {RELAXED}", f"{NO_AFTER}|{UNORDERED}"),
    (f"{LOAD} {WAIT_LD} bar.sync 0; {AFTER} {MMA}", NO_BEFORE),
    (f"{STORE} {WAIT_ST} bar.sync 0; {AFTER} {MMA}", NO_BEFORE),
    (f"{LOAD} {WAIT_LD} {BEFORE} bar.sync 0; {MMA}", NO_AFTER),
    (f"{BEFORE} {LOAD} {WAIT_LD} bar.sync 0; {AFTER} {MMA}", NO_BEFORE),
    (f"{LOAD} {WAIT_LD} {AFTER} {BEFORE} bar.sync 0; {MMA}", NO_AFTER),
    (f"{COPY} bar.sync 0; {AFTER} {MMA.replace('%p1', '%p7')}", NO_BEFORE),
    (f"{COPY} {BEFORE} bar.sync 0; {MMA.replace('%p1', '%p7')}", NO_AFTER),
    # no synchronisation at all
    (f"{LOAD} {WAIT_LD} {BEFORE} {AFTER} {MMA}", UNORDERED),
    (f"{COPY} {BEFORE} {AFTER} {MMA.replace('%p1', '%p7')}", f"{UNORDERED}|{NO_BEFORE}"),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("main", "said"), WRONG)
def test_unordered_programs_are_refused(kernel, main, said, seed):
    """When warps move in another order than in lock step, another of them may be the first to find it."""
    with pytest.raises(EmulationError, match=said if seed is None else f"{said}|in flight|{UNORDERED}"):
        result(kernel, OF_OTHER + main, seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "expected"),
    [
        (f"{MMA} {COMMIT} {LOOK}", 16),
        (f"{LOAD} {WAIT_LD} bar.sync 0; {MMA} {COMMIT} {LOOK}", 16),
        (f"{MMA} {COPY} {COMMIT} {LOOK}", None),
        # a product over the A of another, and a store that depends on a load of the same cells
        (f"{OVER} {MMA} {COMMIT} {LOOK}", 16),
        (f"{LOAD} {STORE} {WAIT_ST} {WAIT_LD}", 0),
    ],
)
def test_acquire_and_release_are_enough_for_some(kernel, main, expected, seed):
    """The other reading of the ISA, which the vendor's compiler goes by."""
    value = result(kernel, OF_OTHER + main, seed, waive=READING)
    if expected is not None:
        assert (value == expected).all()
    with pytest.raises(EmulationError, match="tcgen05.fence|in flight"):
        result(kernel, OF_OTHER + main, seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "said"),
    [(f"{MMA} {COMMIT}", IN_FLIGHT), (f"{LOAD} {STORE}", "no tcgen05.wait::st since"),
     (f"{LOAD} {WAIT_LD} {MMA} {COMMIT} {LOOK}", UNORDERED),
     (f"{MMA} {COMMIT} {RELAXED}", UNORDERED)],
)  # fmt: skip
def test_that_is_no_licence(kernel, main, said, seed):
    with pytest.raises(EmulationError, match=said if seed is None else f"{said}|{UNORDERED}"):
        result(kernel, OF_OTHER + main, seed, waive=READING)


def test_a_loaded_register_may_be_used_before_the_wait(kernel):
    """PTX ISA, "Register dependencies, same thread": a true dependency is respected; the cells may not change yet."""
    main = f"{LOAD} add.u32 %v250, %v250, 1; {WAIT_LD} mov.b32 %r15, %v250; {STORE} {WAIT_ST}"
    assert (result(kernel, main).view(np.uint32)[:, 0] == 1).all()


OVERWRITE = "@%p1 st.shared.u32 [%r12], %r15;"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "said"),
    [
        (f"{MMA} {OVERWRITE} {COMMIT} {WAIT}", "has been written before it has taken place"),
        (f"{MMA} {COMMIT} @%p7 st.shared.u32 [%r12], %r15; {WAIT}", "race on shared address"),
        (f"{OVERWRITE} {MMA} {COMMIT} {WAIT}".replace("%r15;", "%r1;").replace("%r1;", "%r13;", 1),
         "no fence.proxy.async between"),
    ],
)  # fmt: skip
def test_matrices_are_read_when_the_product_takes_place(kernel, main, said, seed):
    with pytest.raises(EmulationError, match=said):
        result(kernel, OF_OTHER + main, seed)


def test_matrices_may_change_behind_the_wait(kernel):
    assert (result(kernel, f"{MMA} {COMMIT} {WAIT} bar.sync 0; {OVERWRITE}") == 16).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "said"),
    [
        (f"{MMA} {COMMIT}", "which is in flight as they are freed"),
        (MMA, "which is in flight as they are freed"),
        (LOAD, "which is in flight as they are freed"),
    ],
)
def test_freed_buffers_are_not_in_flight(kernel, main, said, seed):
    with pytest.raises(EmulationError, match=said):
        run(kernel, f"{START_1} {OF_OTHER} {main}", np.zeros(1, np.uint32), ONES, seed=seed)


def test_columns_may_end_behind_their_loads_for_some(kernel):
    """The loaded registers are used before; a product is in flight in either reading."""
    begin = f"{START_1} {OF_OTHER}"
    run(kernel, f"{begin} {LOAD}", np.zeros(1, np.uint32), ONES, waive=READING)
    with pytest.raises(EmulationError, match="which is in flight as they are freed"):
        run(kernel, f"{begin} {MMA}", np.zeros(1, np.uint32), ONES, waive=READING)


def test_products_of_eight_columns_are_defined_for_some(kernel):
    main = f"{MMA} {COMMIT} {WAIT}".replace("%r7", "%r6")
    narrow = f"{OF_OTHER} mov.b32 %r6, {1 << 4 | 8 >> 3 << 17 | 128 >> 4 << 24:#x}; {main}"
    assert (result(kernel, narrow, waive=("tensor-columns",))[:, :8] == 16).all()
    with pytest.raises(EmulationError, match="a product of 128 rows and 8 columns"):
        result(kernel, narrow)


def test_freeing_is_ordered_by_a_barrier(kernel):
    """Without one the other warps may still be at it."""
    out = np.zeros((128, 32), np.uint32)
    assert START.count("SYNC;") == 1
    main = f"{START_1} {dump(32)} @!%p2 bra LEAVE; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 64; LEAVE:"
    with pytest.raises(EmulationError, match="nothing orders that and|in flight as they are freed|is not allocated"):
        run(kernel, main, out, ONES)


PAIRED = """
    mov.b16 %h1, MASK; mov.u32 %r9, %ctaid.x; setp.eq.u32 %p6, %r9, 0; and.pred %p6, %p6, %p1;
    @%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], %h1;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_an_arrival_at_a_block_that_has_ended(kernel, seed):
    """The odd block does not wait for the commits of the even one to its barrier."""
    out = np.zeros(1, np.uint32)
    run(kernel, PAIRED.replace("MASK", "3") + WAIT, out, group=2, seed=seed)
    with pytest.raises(EmulationError, match=r"shared memory of block \(1, 0, 0\), which has ended"):
        run(kernel, PAIRED.replace("MASK", "3"), out, group=2, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_commit(kernel, seed):
    with pytest.raises(EmulationError, match=r"deadlock(.|\n)*lacks 1 of 1 arrivals"):
        result(kernel, f"{MMA} {WAIT}", seed)


FILLED = """
    mov.u32 %r9, 0; @!%p7 bra FILLING; st.shared.u32 [image+6144], %r1; fence.proxy.async.shared::cta;
    mbarrier.arrive.shared.b64 %q9, [done+8];
    FILLING: @!%p1 bra WAITED; SECOND: mbarrier.try_wait.parity.shared.b64 %p4, [done+8], 0; @!%p4 bra SECOND; WAITED:
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_commit_releases_the_waits_of_its_thread(kernel, seed):
    """Thread 64 writes, thread 0 waits for that, multiplies and commits; who waits for the commit may write there."""
    write = "setp.eq.u32 %p7, %r1, 96; @%p7 st.shared.u32 [image+6144], %r15;"
    right = f"{OF_OTHER} {FILLED} {MMA} {COMMIT} {WAIT} {write}"
    assert (result(kernel, right, seed) == 16).all()
    wrong = f"{OF_OTHER} {FILLED} {MMA} {COMMIT} {write} {WAIT}"
    with pytest.raises(EmulationError, match="race on shared address"):
        result(kernel, wrong, seed)


REMOTE = """
    mov.u32 %r9, %ctaid.x; setp.eq.u32 %p6, %r9, 1; and.pred %p6, %p6, %p1; mapa.shared::cluster.u32 %r15, %r12, 0;
    @!%p6 bra OTHER; st.shared::cluster.u32 [%r15], %r9; mov.u32 %r16, done; mapa.shared::cluster.u32 %r16, %r16, 0;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r16];
    OTHER: setp.eq.u32 %p6, %r9, 0; and.pred %p6, %p6, %p1; @!%p6 bra READ;
    COMING: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p4, [done], 0; @!%p4 bra COMING;
    ld.shared.u32 %r17, [%r12]; st.global.u32 [%a1], %r17;
    READ: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_scope_of_barriers_of_other_blocks(kernel, seed):
    out = np.zeros(1, np.uint32)
    run(kernel, REMOTE, out, group=2, seed=seed)
    assert out[0] == 1
    local = REMOTE.replace("release.cluster.shared", "shared").replace("parity.acquire.cluster", "parity")
    with pytest.raises(EmulationError, match="no release and acquire between whose scopes take in both"):
        run(kernel, local, out, group=2, seed=seed)
    run(kernel, local, out, group=2, seed=seed, waive=("barrier-scope",))
