"""Tensor memory: its allocation, and the range of loads and stores."""

import numpy as np
import pytest
from tensor_kernels import dump, fill, registers, run, text

from tileiras.sim import EmulationError, emulate

SEEDS = [None, 0, 1]

# shape -> bits of (lane, column) that the bits of a register's number give, then those of a lane's number; further
# registers go on with columns.
BASES = {
    "32x32b": ([], [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)], 1),
    "16x64b": ([], [(8, 0), (0, 1), (1, 0), (2, 0), (4, 0)], 2),
    "16x128b": ([(8, 0)], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)], 4),
    "16x256b": ([(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)], 8),
}
COUNTS = {"32x32b": (1, 2, 8, 32), "16x64b": (1, 4, 16), "16x128b": (1, 2, 8), "16x256b": (1, 4)}
FORMS = [(shape, count) for shape, counts in COUNTS.items() for count in counts]


def place(shape: str, register: int, lane: int) -> tuple[int, int]:
    fixed, lanes, column = BASES[shape]
    bases = list(zip([*fixed, *[(0, column << n) for n in range(8)]], (register >> n & 1 for n in range(10))))
    bases += list(zip(lanes, (lane >> n & 1 for n in range(5))))
    return sum(base[0] for base, bit in bases if bit), sum(base[1] for base, bit in bases if bit)


def registers_of(shape: str, count: int) -> int:
    return count << len(BASES[shape][0])


@pytest.mark.parametrize(("shape", "count"), FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_stores_of_every_shape(kernel, shape, count, packed):
    number = registers_of(shape, count)
    set_all = " ".join(f"mad.lo.u32 %v{n}, %r1, 256, {n + 1}; mad.lo.u32 %v{n}, %v{n}, 65537, 32768;"
                       for n in range(number))  # fmt: skip
    unpack = ".unpack::16b" if packed else ""
    lane = 0 if shape == "32x32b" else 16
    main = f"""{fill(96)} {set_all}
        tcgen05.st.sync.aligned.{shape}.x{count}{unpack}.b32 [%r11+{(lane << 16) + 3}], {registers(number)};
        tcgen05.wait::st.sync.aligned; {dump(96)}"""
    out = np.zeros((128, 96), np.uint32)
    run(kernel, main, out, columns=128)
    expected = np.zeros((128, 96), np.uint32)
    for thread in range(128):
        for register in range(number):
            word = ((thread * 256 + register + 1) * 65537 + 32768) & 0xFFFFFFFF
            row, column = place(shape, register, thread % 32)
            row += thread // 32 * 32 + lane
            if packed:
                expected[row, 3 + 2 * column : 5 + 2 * column] = word & 0xFFFF, word >> 16
            else:
                expected[row, 3 + column] = word
    assert (out == expected).all()


CONTENT = """
    mov.b32 %v0, %r1; mov.u32 %r8, 0; SET: mad.lo.u32 %v0, %r8, 1000, %r1; add.u32 %r6, %r11, %r8;
    mul.lo.u32 %v0, %v0, 65539; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%v0}; add.u32 %r8, %r8, 1;
    setp.lt.u32 %p5, %r8, 80; @%p5 bra SET; tcgen05.wait::st.sync.aligned;
"""
CELLS = ((np.arange(80) * 1000 + np.arange(128)[:, None]) * 65539).astype(np.uint32)


@pytest.mark.parametrize(("shape", "count"), FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_loads_of_every_shape(kernel, shape, count, packed):
    number = registers_of(shape, count)
    lane = 0 if shape == "32x32b" else 16
    stores = " ".join(f"st.global.u32 [%q9+{4 * n}], %v{n};" for n in range(number))
    main = f"""{CONTENT} mad.wide.u32 %q9, %r1, {4 * number}, %a1;
        tcgen05.ld.sync.aligned.{shape}.x{count}{".pack::16b" if packed else ""}.b32 {registers(number)},
        [%r11+{(lane << 16) + 5}]; tcgen05.wait::ld.sync.aligned; {stores}"""
    out = np.zeros((128, number), np.uint32)
    run(kernel, main, out, columns=128)
    for thread in range(128):
        for register in range(number):
            row, column = place(shape, register, thread % 32)
            row += thread // 32 * 32 + lane
            if packed:
                low, high = CELLS[row, 5 + 2 * column : 7 + 2 * column] & 0xFFFF
                assert out[thread, register] == low | high << 16
            else:
                assert out[thread, register] == CELLS[row, 5 + column]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("packed", [False, True])
def test_halves_at_a_distance(kernel, packed, seed):
    """.16x32bx2: the upper half of a warp has the 16 lanes in other columns."""
    main = f"""{CONTENT} mad.wide.u32 %q9, %r1, 16, %a1;
        tcgen05.ld.sync.aligned.16x32bx2.x4{".pack::16b" if packed else ""}.b32 {registers(4)}, [%r11+1], 40;
        tcgen05.wait::ld.sync.aligned; st.global.v4.u32 [%q9], {registers(4)};"""
    out = np.zeros((128, 4), np.uint32)
    run(kernel, main, out, columns=128, seed=seed)
    for thread in range(128):
        row = CELLS[thread // 32 * 32 + thread % 16, 1 + 40 * (thread % 32 // 16) :]
        expected = row[:4] if not packed else (row[0:8:2] & 0xFFFF) | row[1:8:2] << np.uint32(16)
        assert (out[thread] == expected).all()


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("max.f32", np.fmax), ("min.f32", np.fmin), ("max.NaN.f32", np.maximum), ("max.abs.f32", np.fmax),
     ("max.u32", np.maximum), ("min.s32", np.minimum)],
)  # fmt: skip
def test_loads_that_reduce(kernel, reduction, expected):
    name = reduction[-3:]
    bits = np.random.default_rng(0).standard_normal((128, 8)).astype(np.float32)
    bits[3, 2] = np.nan
    if name != "f32":
        bits = np.random.default_rng(0).integers(-(2**31), 2**31, (128, 8)).astype(np.int32)
    loads = " ".join(f"ld.global.u32 %v{n}, [%q9+{4 * n}];" for n in range(8))
    main = f"""mad.wide.u32 %q9, %r1, 32, %a0; {loads}
        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11], {registers(8)}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.red.sync.aligned.32x32b.x8.{reduction} {registers(8, 20)}, %v40, [%r11];
        tcgen05.wait::ld.sync.aligned; mad.wide.u32 %q9, %r1, 4, %a1; st.global.u32 [%q9], %v40;"""
    out = np.zeros(128, np.uint32)
    run(kernel, main, out, bits.view(np.uint8).reshape(-1), cpu="sm_103a")
    values = bits.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[name])
    wanted = expected.reduce(np.abs(values) if "abs" in reduction else values, axis=1)
    np.testing.assert_array_equal(out.view(values.dtype), wanted)


