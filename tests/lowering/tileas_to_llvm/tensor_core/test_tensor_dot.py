"""Dots into tensor memory in the emulator, whose lanes, descriptors and orders are its own, written from the ISA: every
type, both majors, loaded and computed operands, 64 and more rows, with several orders of warps."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import Matmul, attention_like, by_columns, chained, converted, matmul
from tests.kernels.reasons import causes, stated
from tests.kernels.tensor_memory import FENCES, ORDERS, PLAIN, TENSOR_ORDERS, check, fails, survivors
from tests.kernels.views import Kernel
from tileiras.codegen import ptxas, toolkit

GPU = "sm_100"

TYPES = [
    ("f16", "f32", "f16"), ("f16", "f16", "f16"), ("bf16", "f32", "f16"), ("f8E4M3FN", "f32", "f8f6f4"),
    ("f8E5M2", "f32", "f8f6f4"), ("f8E4M3FN", "f16", "f8f6f4"), ("i8", "i32", "i8"),
]  # fmt: skip


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("operand", "accumulator", "kind"), TYPES, ids=lambda value: str(value))
@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 32), (256, 64)])
def test_types_and_shapes(operand, accumulator, kind, m, n):
    kernel = matmul((m, n, 64), operand, accumulator, steps=3, b_by_columns=True)
    check(kernel, f"{kind} {min(m, 128)}x{n}")


@pytest.mark.parametrize("span", [16, 32, 64, 128])
@pytest.mark.parametrize("b_by_columns", [False, True])
def test_every_swizzle_along_k_and_along_n(span, b_by_columns):
    """The contiguous dimension of B has these bytes; without a swizzle 16 of them along N."""
    if b_by_columns and span == 16:
        pytest.skip("an instruction takes 32 bytes along K")
    elements = span // 2
    n, k = (32, elements) if b_by_columns else (elements, 32)
    if n == 8:
        # Eight columns leave the threads of four warps fewer elements than a copy has.
        kernel = matmul((64, n, 64), "f16", steps=3, b_by_columns=b_by_columns)
    else:
        kernel = matmul((64, n, k), "f16", steps=3, b_by_columns=b_by_columns)
    check(kernel, f"f16 64x{n}", num_warps=4)


def test_a_by_columns():
    check(by_columns((128, 64, 32), steps=3), "f16 128x64")


@pytest.mark.parametrize("b_by_columns", [False, True])
@pytest.mark.parametrize("operand", ["f8E4M3FN", "i8"])
def test_bytes_in_any_order(operand, b_by_columns):
    kind = "i8" if operand == "i8" else "f8f6f4"
    check(matmul((128, 64, 64), operand, steps=3, b_by_columns=b_by_columns), f"{kind} 128x64")


@pytest.mark.parametrize(("tiles", "shape"), [((16, 64, 64), "64x16"), ((32, 128, 64), "128x32")])
@pytest.mark.parametrize("b_by_columns", [False, True])
def test_few_rows_exchange_a_and_b(tiles, shape, b_by_columns):
    check(matmul(tiles, steps=3, b_by_columns=b_by_columns), f"f16 {shape}", num_warps=4)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize(("m", "n"), [(64, 128), (128, 64), (256, 64)])
def test_warps_share_lanes_by_columns(m, n, warps):
    check(matmul((m, n, 32), steps=4), f"f16 {min(m, 128)}x{n}", num_warps=warps)


def test_more_columns_than_an_instruction_has():
    check(matmul((64, 512, 32), steps=3), "f16 64x256")


def test_a_that_is_computed_element_by_element():
    """A goes to tensor memory; the fence is for the copies of B."""
    ptx = check(converted((128, 64, 64), "a", "f32", "f16", steps=3), "f16 128x64")
    assert "tcgen05.st" in ptx and "st.shared" not in ptx.split("tcgen05.mma")[0]
    assert ptx.count("fence.proxy.async") == 1


COMPUTED_PLANS = [{"pipeline_strategy": "none"}, {"tensor_maps": "host"}, {"pipeline_strategy": "warp-specialize"},
                  {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", COMPUTED_PLANS, ids=str)
@pytest.mark.parametrize(("tiles", "stored", "operand"), [
    ((128, 64, 64), "f8E4M3FN", "f16"), ((64, 16, 16), "f32", "bf16"), ((256, 64, 32), "f8E5M2", "bf16"),
])  # fmt: skip
def test_a_that_is_computed_under_every_plan(tiles, stored, operand, options):
    """As dequantised weights are."""
    m, n, _ = tiles
    ptx = check(converted(tiles, "a", stored, operand, steps=4), f"f16 {min(m, 128)}x{n}", **options)
    assert "tcgen05.st" in ptx


@pytest.mark.parametrize(("tiles", "stored", "operand", "options"), [
    ((32, 64, 64), "f32", "f16", {}), ((128, 64, 32), "f16", "tf32", {}),
    ((128, 512, 64), "f32", "f16", {"num_warps": 8}),
], ids=["exchanged", "32 bits", "no columns left"])  # fmt: skip
def test_computed_a_goes_to_smem_if_tensor_memory_rejects_it(tiles, stored, operand, options):
    kernel = converted(tiles, "a", stored, operand, steps=3)
    artifact = kernel.compiled(GPU, **PLAIN, **options)
    assert "tcgen05.mma" in artifact.text and "tcgen05.st" not in artifact.text
    kernel.emulated(artifact)


def test_b_that_is_computed_is_stored_and_fenced():
    ptx = check(converted((64, 64, 64), "b", "f32", "f16", steps=3), "f16 64x64")
    assert ptx.count("fence.proxy.async") == 1


@pytest.mark.parametrize("n", [16, 64])
def test_tf32_that_is_computed(n):
    check(converted((64, n, 32), "b", "f32", "tf32", steps=3), f"tf32 64x{n}", num_warps=4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("b_by_columns", [False, True])
@pytest.mark.parametrize("k", [8, 32, 64])
def test_tf32_in_any_order(b_by_columns, k):
    """Rows of 128 bytes along N in a swizzle that keeps 32 bytes together."""
    check(matmul((128, 64, k), "tf32", "f32", steps=3, b_by_columns=b_by_columns), "tf32 128x64")
    check(by_columns((128, 64, k), operand="tf32", steps=3, b_by_columns=b_by_columns), "tf32 128x64")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("strategy", ["unspecialize", "warp-specialize"])
@pytest.mark.parametrize("tensor_maps", ["host", "device"])
def test_tf32_along_n_comes_in_boxes(tensor_maps, strategy):
    """Boxes keep 32 bytes together, as the descriptor of the operand does."""
    options = {"tensor_maps": tensor_maps, "pipeline_strategy": strategy}
    for kernel in (matmul((128, 64, 32), "tf32", steps=3), by_columns((128, 64, 32), operand="tf32", steps=3)):
        ptx = check(kernel, "tf32 128x64", **options)
        assert "cp.async.cg" not in ptx
        assert ("swizzle_atomicity" in ptx) == (tensor_maps == "device")


@pytest.mark.parametrize("rows", [64, 128])
def test_the_result_of_a_dot_is_the_next_ones_a(rows):
    check(chained((rows, 64, 64, 64)), f"f16 {rows}x64", num_warps=4)


@pytest.mark.parametrize("rows", [64, 128])
def test_attention(rows):
    kernel = attention_like(1, rows=rows, columns=64, depth=64, steps=4)
    check(kernel, f"f16 {rows}x64", num_warps=4)


def rescaled(rows: int, columns: int, depth: int, steps: int = 3) -> Kernel:
    return attention_like(1, rows=rows, columns=columns, depth=depth, steps=steps, halved=True)


def reads_a_in_columns(ptx: str) -> int:
    return len(re.findall(r"tcgen05\.mma\S+ \[\S+\], \[", ptx))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(128, 64, 64), (128, 32, 128), (256, 64, 64)])
def test_probabilities_go_from_registers_to_tensor_memory(rows, columns, depth, warps):
    """The second dot reads them there, and its accumulator is rescaled there."""
    shapes = {f"f16 128x{columns}", f"f16 128x{depth}"}
    ptx = check(rescaled(rows, columns, depth), *shapes, num_warps=warps)
    assert reads_a_in_columns(ptx) == rows // 128 * columns // 16
    assert "st.shared.v4" not in ptx


def test_probabilities_of_64_rows():
    ptx = check(rescaled(64, 64, 64), "f16 64x64", num_warps=4)
    assert reads_a_in_columns(ptx) == 64 // 16


def test_a_rescaled_accumulator_with_other_uses_is_loaded():
    """Its sums with itself are, and stored again."""
    kernel = rescaled(128, 64, 64)
    text = kernel.text.replace("mulf %o_1, %half", "addf %o_1, %o_1")
    assert text != kernel.text
    ptx = kernel._replace(text=text).compiled(GPU, num_warps=4).text
    assert reads_a_in_columns(ptx) == 4
    o = np.zeros((128, 64))
    q, k, v = (x.astype(np.float64) for x in kernel.inputs)
    most = np.full((128, 1), -10000.0)
    for step in range(3):
        part = slice(64 * step, 64 * step + 64)
        s = q @ k[:, part]
        most = np.maximum(most, s.max(axis=1, keepdims=True))
        o = 2 * o + (s - most).astype(np.float16).astype(np.float64) @ v[part]
    other = kernel._replace(text=text, expected=(o.astype(np.float32), *kernel.expected[1:]))
    for seed in (None, 0):
        other.emulated(other.compiled(GPU, num_warps=4), seed)


def test_scores_and_probabilities_take_turns_in_their_columns():
    """512 columns do not hold both: stores are behind other warps' loads of the scores, and the next scores behind the
    dot that reads the probabilities."""
    kernel = rescaled(256, 128, 128, steps=2)
    code = check(kernel, "f16 128x128", num_warps=8)
    fence = r"tcgen05\.fence::after_thread_sync;(?=[^;]*\s+tcgen05\.st)"
    without = re.sub(fence, "", "\n".join(line for line in code.split("\n") if not line.strip().startswith("//")))
    assert without.count("after_thread_sync") == code.count("after_thread_sync") - 1
    assert fails(kernel, kernel.compiled(GPU), without)
    resources = ptxas.assemble(code, GPU).resources["k"]
    assert resources.stack == 0


@pytest.mark.parametrize("accumulator", ["f32", "f16"])
@pytest.mark.parametrize("m", [64, 128])
def test_an_accumulator_that_is_loaded(m, accumulator):
    check(matmul((m, 64, 64), "f16", accumulator, steps=3, start="loaded"), f"f16 {m}x64")


def test_without_a_loop():
    check(matmul((128, 64, 64)), "f16 128x64")


def test_operands_that_do_not_change():
    """Nothing but the commits is in the loop: warps stay together all the same."""
    parts = Matmul((128, 64, 64), steps=9, a_outside=True)
    text = parts.text()
    load = next(line for line in text.splitlines() if "%k_b" in line and "load" in line)
    outside = load.replace("[%i, %zero]", "[%zero, %zero]")
    assert outside != load
    lines = [line for line in text.splitlines() if line != load]
    at = next(number for number, line in enumerate(lines) if "for %i" in line)
    kernel = parts.kernel("\n".join([*lines[:at], outside, *lines[at:]]), lambda a, b: 9 * a[:, :64] @ b[:64])
    ptx = check(kernel, "f16 128x64", num_warps=8)
    loop = ptx[ptx.index("tcgen05.mma") : ptx.index("tcgen05.ld")]
    assert "cp.async" not in loop


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("warps", [4, 8])
def test_boxes_of_tensor_maps_fill_the_ring(stages, warps):
    kernel = matmul((128, 64, 64), steps=7)
    options = {"tensor_maps": "host", "unspecialized_pipeline_num_stages": stages}
    ptx = check(kernel, "f16 128x64", num_warps=warps, **options)
    assert "cp.async.bulk.tensor" in ptx and "cp.async.cg" not in ptx


def test_ragged_tiles():
    check(matmul((64, 64, 64), sizes=(40, 56, 152), steps=3), "f16 64x64", num_warps=4)


STORE_ORDERS = TENSOR_ORDERS.replace("|wait|", "|wait::st|")

MUTATED = {
    "ring": (lambda: matmul((128, 64, 64), steps=6), {}, ORDERS),
    "no loop": (lambda: matmul((64, 64, 64)), {"num_warps": 4}, ORDERS),
    # Threads read only elements of a stage that they have copied themselves: one barrier behind their stores suffices.
    "B computed": (lambda: converted((64, 64, 64), "b", "f32", "f16", steps=5), {"num_warps": 4}, FENCES),
    "A computed": (lambda: converted((128, 64, 64), "a", "f32", "f16", steps=5), {"num_warps": 4}, STORE_ORDERS),
    "accumulator loaded": (lambda: matmul((128, 64, 64), steps=6, start="loaded"), {}, ORDERS),
    "two stages": (lambda: matmul((128, 64, 64), steps=6), {"unspecialized_pipeline_num_stages": 2}, ORDERS),
    "two dots": (lambda: chained((64, 64, 64, 64)), {"num_warps": 4}, ORDERS),
    # Loads and their waits are one sequence.
    "probabilities": (lambda: rescaled(128, 64, 64, 4), {"num_warps": 4}, STORE_ORDERS),
    "probabilities in the columns of scores": (lambda: rescaled(256, 128, 128, 2), {"num_warps": 8}, STORE_ORDERS),
    # Its first tile is waited for before the loop, whose own wait comes in time as well.
    "attention": (lambda: attention_like(1, rows=64, columns=64, depth=64, steps=4), {"num_warps": 4}, TENSOR_ORDERS),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(MUTATED))
def test_synchronization_is_minimal(name):
    make, options, orders = MUTATED[name]
    kernel = make()
    artifact = kernel.compiled(GPU, **PLAIN, **options)
    assert [line for _, line in survivors(kernel, artifact, orders)] == []


def test_no_wait_for_a_commit_is_superfluous():
    """Loops around try_wait: without one, something is used too early."""
    kernel = matmul((128, 64, 64), steps=6)
    artifact = kernel.compiled(GPU, tensor_maps="none")
    waits = list(re.finditer(r"mbarrier\.try_wait[^;]*;\s*not\.pred[^;]*;\s*@%p\d+ bra[^;]*;", artifact.text))
    assert len(waits) == 2
    for wait in waits:
        assert fails(kernel, artifact, artifact.text[: wait.start()] + artifact.text[wait.end() :])


@pytest.mark.parametrize("gpu", ["sm_103", "sm_107", "sm_110"])
def test_the_rest_of_the_family(gpu):
    check(matmul((128, 64, 64), steps=3), "f16 128x64", gpu=gpu)


def test_integers_are_multiplied_where_the_kind_exists():
    kernel = matmul((128, 64, 64), "i8", "i32", steps=3)
    check(kernel, "i8 128x64", gpu="sm_110")
    artifact = kernel.compiled("sm_103")
    assert "tcgen05" not in artifact.text and "mma.sync" in artifact.text
    kernel.emulated(artifact)


def test_machine_code_multiplies_into_tensor_memory():
    if toolkit.find_program("ptxas") is None or toolkit.find_program("nvdisasm") is None:
        pytest.skip("the assembler or the disassembler is not installed")
    text = matmul((128, 64, 64), steps=3).compiled(GPU, emit="sass").text
    assert text.count("UTCHMMA") == 4 and "UTCBAR" in text and "LDTM" in text
    assert "HMMA.16" not in text


def test_a_loop_that_does_not_run_gives_the_start():
    parts = Matmul((128, 64, 64), steps=3)
    text = parts.text().replace("%steps = constant <i32: 3> : tile<i32>", "%steps = constant <i32: 0> : tile<i32>")
    kernel = parts.kernel(text, lambda a, b: np.zeros((128, 64)))
    kernel.emulated(kernel.compiled(GPU))


def reasons(kernel: Kernel, **options) -> list[str]:
    """The reasons in remarks why dots are not multiplied into tensor memory."""
    artifact = kernel.compiled(GPU, emit_remarks=True, emit="tileas", **options)
    return causes(artifact.diagnostics, "dots.tensor-cores")


def test_remarks_name_the_rule_or_the_resource():
    assert reasons(matmul((128, 64, 64), steps=2), num_warps=2) == [
        "dots.few-warps instruction=tcgen05.mma least=4 warps=2"
    ]
    for warps in (2, 4):
        assert reasons(matmul((16, 16, 64), steps=2), num_warps=warps) == [
            'dots.small instruction=tcgen05.mma least="64x8, 128x16" m=16 n=16'
        ]
    assert reasons(matmul((128, 64, 64), steps=2)) == []


@pytest.mark.parametrize(("columns", "stored"), [(64, True), (256, False)])
def test_computed_a_is_stored_to_smem_before_occupancy_falls(columns, stored):
    """Two CTAs have 256 columns each, which an accumulator of 256 takes."""
    kernel = converted((128, columns, 32), "a", "f32", "f16", steps=2, hints="sm_100 = {occupancy = 2}")
    artifact = kernel.compiled(GPU)
    (allocated,) = re.findall(r"tcgen05\.alloc[^;]*\], (\d+);", artifact.text)
    assert int(allocated) == max(columns, 128)
    assert ("tcgen05.st" in artifact.text) == stored and "mma.sync" not in artifact.text
    kernel.emulated(artifact)


def test_an_occupancy_yields_to_accumulators():
    few = Matmul((128, 64, 64), steps=2, hints="sm_100 = {occupancy = 16}").kernel()
    result = stated(few.compiled(GPU, emit="tileas", num_warps=4).diagnostics)
    assert "kernel.fewer-ctas ctas=8 asked=16; kernel.columns-needed columns=64" in result


def test_an_occupancy_yields_to_operands_of_loops():
    """Of which warps by themselves would multiply as many, at a sixth of the rate."""
    few = Matmul((128, 64, 64), steps=2, hints="sm_100 = {occupancy = 16}").kernel()
    for options in ({}, {"tensor_maps": "host"}):
        assert reasons(few, num_warps=4, **options) == []
        check(few, "f16 128x64", num_warps=4, **options)
    once = Matmul((128, 64, 64), hints="sm_100 = {occupancy = 16}").kernel()
    assert reasons(once, num_warps=4) == [
        "dots.operand-bytes bytes=24576 most=11776 instruction=tcgen05.mma"
    ]


def test_every_cta_of_a_cluster_reads_its_own_shared_memory():
    """Whose addresses have the CTA's rank above the bits that a descriptor takes."""
    product = Matmul((128, 128, 64), steps=2, hints="sm_100 = {num_cta_in_cga = 2}")
    check(product.kernel(), "f16 64x128")
    # Threads copy B, so that the CTAs do not multiply together.
    product.load_b = product.load_b.replace(" : ", " optimization_hints = <sm_100 = {allow_tma = false}> : ", 1)
    artifact = check(product.kernel(), "f16 64x128", tensor_maps="host")
    assert "cp.async.bulk.tensor" in artifact and "cp.async.cg" in artifact
