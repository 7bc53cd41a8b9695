"""wmma.load, wmma.mma, wmma.store, as nvcc emits them for `nvcuda::wmma`."""

import ml_dtypes
import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

F16, BF16, F32, F64, S8, S32 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int32
# shape, type of the factors and of the sum in PTX, of the factors and the sum in NumPy, registers of A, B and C
CASES = [
    ("m16n16k16", "f16", "f32", F16, F32, (8, 8, 8)), ("m32n8k16", "f16", "f16", F16, F16, (8, 8, 4)),
    ("m8n32k16", "f16", "f32", F16, F32, (8, 8, 8)), ("m16n16k16", "bf16", "f32", BF16, F32, (4, 4, 8)),
    ("m8n32k16", "bf16", "f32", BF16, F32, (2, 8, 8)), ("m16n16k8", "tf32", "f32", F32, F32, (4, 4, 8)),
    ("m16n16k16", "s8", "s32", S8, S32, (2, 2, 8)), ("m32n8k16", "s8", "s32", S8, S32, (4, 1, 8)),
    ("m8n8k4", "f64", "f64", F64, F64, (1, 1, 2)),
]  # fmt: skip
LAYOUTS = (("row", "col", "row"), ("col", "row", "col"))


def text(shape: str, factor: str, total: str, counts: tuple[int, ...], layouts: tuple[str, ...], space: str) -> str:
    """A kernel that loads A from `space`, B and C, multiplies, doubles each element and stores D."""
    file = "d" if factor == "f64" else "r"
    first = np.cumsum((1, *counts))
    parts = ["{" + ", ".join(f"%{file}{at + n}" for n in range(count)) + "}" for at, count in zip(first, counts)]
    sums = parts[2][1:-1].split(", ")
    types = f"{total}.{total}" if factor == "f16" else f"{total}.{factor}.{factor}.{total}"
    double = {"f32": "add.f32 X, X, X;", "f16": "add.rn.f16x2 X, X, X;", "s32": "add.s32 X, X, X;",
              "f64": "add.f64 X, X, X;"}[total]  # fmt: skip
    copies = ""
    if space == ".shared":
        copies = """mov.u32 %r90, %tid.x; mad.wide.u32 %q5, %r90, 16, %q1;
        ld.global.v4.b32 {%r91, %r92, %r93, %r94}, [%q5]; shl.b32 %r95, %r90, 4;
        mov.u32 %r96, memory; add.u32 %r96, %r96, %r95;
        st.shared.v4.b32 [%r96], {%r91, %r92, %r93, %r94}; bar.warp.sync -1; mov.u32 %r96, memory;"""
    place = "%r96" if space == ".shared" else "%q1"
    return f"""
    .version 8.7
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 lda, .param .u32 ldb, .param .u32 ldc)
    .reqntid 32
    {{
    .reg .b32 %r<100>; .reg .f64 %d<20>; .reg .b64 %q<6>;
    .shared .align 16 .b8 memory[1024];
    ld.param.u64 %q1, [a]; ld.param.u64 %q2, [b]; ld.param.u64 %q3, [c];
    ld.param.u32 %r81, [lda]; ld.param.u32 %r82, [ldb]; ld.param.u32 %r83, [ldc];
    {copies}
    wmma.load.a.sync.aligned.{layouts[0]}.{shape}{space}.{factor} {parts[0]}, [{place}], %r81;
    wmma.load.b.sync.aligned.{layouts[1]}.{shape}.{factor} {parts[1]}, [%q2], %r82;
    wmma.load.c.sync.aligned.{layouts[2]}.{shape}.global.{total} {parts[2]}, [%q3], %r83;
    wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types} {parts[2]}, {parts[0]}, {parts[1]}, {parts[2]};
    {" ".join(double.replace("X", each) for each in sums)}
    wmma.store.d.sync.aligned.{layouts[2]}.{shape}.global.{total} [%q3], {parts[2]}, %r83;
    ret;
    }}"""


def lying(matrix: np.ndarray, layout: str, padding: int) -> tuple[np.ndarray, int]:
    """The matrix in memory, with `padding` elements behind each row or column, and its stride."""
    lines = matrix if layout == "row" else matrix.T
    memory = np.zeros((lines.shape[0], lines.shape[1] + padding), matrix.dtype)
    memory[:, : lines.shape[1]] = lines
    return memory, memory.shape[1]


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:3]))
def test_products_of_fragments(case, layouts):
    shape, factor, total, dtype, sum_dtype, counts = case
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    draw = np.random.default_rng(3)
    a, b, c = (draw.integers(-4, 5, each).astype(kind) for each, kind in (((m, k), dtype), ((k, n), dtype),
                                                                          ((m, n), sum_dtype)))  # fmt: skip
    padding = 16 // np.dtype(dtype).itemsize
    (a_memory, lda), (b_memory, ldb), (c_memory, ldc) = (
        lying(matrix, layout, pad) for matrix, layout, pad in zip((a, b, c), layouts, (padding, padding, 4))
    )
    space = ".shared" if a_memory.nbytes == 512 else ".global"
    emulate(text(shape, factor, total, counts, layouts, space), "k", 1, [a_memory, b_memory, c_memory, lda, ldb, ldc])
    got = c_memory[:, :-4] if layouts[2] == "row" else c_memory[:, :-4].T
    assert np.array_equal(got.astype(np.float64), 2 * (a.astype(np.float64) @ b.astype(np.float64) + c))
    assert not c_memory[:, -4:].any(), "the padding is not written"


def test_matrices_in_shared_memory_are_read():
    case = CASES[0]
    a, b, c = np.ones((16, 16), F16), np.ones((16, 16), F16), np.zeros((16, 16), F32)
    code = text(*case[:3], case[5], LAYOUTS[0], ".shared")
    emulate(code, "k", 1, [a, b, c, 16, 16, 16])
    assert (c == 32).all()
    with pytest.raises(EmulationError, match="read before it is written"):
        emulate(code.replace("[%r96], {", "[%r96+16], {"), "k", 1, [a, b, c, 16, 16, 16])


@pytest.mark.parametrize(("old", "new"), [
    ("m16n16k16.f32.f32", "m16n16k16.f32.bf16.bf16.f32"), ("{%r1, ", "{"),
    ("load.a.sync.aligned.row.m16n16k16", "load.a.sync.aligned.row.m16n16k8"),
])  # fmt: skip
def test_shapes_types_and_registers_are_those_of_the_isa(old, new):
    code = text(*CASES[0][:3], CASES[0][5], LAYOUTS[0], ".global")
    arrays = [np.zeros((16, 16), F16), np.zeros((16, 16), F16), np.zeros((16, 16), F32)]
    with pytest.raises(EmulationError):
        emulate(code.replace(old, new), "k", 1, [*arrays, 16, 16, 16])
