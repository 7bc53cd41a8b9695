"""Dots of warpgroups in the emulator, whose fragments, descriptors and orders are its own, written from the ISA: every
type, both majors, operands in registers and in shared memory, one and more warpgroups, with several orders of warps."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import Matmul, attention_in_two_loops, attention_like, by_columns, chained, converted, matmul
from tests.kernels.reasons import causes
from tests.kernels.views import Kernel
from tests.machine_code import assemble
from tileiras.codegen import toolkit
from tileiras.sim import EmulationError

GPU = "sm_90"
SEEDS = (None, 0, 1)


def instructions(ptx: str) -> set[str]:
    """`m64n64k16.f32.f16.f16` and the like, each once."""
    return set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\S+)", ptx))


def forms(ptx: str) -> set[str]:
    """Of each instruction, whether A is in shared memory or in registers, and the flags behind the scale of D."""
    matches = re.findall(r"wgmma\.mma_async\S+ \{[^}]*\}, (\{|\w+)[^;]*?, b, ([^;]*);", ptx)
    return {("registers" if a == "{" else "shared") + " " + flags.partition(", ")[2] for a, flags in matches}


PLAIN = {"pipeline_strategy": "unspecialize"}
"""All warps of a kernel copy and multiply, in place of the plan that the compiler would choose."""


def check(kernel: Kernel, *shapes: str, **options) -> str:
    """Check that the kernel has these instructions, compiles without a message of ptxas, and is right; return its
    PTX.  The options are `PLAIN` unless others are given."""
    artifact = kernel.compiled(GPU, **{**PLAIN, **options})
    assert instructions(artifact.text) == set(shapes)
    assert "mma.sync" not in artifact.text
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, GPU)
    return artifact.text


TYPES = [
    ("f16", "f32", "k16.f32.f16.f16", 64),
    ("f16", "f16", "k16.f16.f16.f16", 64),
    ("bf16", "f32", "k16.f32.bf16.bf16", 64),
    ("f8E4M3FN", "f32", "k32.f32.e4m3.e4m3", 64),
    ("f8E5M2", "f32", "k32.f32.e5m2.e5m2", 64),
    ("f8E4M3FN", "f16", "k32.f16.e4m3.e4m3", 64),
    ("i8", "i32", "k32.s32.s8.s8.satfinite", 64),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("operand", "accumulator", "row", "k"), TYPES, ids=lambda value: str(value))
@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 32), (64, 256), (128, 128)])
def test_types_and_shapes(operand, accumulator, row, k, m, n):
    kernel = matmul((m, n, k), operand, accumulator, steps=3, b_by_columns=True)
    columns = n if m == 128 or n == 64 else n // 2
    check(kernel, f"m64n{columns}{row}")


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
        kernel = matmul((256, n, 64), "f16", steps=3, b_by_columns=b_by_columns)
    else:
        kernel = matmul((64, n, k), "f16", steps=3, b_by_columns=b_by_columns)
    check(kernel, f"m64n{n}k16.f32.f16.f16")


def test_a_by_columns():
    ptx = check(by_columns((64, 64, 32), steps=3), "m64n64k16.f32.f16.f16")
    assert forms(ptx) == {"shared 1, 1, 1, 1"}


def test_a_and_b_by_rows_and_by_columns():
    ptx = check(matmul((64, 64, 32), steps=3, b_by_columns=True), "m64n64k16.f32.f16.f16")
    assert forms(ptx) == {"shared 1, 1, 0, 0"}
    ptx = check(matmul((64, 64, 32), steps=3), "m64n64k16.f32.f16.f16")
    assert forms(ptx) == {"shared 1, 1, 0, 1"}


@pytest.mark.parametrize(("tiles", "shape"), [((16, 64, 64), "m64n16"), ((32, 128, 64), "m64n32")])
@pytest.mark.parametrize("b_by_columns", [False, True])
def test_few_rows_exchange_a_and_b(tiles, shape, b_by_columns):
    check(matmul(tiles, steps=3, b_by_columns=b_by_columns), f"{shape}k16.f32.f16.f16")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize(("m", "n"), [(64, 128), (128, 64), (256, 64)])
def test_one_and_more_warpgroups(m, n, warps):
    """Along M first, with at least 64 rows for each warpgroup, then along N."""
    columns = n // max(1, warps // 4 // (m // 64))
    check(matmul((m, n, 32), steps=4), f"m64n{columns}k16.f32.f16.f16", num_warps=warps)


def test_elementwise_computed_a_stays_in_registers():
    ptx = check(converted((64, 64, 64), "a", "f32", "f16", steps=3), "m64n64k16.f32.f16.f16")
    assert forms(ptx) == {"registers 1, 1, 1"}


def test_b_that_is_computed_is_stored_and_fenced():
    ptx = check(converted((64, 64, 64), "b", "f32", "f16", steps=3), "m64n64k16.f32.f16.f16")
    assert ptx.count("fence.proxy.async") == 1


def test_tf32_is_multiplied_along_k_wherever_b_is_contiguous():
    check(converted((64, 64, 32), "b", "f32", "tf32", steps=3), "m64n64k8.f32.tf32.tf32")


PLANS = [{}, {"tensor_maps": "host"}, {"pipeline_strategy": "warp-specialize"},
         {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}, {"pipeline_strategy": "none"}]  # fmt: skip

REARRANGED = [
    ("f8E4M3FN", "f32", "k32.f32.e4m3.e4m3"), ("f8E5M2", "f16", "k32.f16.e5m2.e5m2"),
    ("i8", "i32", "k32.s32.s8.s8.satfinite"), ("tf32", "f32", "k8.f32.tf32.tf32"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("operand", "accumulator", "row"), REARRANGED, ids=lambda value: str(value))
@pytest.mark.parametrize("options", PLANS, ids=lambda value: " ".join(map(str, value.values())))
def test_b_that_lies_along_n_is_rearranged(operand, accumulator, row, options):
    """wgmma takes elements of 8 and 32 bits along K only (PTX ISA, "Strides" of wgmma); those of 32 bits go to
    registers, as the rows of an exchanged dot."""
    kernel = matmul((64, 128, 64), operand, accumulator, steps=4)
    check(kernel, f"m64n{64 if operand == 'tf32' else 128}{row}", num_warps=4, **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("operand", "accumulator", "row"), REARRANGED, ids=lambda value: str(value))
@pytest.mark.parametrize("tiles", [(128, 64, 32), (64, 32, 64), (128, 256, 64)])
def test_a_and_b_that_lie_the_other_way_are_rearranged(operand, accumulator, row, tiles):
    accumulators = {"accumulator": accumulator}
    kernel = by_columns(tiles, operand=operand, steps=3, **accumulators)
    ptx = check(kernel, f"m64n{tiles[1]}{row}")
    assert all(form.startswith("registers" if operand == "tf32" else "shared") for form in forms(ptx))


def test_ragged_tiles_are_rearranged():
    check(matmul((64, 64, 64), "f8E4M3FN", sizes=(40, 48, 144), steps=3), "m64n64k32.f32.e4m3.e4m3")


def test_the_result_of_a_dot_is_the_next_ones_a():
    ptx = check(chained((64, 64, 64, 64)), "m64n64k16.f32.f16.f16")
    assert forms(ptx) == {"shared 1, 1, 0, 1", "registers 1, 1, 1"}


def test_attention():
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4)
    check(kernel, "m64n64k16.f32.f16.f16", num_warps=4)


def test_operands_of_loops_that_take_turns():
    """Slices with two loops each: the operands of one loop fit into shared memory, and are dead when the other one
    runs."""
    kernel = attention_in_two_loops(1, 1, 1, rows=256, columns=256, depth=128)
    artifact = kernel.compiled(GPU, **PLAIN)
    assert instructions(artifact.text) == {"m64n128k16.f32.f16.f16", "m64n64k16.f32.f16.f16"}
    assert "mma.sync" not in artifact.text
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, GPU)
    kernel.emulated(artifact)


def test_operands_that_take_turns_in_an_iteration():
    """128 KB of K, and as many of V that are loaded behind the product with K, do not fit beside each other."""
    kernel = attention_like(1, rows=64, columns=128, depth=512, steps=2, halved=True)
    lines = kernel.text.split("\n")
    load = lines.pop(next(number for number, line in enumerate(lines) if line.strip().startswith("%v, %k_v = ")))
    lines.insert(next(number for number, line in enumerate(lines) if line.strip().startswith("%o_2 = ")), load)
    kernel = kernel._replace(text="\n".join(lines))
    artifact = kernel.compiled(GPU, **PLAIN)
    assert "mma.sync" not in artifact.text
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_a_row_is_too_few_however_many_warps_there_are():
    artifact = matmul((1, 64, 64), steps=2, sizes=(1, 64, 128)).compiled("sm_90", num_warps=2, emit_remarks=True)
    assert causes(artifact.diagnostics, "dots.") == ["dots.small instruction=wgmma least=64x8 m=1 n=64"]


def test_an_accumulator_that_is_loaded():
    check(matmul((64, 64, 64), steps=3, start="loaded"), "m64n64k16.f32.f16.f16")


def test_without_a_loop():
    check(matmul((128, 64, 64)), "m64n64k16.f32.f16.f16")


def test_ragged_tiles():
    check(matmul((64, 64, 64), sizes=(40, 56, 152), steps=3), "m64n64k16.f32.f16.f16")


_ORDERS = re.compile(
    r"wgmma\.(?:fence|commit_group|wait_group)[^;]*;|fence\.proxy\.async[^;]*;|bar\.sync[^;]*;|cp\.async\.wait_group[^;]*;"
)

MUTATED = {
    "ring": (lambda: matmul((64, 64, 64), steps=6), {}),
    "no loop": (lambda: matmul((64, 64, 64)), {}),
    "A in registers": (lambda: converted((64, 64, 64), "a", "f32", "f16", steps=5), {}),
    "B stored": (lambda: converted((64, 64, 64), "b", "f32", "f16", steps=5), {}),
    "B rearranged": (lambda: matmul((64, 64, 64), "f8E4M3FN", steps=6), {}),
    "two stages": (lambda: matmul((64, 64, 64), steps=6), {"unspecialized_pipeline_num_stages": 2}),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(MUTATED))
def test_no_fence_group_or_wait_is_superfluous(name):
    make, options = MUTATED[name]
    kernel = make()
    artifact = kernel.compiled(GPU, **PLAIN, **options)
    survivors = []
    for match in _ORDERS.finditer(artifact.text):
        mutated = artifact.text[: match.start()] + artifact.text[match.end() :]
        if not _fails(kernel, artifact, mutated):
            survivors.append((artifact.text.count("\n", 0, match.start()) + 1, match.group()))
    assert not survivors


def _fails(kernel: Kernel, artifact, ptx: str) -> bool:
    for seed in range(4):
        try:
            kernel.emulated(artifact, seed, ptx)
        except (EmulationError, AssertionError):
            return True
    return False


def test_every_cta_of_a_cluster_reads_its_own_shared_memory():
    """Whose addresses have the CTA's rank above the bits that a descriptor takes."""
    kernel = Matmul((128, 128, 64), steps=2, hints="sm_90 = {num_cta_in_cga = 2}").kernel()
    check(kernel, "m64n128k16.f32.f16.f16")
    check(kernel, "m64n128k16.f32.f16.f16", pipeline_strategy="warp-specialize")
