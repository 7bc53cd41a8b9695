"""Exchanges between lanes: shfl, vote, match, redux, elect, activemask."""

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

LANE = np.arange(32)
VALUES = np.random.default_rng(0).integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32)


def exchange(kernel, text: str, sources=1, seed=0, cpu="sm_90", threads=64):
    """Two warps: each lane loads %r1 (and %r2) and stores %r3."""
    loads = "".join(f"ld.global.u32 %r{i + 1}, [%q{i + 1}];" for i in range(sources))
    addresses = "".join(f"mad.wide.u32 %q{i + 1}, %r10, 4, %a{i};" for i in range(sources + 1))
    store = f"st.global.u32 [%q{sources + 1}], %r3;"
    body = f"mov.u32 %r10, %tid.x; mov.u32 %r11, %laneid; {addresses} {loads}\n{text}\n{store}"
    return kernel(body, (".u64",) * (sources + 1), threads=threads, cpu=cpu)


def shuffled(kernel, text, offsets=None):
    out = np.zeros(64, np.uint32)
    arrays = [VALUES] if offsets is None else [VALUES, offsets.astype(np.uint32)]
    emulate(exchange(kernel, text, len(arrays)), "k", 1, [*arrays, out])
    return out.reshape(2, 32)


@pytest.mark.parametrize("width", [32, 16, 8, 2])
def test_shuffles_in_segments(kernel, width):
    """PTX ISA, shfl.sync: c = ((32 - width) << 8) | (0 for up, width's last lane otherwise)."""
    rows = VALUES.reshape(2, 32)
    base = LANE & ~(width - 1)
    for offset in (0, 1, 3, width - 1):
        sources = {
            "up": LANE - offset,
            "down": LANE + offset,
            "bfly": LANE ^ offset,
            "idx": base | offset & (width - 1),
        }
        for mode, source in sources.items():
            inside = (source >= base) & (source < base + width)
            if mode == "bfly" and offset >= width:
                continue
            control = (32 - width) << 8 | (0 if mode == "up" else 31)
            text = f"shfl.sync.{mode}.b32 %r3|%p1, %r1, {offset}, {control}, -1; @!%p1 xor.b32 %r3, %r3, 1;"
            expected = np.where(inside, rows[:, np.where(inside, source, 0)], rows ^ 1)
            assert (shuffled(kernel, text) == expected).all(), (mode, offset)


def test_shuffle_by_a_register(kernel):
    offsets = np.random.default_rng(1).integers(0, 32, 64)
    text = "shfl.sync.idx.b32 %r3, %r1, %r2, 31, -1;"
    expected = np.take_along_axis(VALUES.reshape(2, 32), offsets.reshape(2, 32), 1)
    assert (shuffled(kernel, text, offsets) == expected).all()


def test_diverged_lanes_meet_at_a_shuffle(kernel):
    """Both sides of a branch end in one full-mask shuffle, laid out so that the lanes arrive one after the other."""
    text = """
        and.b32 %r12, %r11, 1; setp.eq.u32 %p1, %r12, 0; @%p1 bra EVEN;
        MEET: shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; bra DONE;
        EVEN: add.u32 %r1, %r1, 5; bra MEET;
        DONE:
    """
    rows = VALUES.reshape(2, 32) + np.where(LANE % 2 == 0, np.uint32(5), np.uint32(0))
    assert (shuffled(kernel, text) == rows[:, LANE ^ 1]).all()


def test_a_member_that_never_comes_is_a_deadlock(kernel):
    text = """
        setp.eq.u32 %p1, %r11, 7; @%p1 bra LATE;
        shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; bra DONE;
        LATE: bar.sync 0;
        DONE:
    """
    with pytest.raises(EmulationError, match=r"deadlock.*\n.*warps 0-1 waiting at line \d+: .*shfl.sync"):
        shuffled(kernel, text)


def test_a_lane_outside_its_own_mask_is_an_error(kernel):
    with pytest.raises(EmulationError, match="not in the member mask") as info:
        shuffled(kernel, "shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xFF;")
    assert info.value.thread == (8, 0, 0)


def test_halves_of_a_warp_vote_apart(kernel):
    text = """
        setp.lt.u32 %p1, %r11, 16; and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 1;
        @%p1 bra LOW;
        vote.sync.ballot.b32 %r3, %p2, 0xFFFF0000; bra DONE;
        LOW: vote.sync.ballot.b32 %r3, %p2, 0x0000FFFF;
        DONE:
    """
    bits = (VALUES.reshape(2, 32) & 1).astype(np.uint64)
    low = (bits[:, :16] << LANE[:16].astype(np.uint64)).sum(1)
    high = (bits[:, 16:] << LANE[16:].astype(np.uint64)).sum(1)
    expected = np.where(LANE < 16, low[:, None], high[:, None])
    assert (shuffled(kernel, text) == expected).all()