def test_each_warp_has_its_quarter(kernel):
    main = fill(8).replace("%r11", "%r10")
    out = np.zeros(1, np.uint32)
    with pytest.raises(EmulationError, match=r"warp \d reaches lanes \d+ to \d+ of .*, not 32 from lane 0 on"):
        run(kernel, main, out)
    between = f"{fill(8)} tcgen05.ld.sync.aligned.16x64b.x1.b32 {{%v0}}, [%r11+{24 << 16}];"
    with pytest.raises(EmulationError, match=r"not 16 from lane \d+ on"):
        run(kernel, between, out)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "said"),
    [
        (dump(8), r"lane \d+, column 448 of tensor memory is read before it is written"),
        (fill(8).replace("%r11+0", "%r11+60"), "column 515 is outside"),
        ("add.u32 %r11, %r11, -8; " + fill(8), "column 440 of tensor memory is not allocated"),
        ("add.u32 %r11, %r11, -2; " + fill(8), "column 446 of tensor memory is not allocated"),
        ("add.u32 %r11, %r11, %r1; " + fill(8), "different addresses"),
        (f"{fill(8)} setp.eq.u32 %p6, %r1, 7; @%p6 exit; {dump(8)}", "a thread of the warp has exited"),
    ],
)
def test_missing_data_is_an_error(kernel, main, said, seed):
    with pytest.raises(EmulationError, match=said):
        run(kernel, main, np.zeros(1024, np.uint32), seed=seed)


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], COUNT;"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, COUNT;"
#: Of the first warp.
FIRST = "@!%p2 bra X; "
BARE = """
    .shared .align 4 .b8 base[4]; .shared .align 4 .b8 second[4];
    mov.u32 %r1, %tid.x; shr.u32 %r5, %r1, 5; setp.eq.u32 %p2, %r5, 0; mov.u32 %r9, 32;
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "said"),
    [
        (FIRST + f"{ALLOC} X:".replace("COUNT", "64"), "ends with 64 columns of tensor memory allocated"),
        (FIRST + f"mov.u32 %r9, 48; {ALLOC} X:".replace("COUNT", "%r9"), "48 columns of tensor memory are no"),
        (FIRST + f"mov.u32 %r9, 16; {ALLOC} X:".replace("COUNT", "%r9"), "16 columns of tensor memory are no"),
        (FIRST + f"{ALLOC} {ALLOC.replace('COUNT', '64')} X:".replace("COUNT", "32"), "allocations may not grow"),
        (FIRST + f"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {ALLOC} X:".replace("COUNT", "32"),
         "given up its permit"),
        (FIRST + f"{ALLOC} ld.shared.u32 %r2, [base]; {FREE.replace('COUNT', '64')} X:".replace("COUNT", "32"),
         "no allocation of tensor memory"),
        (FIRST + f"{ALLOC} X: bar.sync 0; ld.shared.u32 %r2, [base]; {FREE}".replace("COUNT", "32"),
         "from 0x1.0 on are (being freed by warp . already|no allocation of tensor memory)"),
        (FIRST + f"{ALLOC} ld.shared.u32 %r2, [base]; {FREE} {FREE} X:".replace("COUNT", "32"),
         "no allocation of tensor memory"),
        (FIRST + f"{ALLOC} {ALLOC} X:".replace("COUNT", "512"),
         "deadlock(.|\n)*512 free columns of tensor memory; allocated are 512 from 0"),
        (FIRST + f"and.b32 %r9, %r1, 1; shl.b32 %r9, %r9, 5; {ALLOC} X:".replace("COUNT", "%r9"),
         "different numbers of columns"),
    ],
)  # fmt: skip
def test_allocation(kernel, main, said, seed):
    with pytest.raises(EmulationError, match=said):
        emulate(kernel(BARE + main, threads=64, cpu="sm_100a"), "k", 1, [np.zeros(1, np.uint32)], seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_allocation_waits_for_room(kernel, seed):
    """The second warp's allocation ends when the first has freed its columns."""
    main = f"""@!%p2 bra SECOND; {ALLOC} barrier.sync 0; ld.shared.u32 %r2, [base]; {FREE} bra DONE;
        SECOND: barrier.sync 0; {ALLOC.replace("base", "second")} ld.shared.u32 %r2, [second]; {FREE}
        st.global.u32 [%a0], %r2; DONE:"""
    out = np.full(1, 7, np.uint32)
    ptx = kernel(BARE + main.replace("COUNT", "512"), threads=64, cpu="sm_100a")
    emulate(ptx, "k", 1, [out], seed=seed)
    assert out[0] == 0


