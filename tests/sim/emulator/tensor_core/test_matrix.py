"""mma.sync, ldmatrix, stmatrix, movmatrix, cp.async."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest
from handwritten_matmul import matmul_ptx

from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator.tensor_core.mma import a_positions, b_positions, c_positions

# Fragments as linear layouts, computed by another compiler's layout code: for every bit of the element number within a
# thread (elements packed in a register are the low bits) and of the lane, the (row, column) it adds.
LAYOUTS = {
    ("a", 16, 16, 2): ([(0, 1), (8, 0), (0, 8)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]),
    ("b", 16, 8, 2): ([(1, 0), (8, 0)], [(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)]),
    ("a", 16, 8, 2): ([(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]),
    ("b", 8, 8, 2): ([(1, 0)], [(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)]),
    ("a", 16, 8, 1): ([(8, 0), (0, 4)], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]),
    ("b", 8, 8, 1): ([(4, 0)], [(1, 0), (2, 0), (0, 1), (0, 2), (0, 4)]),
    ("a", 16, 32, 4): ([(0, 1), (0, 2), (8, 0), (0, 16)], [(0, 4), (0, 8), (1, 0), (2, 0), (4, 0)]),
    ("b", 32, 8, 4): ([(1, 0), (2, 0), (16, 0)], [(4, 0), (8, 0), (0, 1), (0, 2), (0, 4)]),
    ("a", 8, 4, 1): ([], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]),
    ("b", 4, 8, 1): ([], [(1, 0), (2, 0), (0, 1), (0, 2), (0, 4)]),
    # The shapes below by the thread-value maps of a public library of such products.
    ("a", 16, 4, 1): ([(8, 0)], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]),
    ("a", 16, 16, 1): ([(8, 0), (0, 4), (0, 8)], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]),
    ("b", 16, 8, 1): ([(4, 0), (8, 0)], [(1, 0), (2, 0), (0, 1), (0, 2), (0, 4)]),
    ("a", 8, 16, 4): ([(0, 1), (0, 2)], [(0, 4), (0, 8), (1, 0), (2, 0), (4, 0)]),
    ("a", 16, 16, 4): ([(0, 1), (0, 2), (8, 0)], [(0, 4), (0, 8), (1, 0), (2, 0), (4, 0)]),
    ("b", 16, 8, 4): ([(1, 0), (2, 0)], [(4, 0), (8, 0), (0, 1), (0, 2), (0, 4)]),
    ("a", 8, 32, 8): ([(0, 1), (0, 2), (0, 4)], [(0, 8), (0, 16), (1, 0), (2, 0), (4, 0)]),
    ("a", 16, 32, 8): ([(0, 1), (0, 2), (0, 4), (8, 0)], [(0, 8), (0, 16), (1, 0), (2, 0), (4, 0)]),
    ("a", 16, 64, 8): ([(0, 1), (0, 2), (0, 4), (8, 0), (0, 32)], [(0, 8), (0, 16), (1, 0), (2, 0), (4, 0)]),
    ("b", 32, 8, 8): ([(1, 0), (2, 0), (4, 0)], [(8, 0), (16, 0), (0, 1), (0, 2), (0, 4)]),
    ("b", 64, 8, 8): ([(1, 0), (2, 0), (4, 0), (32, 0)], [(8, 0), (16, 0), (0, 1), (0, 2), (0, 4)]),
    ("c", 16, 8, 1): ([(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]),
    ("c", 8, 8, 1): ([(0, 1)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]),
}


def linear(bases, number: int) -> np.ndarray:
    return sum((np.array(b) for i, b in enumerate(bases) if number >> i & 1), np.zeros(2, int))


def place(kind: str, rows: int, columns: int, packed: int) -> np.ndarray:
    """(elements of a thread, 32, 2): rows and columns by the table above."""
    element_bases, lane_bases = LAYOUTS[kind, rows, columns, packed]
    return np.array(
        [
            [linear(element_bases, e) + linear(lane_bases, lane) for lane in range(32)]
            for e in range(1 << len(element_bases))
        ]
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_fragment_maps_agree_with_linear_layouts(layout):
    kind, rows, columns, packed = layout
    if kind == "c":
        positions = c_positions(rows, columns)
    else:
        positions = (a_positions if kind == "a" else b_positions)(rows, columns, packed)
        positions = positions.swapaxes(1, 2).reshape(-1, 32)
    expected = place(*layout)
    assert (positions == expected[..., 0] * columns + expected[..., 1]).all()


def fragment(matrix: np.ndarray, kind: str, packed: int) -> np.ndarray:
    """(32, registers) of a matrix laid out for a warp; registers in units of ``packed`` elements."""
    where = place(kind, *matrix.shape, packed)
    values = np.ascontiguousarray(matrix[where[..., 0], where[..., 1]].T)
    return values.view(np.uint64 if values.dtype.itemsize == 8 else np.uint32)


def matrices(shape, dtype, rng):
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return rng.integers(-8, 9, shape).astype(np.float32).astype(dtype)


E4, E5 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
CASES = [
    ("m16n8k16", "f32.f16.f16.f32", np.float16, np.float16, np.float32, "sm_80"),
    ("m16n8k16", "f16.f16.f16.f16", np.float16, np.float16, np.float16, "sm_80"),
    ("m16n8k8", "f32.f16.f16.f32", np.float16, np.float16, np.float32, "sm_80"),
    ("m16n8k16", "f32.bf16.bf16.f32", ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32, "sm_80"),
    ("m16n8k8", "f32.bf16.bf16.f32", ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32, "sm_80"),
    ("m16n8k8", "f32.tf32.tf32.f32", np.float32, np.float32, np.float32, "sm_80"),
    ("m16n8k32", "s32.s8.s8.s32", np.int8, np.int8, np.int32, "sm_80"),
    ("m16n8k32", "s32.u8.s8.s32", np.uint8, np.int8, np.int32, "sm_80"),
    ("m8n8k4", "f64.f64.f64.f64", np.float64, np.float64, np.float64, "sm_80"),
    ("m16n8k32", "f32.e4m3.e5m2.f32", E4, E5, np.float32, "sm_89"),
    ("m16n8k32", "f16.e5m2.e4m3.f16", E5, E4, np.float16, "sm_89"),
]


@pytest.mark.parametrize(("shape", "types", "a_type", "b_type", "d_type", "cpu"), CASES, ids=lambda v: str(v)[:20])
def test_mma(kernel, shape, types, a_type, b_type, d_type, cpu):
    m, n, k = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape).groups())
    rng = np.random.default_rng(1)
    a, b, c = matrices((m, k), a_type, rng), matrices((k, n), b_type, rng), matrices((m, n), d_type, rng)
    wide = np.dtype(a_type).itemsize == 8
    per = lambda dtype: 1 if wide else 4 // np.dtype(dtype).itemsize  # noqa: E731
    fa, fb = fragment(a, "a", per(a_type)), fragment(b, "b", per(b_type))
    fc = fragment(c, "c", 1) if per(d_type) == 1 else fragment_pairs(c)
    out = np.zeros_like(fc)
    register, size = ("%q", 8) if wide else ("%r", 4)
    text, at, names = ["mov.u32 %r70, %laneid;"], 1, []
    for number, part in enumerate((fa, fb, fc)):
        count = part.shape[1]
        text.append(f"mad.wide.u32 %q50, %r70, {count * size}, %a{number};")
        text += [f"ld.global.b{size * 8} {register}{at + i}, [%q50+{i * size}];" for i in range(count)]
        names.append("{" + ", ".join(f"{register}{at + i}" for i in range(count)) + "}")
        at += count
    result = "{" + ", ".join(f"{register}{at + i}" for i in range(fc.shape[1])) + "}"
    text.append(f"mma.sync.aligned.{shape}.row.col.{types} {result}, {', '.join(names)};")
    text.append(f"mad.wide.u32 %q50, %r70, {fc.shape[1] * size}, %a3;")
    text += [f"st.global.b{size * 8} [%q50+{i * size}], {register}{at + i};" for i in range(fc.shape[1])]
    body = "\n".join(text)
    if wide:
        body = body.replace("%q", "%d").replace("%d50", "%q50")
        body = ".reg .f64 %d<20>;\n" + body.replace("ld.global.b64", "ld.global.f64").replace(
            "st.global.b64", "st.global.f64"
        )
    emulate(kernel(body, (".u64",) * 4, cpu=cpu), "k", 1, [fa, fb, fc, out])
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    expected = exact.astype(d_type)
    assert (out == (fragment(expected, "c", 1) if per(d_type) == 1 else fragment_pairs(expected))).all()


@pytest.mark.parametrize(("byte", "scales"), [(0, "%r7 %r8"), (3, "{%r7} {%r8}")])
@pytest.mark.parametrize("thread", [(0, 0), (1, 2)])
def test_block_scales_come_from_the_selected_threads_and_bytes(kernel, byte, scales, thread):
    """mxf8f6f4 with one scale for each row and column: of a quad, threads 2i and 2i + 1 have those of rows g and g + 8
    of A, thread i that of column g of B; all others hold garbage."""
    rng = np.random.default_rng(2)
    a, b = matrices((16, 32), E4, rng), matrices((32, 8), E4, rng)
    scale_a, scale_b = rng.integers(125, 131, 16), rng.integers(125, 131, 8)
    words = rng.integers(0, 1 << 32, (2, 32), dtype=np.uint32)

    def put(which, lane, value):
        words[which, lane] = words[which, lane] & ~np.uint32(255 << 8 * byte) | np.uint32(int(value) << 8 * byte)

    for g in range(8):
        put(0, 4 * g + 2 * thread[0], scale_a[g])
        put(0, 4 * g + 2 * thread[0] + 1, scale_a[g + 8])
        put(1, 4 * g + thread[1], scale_b[g])
    out = np.zeros((32, 4), np.float32)
    scale_of_a, scale_of_b = scales.split()
    loads = ["mov.u32 %r70, %laneid;"]
    for array, (first, count) in enumerate([(1, 4), (5, 2), (7, 1), (8, 1)]):
        loads.append(f"mad.wide.u32 %q50, %r70, {4 * count}, %a{array};")
        loads += [f"ld.global.b32 %r{first + i}, [%q50+{4 * i}];" for i in range(count)]
    body = "\n".join(
        [
            *loads,
            "mov.u32 %r20, 0;",
            f"mov.u16 %h1, {byte}; mov.u16 %h2, {thread[0]}; mov.u16 %h3, {thread[1]};",
            "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
            "{%r10, %r11, %r12, %r13}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r20, %r20, %r20, %r20},",
            f"{scale_of_a}, {{%h1, %h2}}, {scale_of_b}, {{%h1, %h3}};",
            "mad.wide.u32 %q50, %r70, 16, %a4; st.global.v4.b32 [%q50], {%r10, %r11, %r12, %r13};",
        ]
    )
    arrays = [fragment(a, "a", 4), fragment(b, "b", 4), words[0], words[1], out]
    emulate(kernel(body, (".u64",) * 5, cpu="sm_120a"), "k", 1, arrays)
    powers = (2.0 ** (scale.astype(np.float64) - 127) for scale in (scale_a, scale_b))
    rows, columns = powers
    expected = (a.astype(np.float64) * rows[:, None]) @ (b.astype(np.float64) * columns)
    assert (out.view(np.uint32) == fragment(expected.astype(np.float32), "c", 1)).all()


F4, F6, F6_WIDE = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn


@pytest.mark.parametrize(("a_name", "a_type", "b_name", "b_type"), [
    ("e2m1", F4, "e2m1", F4), ("e2m1", F4, "e4m3", E4), ("e3m2", F6_WIDE, "e2m3", F6),
])  # fmt: skip
def test_narrow_elements_have_a_byte_of_a_register_each(kernel, a_name, a_type, b_name, b_type):
    """`.kind::f8f6f4`: elements of 4 bits are in bits 2 to 5 of their bytes, those of 6 bits in the lowest six."""
    rng = np.random.default_rng(4)
    factors = [rng.integers(-3, 4, shape).astype(np.float32).astype(dtype)
               for shape, dtype in (((16, 32), a_type), ((32, 8), b_type))]  # fmt: skip
    a, b = (matrix.view(np.uint8) << (2 if dtype is F4 else 0) for matrix, dtype in zip(factors, (a_type, b_type)))
    out = np.zeros((32, 4), np.float32)
    body = f"""mov.u32 %r70, %laneid; mov.u32 %r20, 0;
    mad.wide.u32 %q50, %r70, 16, %a0; ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%q50];
    mad.wide.u32 %q50, %r70, 8, %a1; ld.global.v2.b32 {{%r5, %r6}}, [%q50];
    mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{a_name}.{b_name}.f32 {{%r10, %r11, %r12, %r13}},
    {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {{%r20, %r20, %r20, %r20}};
    mad.wide.u32 %q50, %r70, 16, %a2; st.global.v4.b32 [%q50], {{%r10, %r11, %r12, %r13}};"""
    arrays = [fragment(a.astype(np.uint8), "a", 4), fragment(b.astype(np.uint8), "b", 4), out]
    emulate(kernel(body, (".u64",) * 3, cpu="sm_120a"), "k", 1, arrays)
    exact = factors[0].astype(np.float32) @ factors[1].astype(np.float32)
    assert (out.view(np.uint32) == fragment(exact, "c", 1)).all()


def fragment_pairs(matrix: np.ndarray) -> np.ndarray:
    """A 16-bit C fragment, two elements to a register."""
    where = place("c", *matrix.shape, 1)
    return np.ascontiguousarray(matrix[where[..., 0], where[..., 1]].T).view(np.uint32)


def test_mma_saturates_integers(kernel):
    body = """
        mov.u32 %r1, 0x7F7F7F7F; mov.u32 %r2, 0x7FFFFFF0; mov.u32 %r9, %laneid;
        mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r3, %r4, %r5, %r6},
            {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r2, %r2, %r2, %r2};
        mad.wide.u32 %q1, %r9, 4, %a0; st.global.b32 [%q1], %r3;
    """
    out = np.zeros(32, np.int32)
    emulate(kernel(body, cpu="sm_80"), "k", 1, [out])
    assert (out == 2**31 - 1).all()


@pytest.mark.parametrize(("count", "trans"), list(itertools.product((1, 2, 4), ("", ".trans"))))
def test_ldmatrix_and_stmatrix(kernel, count, trans):
    registers = ", ".join(f"%r{i}" for i in range(1, count + 1))
    stores = "\n".join(f"st.global.b32 [%q3+{128 * i}], %r{i + 1};" for i in range(count))
    body = f"""
        .shared .align 16 .b8 tile[1024];
        mov.u32 %r10, %laneid; mov.u32 %r11, tile; mad.lo.u32 %r12, %r10, 16, %r11;
        mad.wide.u32 %q1, %r10, 16, %a0;
        ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%q1]; st.shared.v4.b32 [%r12], {{%r20, %r21, %r22, %r23}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r12];
        mad.wide.u32 %q3, %r10, 4, %a1;
        {stores}
        add.u32 %r12, %r12, 512;
        stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r12], {{{registers}}};
        bar.sync 0;
        setp.ge.u32 %p1, %r10, {8 * count};
        @%p1 bra END;
        ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r12];
        mad.wide.u32 %q1, %r10, 16, %a2; st.global.v4.b32 [%q1], {{%r20, %r21, %r22, %r23}};
        END:
    """
    source = np.arange(32 * 8, dtype=np.uint16)
    words, back = np.zeros((count, 32), np.uint32), np.zeros(32 * 8, np.uint16)
    emulate(kernel(body, (".u64",) * 3), "k", 1, [source, words, back])
    rows = source.reshape(4, 8, 8)[:count]
    loaded = rows.swapaxes(1, 2) if trans else rows
    assert (words == np.ascontiguousarray(loaded).view(np.uint32).reshape(count, 32)).all()
    assert (back[: 64 * count] == source[: 64 * count]).all() and not back[64 * count :].any()


@pytest.mark.parametrize(
    "instruction",
    [
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [tile];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {%r1};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;",
        "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r1, %r1}, {%r1}, {%r1, %r1};",
    ],
)
def test_matrices_need_every_thread_of_the_warp(kernel, instruction):
    """PTX ISA, mma and ldmatrix: undefined "if any thread in the warp has exited"."""
    body = f"""
        .shared .align 16 .b8 tile[128]; mov.u32 %r10, %laneid; mov.u32 %r1, 0;
        setp.eq.u32 %p1, %r10, 5; @%p1 exit; {instruction}
    """
    with pytest.raises(EmulationError, match="a thread of the warp has exited"):
        emulate(kernel(body, ()), "k", 1, [], check_uninitialised=False)


def test_movmatrix_transposes(kernel):
    body = """
        mov.u32 %r10, %laneid; mad.wide.u32 %q1, %r10, 4, %a0; ld.global.b32 %r1, [%q1];
        movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.b32 [%q1], %r2;
    """
    data = np.arange(64, dtype=np.uint16).reshape(8, 8)
    expected = data.T.copy()
    emulate(kernel(body), "k", 1, [data])
    assert (data == expected).all()


M = N = K = 128


def run_matmul(ptx: str, seed: int | None):
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (M, K)).astype(np.float16)
    b = rng.integers(-4, 5, (N, K)).astype(np.float16)
    c = np.full((M, N), np.nan, np.float32)
    emulate(ptx, "k", (N // 64, M // 64), [a, b, c], seed=seed)
    return c, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_matmul(assemble, seed):
    ptx = matmul_ptx(K, N)
    assemble(ptx, "sm_80")
    computed, expected = run_matmul(ptx, seed)
    assert (computed == expected).all()


@pytest.mark.parametrize(
    "instruction", ["READY: bar.sync 0;", "bar.sync 1;", "cp.async.wait_group 1;", "DRAIN: cp.async.wait_group 0;"]
)
def test_matmul_without_a_wait_fails(instruction):
    ptx = matmul_ptx(K, N)
    assert instruction in ptx
    label = instruction.partition(":")[0] + ":" if ":" in instruction else ""
    broken = ptx.replace(instruction, label)

    def fails(seed: int) -> bool:
        try:
            computed, expected = run_matmul(broken, seed)
        except EmulationError as error:
            return "read before it is written" in str(error) or "race on shared" in str(error)
        return not np.array_equal(computed, expected)

    assert all(fails(seed) for seed in range(3))


def test_cp_async_zero_fills_above_the_source_size(kernel):
    body = """
        .shared .align 16 .b8 tile[512];
        mov.u32 %r1, %laneid; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 16, %r2; mad.wide.u32 %q1, %r1, 16, %a0;
        and.b32 %r3, %r1, 3; shl.b32 %r3, %r3, 2; setp.eq.u32 %p1, %r3, 12; selp.b32 %r3, 16, %r3, %p1;
        cp.async.cg.shared.global [%r2], [%q1], 16, %r3;
        cp.async.commit_group; cp.async.wait_all;
        ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2];
        mad.wide.u32 %q2, %r1, 16, %a1; st.global.v4.b32 [%q2], {%r4, %r5, %r6, %r7};
    """
    source = np.arange(1, 129, dtype=np.uint32).reshape(32, 4)
    out = np.zeros_like(source)
    emulate(kernel(body, (".u64", ".u64")), "k", 1, [source, out])
    entry = np.array([0, 1, 2, 4])[np.arange(32) % 4]
    assert (out == np.where(np.arange(4) < entry[:, None], source, 0)).all()


def test_cp_async_reads_its_source_when_it_is_waited_for(kernel):
    body = """
        .shared .align 16 .b8 tile[16];
        setp.ne.u32 %p1, %r40, 0;
        cp.async.ca.shared.global [tile], [%a0], 4; cp.async.commit_group;
        st.global.u32 [%a0], 7;
        cp.async.wait_group 0;
        ld.shared.u32 %r1, [tile]; st.global.u32 [%a0+4], %r1;
    """
    data = np.array([1, 2], np.uint32)
    emulate(kernel(body, threads=1), "k", 1, [data])
    assert data[1] == 7


def test_bytes_are_loaded_by_columns(kernel):
    """Register h of a 16x16 matrix has in lane l the elements 4(l%4) to 4(l%4)+3 of column l/4 + 8h."""
    body = """
        .shared .align 16 .b8 tile[512]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2;
        mad.wide.u32 %q1, %r1, 16, %a0; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%q1];
        st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r10, %r11, %r12, %r13}, [%r3];
        mad.wide.u32 %q2, %r1, 16, %a1; st.global.v4.u32 [%q2], {%r10, %r11, %r12, %r13};
    """
    data = np.random.default_rng(0).integers(0, 256, (2, 16, 16), dtype=np.uint8)
    out = np.zeros((32, 2, 2, 4), np.uint8)
    emulate(kernel(body, (".u64", ".u64"), cpu="sm_120a"), "k", 1, [data, out])
    for lane in range(32):
        for matrix in range(2):
            for half in range(2):
                rows = slice(lane % 4 * 4, lane % 4 * 4 + 4)
                assert (out[lane, matrix, half] == data[matrix, rows, lane // 4 + 8 * half]).all()