def test_votes_on_all_any_and_uniform(kernel):
    text = """
        setp.lt.u32 %p1, %r11, %r1;
        vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1; vote.sync.uni.pred %p4, %p1, -1;
        selp.u32 %r4, 1, 0, %p2; selp.u32 %r5, 2, 0, %p3; selp.u32 %r6, 4, 0, %p4;
        or.b32 %r3, %r4, %r5; or.b32 %r3, %r3, %r6;
    """
    ptx = exchange(kernel, text)
    for bound, expected in ((32, 1 | 2 | 4), (0, 4), (7, 2)):
        out = np.zeros(64, np.uint32)
        emulate(ptx, "k", 1, [np.full(64, bound, np.uint32), out])
        assert (out == expected).all()


def test_match(kernel):
    values = np.array([1, 1, 2, 3] * 8 + [5] * 32, np.uint32)
    out = np.zeros(64, np.uint32)
    text = "match.any.sync.b32 %r3, %r1, -1;"
    emulate(exchange(kernel, text), "k", 1, [values, out])
    masks = {1: 0x33333333, 2: 0x44444444, 3: 0x88888888, 5: 0xFFFFFFFF}
    assert [masks[v] for v in values.tolist()] == out.tolist()
    text = "match.all.sync.b32 %r3|%p1, %r1, -1; @!%p1 mov.u32 %r3, 9;"
    emulate(exchange(kernel, text), "k", 1, [values, out])
    assert (out[:32] == 9).all() and (out[32:] == 0xFFFFFFFF).all()


@pytest.mark.parametrize(
    "operation", ["add.u32", "add.s32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32"]
)
def test_redux(kernel, operation):
    name, kind = operation.split(".")
    rows = VALUES.reshape(2, 32).view(np.int32 if kind == "s32" else np.uint32)
    ufunc = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    expected = ufunc[name].reduce(rows, axis=1, dtype=rows.dtype).view(np.uint32)
    assert (shuffled(kernel, f"redux.sync.{operation} %r3, %r1, -1;") == expected[:, None]).all()


def test_elect_and_activemask(kernel):
    text = "mov.u32 %r3, 0; elect.sync %r4|%p1, 0xFFFFFFFF; @%p1 mov.u32 %r3, 1;"
    text += "shl.b32 %r4, %r4, 8; or.b32 %r3, %r3, %r4;"
    assert (shuffled(kernel, text) == (LANE == 0)).all()
    text = "mov.u32 %r3, 0; setp.gt.u32 %p1, %r11, 29; @%p1 activemask.b32 %r3;"
    assert (shuffled(kernel, text) == np.where(LANE > 29, 0xC0000000, 0)).all()


def test_any_lane_may_be_elected_of_those_that_come(kernel):
    out = np.zeros(64, np.uint32)
    text = "mov.u32 %r3, 0; elect.sync %r4|%p1, {}; @%p1 mov.u32 %r3, 1;shl.b32 %r4, %r4, 8; or.b32 %r3, %r3, %r4;"
    for mask, leader, elected in ((0xFFFFFFFF, 5, 5), (0xFFFFFFFF, 31, 31)):
        emulate(exchange(kernel, text.format(mask), threads=64), "k", 1, [VALUES, out], leader=leader)
        assert (out == np.where(np.arange(64) % 32 == elected, 1, 0) + 256 * elected).all()
    # Of eight lanes the first one behind the last.
    emulate(exchange(kernel, text.format(0xFF), threads=8), "k", 1, [VALUES, out], leader=20)
    assert (out[:8] == (np.arange(8) == 0)).all()


def test_redux_by_lanes_outside_of_its_mask(kernel):
    out = np.zeros(64, np.uint32)
    text = "redux.sync.add.u32 %r3, %r1, 0xFF;"
    with pytest.raises(EmulationError, match="not in the member mask"):
        emulate(exchange(kernel, text, threads=32), "k", 1, [VALUES, out])
    emulate(exchange(kernel, text, threads=32), "k", 1, [VALUES, out], waive=("redux-members",))
    assert (out[:32] == VALUES[:32].sum(dtype=np.uint32)).all()


def test_the_last_warp_may_be_short(kernel):
    out = np.zeros(64, np.uint32)
    text = "redux.sync.add.u32 %r3, %r1, 0xFF;"
    emulate(exchange(kernel, text, threads=8), "k", 1, [VALUES, out])
    assert (out[:8] == VALUES[:8].sum(dtype=np.uint32)).all() and not out[8:].any()