def test_allocations_do_not_begin_at_column_zero(kernel):
    """Code that takes the first address for granted is found out."""
    assert "%r10" in text(kernel, fill(8))
    with pytest.raises(EmulationError, match="column 0 of tensor memory is not allocated"):
        run(kernel, "and.b32 %r11, %r11, -65536; " + fill(8), np.zeros(1, np.uint32))


PAIR = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [base], COUNT;"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("main", "cluster", "said"),
    [
        (f"mov.u32 %r6, %cluster_ctarank; setp.ne.u32 %p3, %r6, 0; @%p3 bra X; {PAIR} X: barrier.cluster.arrive; "
         "barrier.cluster.wait;", 2, r"deadlock(.|\n)*block \(1, 0, 0\), to alloc the same columns"),
        (f"mov.u32 %r6, %cluster_ctarank; shl.b32 %r9, %r9, %r6; {PAIR}".replace("COUNT", "%r9"), 2,
         "the blocks of a pair alloc 32 and 64 columns|alloc 64 and 32 columns"),
        (PAIR, 1, "needs a cluster with an even number of blocks"),
        (f"mov.u32 %r6, %cluster_ctarank; setp.ne.u32 %p3, %r6, 0; @%p3 exit; nanosleep.u32 9; {PAIR}", 2,
         r"the other block of the pair has ended|deadlock"),
    ],
)  # fmt: skip
def test_pairs_allocate_together(kernel, main, cluster, said, seed):
    ptx = kernel(BARE + main.replace("COUNT", "32"), threads=32, cpu="sm_100a")
    with pytest.raises(EmulationError, match=said):
        emulate(ptx, "k", 2, [np.zeros(1, np.uint32)], cluster=(cluster, 1, 1), seed=seed)


def test_a_program_has_one_cta_group(kernel):
    body = BARE + ALLOC.replace("COUNT", "32") + "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;"
    with pytest.raises(EmulationError, match="have different .cta_group"):
        emulate(kernel(body, assemble=False), "k", 1, [np.zeros(1, np.uint32)])
