"""Conversions on the emulator: every element arrives, under every plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.tileaa import SPEC, copy_kernel, tensor
from tests.tileas_stage import ptx
from tileiras.layout import LinearLayout, blocked, convert, mma_layouts
from tileiras.sim import emulate
from tileiras.targets import TARGETS, mma_atom, target

DTYPES = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i64": np.int64}


def check(shape, element, source, target, warps=4, gpu="sm_90"):
    count = int(np.prod(shape))
    values = np.random.default_rng(0).integers(-100, 100, count).astype(DTYPES[element])
    out = np.zeros_like(values)
    text = ptx(copy_kernel(shape, element, source, target, warps=warps), gpu)
    emulate(text, "copy", 1, [values, out], shared_memory=1 << 16)
    assert np.array_equal(out, values)
    return text


ROWS = blocked((32, 32), (1, 4), (4, 8), (4, 1), (1, 0))
COLUMNS = blocked((32, 32), (4, 1), (8, 4), (1, 4), (0, 1))


@pytest.mark.parametrize("element", DTYPES)
def test_transposed_distribution_goes_through_shared_memory(element):
    text = check((32, 32), element, ROWS, COLUMNS)
    assert text.count("bar.sync") == 1


@pytest.mark.parametrize("element", DTYPES)
def test_within_a_warp_nothing_is_stored(element):
    bits = [1 << i for i in range(7)]
    source = LinearLayout({"register": bits[:2], "lane": bits[2:], "warp": [0, 0]}, (16, 8))
    target = LinearLayout({"register": [1, 64], "lane": [2, 4, 8, 16, 32], "warp": [0, 0]}, (16, 8))
    assert convert.classify(source, target, 32) == "shuffle"
    text = check((16, 8), element, source, target)
    assert "shfl.sync" in text and "bar.sync" not in text


def test_registers_in_another_order_cost_nothing():
    target = ROWS.with_bases("register", ROWS.bases("register")[::-1])
    text = check((32, 32), "f32", ROWS, target)
    assert "shfl" not in text and "shared" not in text


@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from(list(DTYPES)))
def test_random_layouts(data, element):
    bits = data.draw(st.integers(3, 9))

    def layout():
        basis = list(data.draw(st.permutations([1 << i for i in range(bits)])))
        dealt = {"lane": [], "warp": [], "register": []}
        for name, count in (("lane", 5), ("warp", 2)):
            for _ in range(count):
                free = not basis or data.draw(st.integers(0, 4)) == 0
                dealt[name].append(0 if free else basis.pop())
        dealt["register"] = basis
        return LinearLayout(dealt, (1 << bits,))

    check((1 << bits,), element, layout(), layout())


def test_tile_larger_than_shared_memory():
    source = blocked((256, 256), (1, 4), (1, 32), (4, 1), (1, 0))
    target = blocked((256, 256), (4, 1), (32, 1), (1, 4), (0, 1))
    text = check((256, 256), "f32", source, target)
    assert text.count("bar.sync") == 2 * 4 - 1


@pytest.mark.parametrize("element", ["f32", "i8"])
def test_tile_without_parts_in_registers_on_both_sides(element, monkeypatch):
    """Rounds over bits that are threads on one side or on both."""
    monkeypatch.setattr("tileiras.resources.arena.SCRATCH_LIMIT", 512)
    small = target("sm_90")._replace(shared_per_cta=512)
    monkeypatch.setitem(TARGETS, "sm_90", small)
    source = LinearLayout({"register": [1, 2, 4], "lane": [8, 16, 32, 64, 128], "warp": [256, 512]}, (1024,))
    turned = LinearLayout({"register": [512, 256, 128], "lane": [64, 32, 16, 8, 4], "warp": [1, 2]}, (1024,))
    text = check((1024,), element, source, turned)
    assert text.count("bar.sync") == (15 if element == "f32" else 3)


ATOM = mma_atom("mma_m16n8k16_f32_f16_f16")
A, B, C = mma_layouts(ATOM, 64, 64, 32, (2, 2))


def rows(shape, vector):
    """Whole rows by warps, `vector` elements to a thread."""
    lanes = shape[1] // vector
    return blocked(shape, (1, vector), (32 // lanes, lanes), (4, 1), (1, 0))


def test_fragments_are_stored_as_matrices_where_the_target_can():
    assert "stmatrix" in check((64, 64), "f16", C, rows((64, 64), 8), gpu="sm_90")
    assert "stmatrix" not in check((64, 64), "f16", C, rows((64, 64), 8), gpu="sm_80")


@pytest.mark.parametrize(
    ("shape", "element", "source", "target_layout"),
    [
        ((64, 64), "f32", C, rows((64, 64), 4)),
        ((64, 64), "f16", C, rows((64, 64), 8)),
        ((64, 32), "f16", rows((64, 32), 8), A),
        ((32, 64), "f16", rows((32, 64), 8), B),
        ((64, 64), "f32", rows((64, 64), 4), blocked((64, 64), (4, 1), (16, 2), (1, 4), (0, 1))),
        ((64, 64), "i64", rows((64, 64), 2), blocked((64, 64), (2, 1), (32, 1), (1, 4), (0, 1))),
        ((64, 64), "f32", C, blocked((64, 64), (1, 1), (1, 32), (4, 1), (1, 0))),
    ],
)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_bank_conflicts_are_those_of_the_plan(shape, element, source, target_layout, gpu):
    """The wavefronts that the layouts predict, against those that the emulator counts."""
    bits = np.dtype(DTYPES[element]).itemsize * 8
    plan = convert.plan_conversion(source, target_layout, bits, target(gpu).has("stmatrix"))
    text = ptx(copy_kernel(shape, element, source, target_layout), gpu)
    values = np.zeros(int(np.prod(shape)), DTYPES[element])
    bank_wavefronts = emulate(
        text, "copy", 1, [values, values.copy()], shared_memory=1 << 16, count_bank_conflicts=True, check_races=False
    ).bank_wavefronts
    lines = text.splitlines()

    def counted(names):
        return sum(total for line, (total, _) in bank_wavefronts.items() if lines[line - 1].strip().startswith(names))

    assert counted(("st.shared", "stmatrix")) == 4 * plan.store.wavefronts(bits)
    assert counted(("ld.shared", "ldmatrix")) == 4 * plan.load.wavefronts(bits)


LOOP = """
builtin.module {{
  nv_tileaa.func @loop(%a: !nv_tileaa.ptr<i32>, %b: !nv_tileaa.ptr<i32>, %n: i32) attributes {spec} {{
    %z = arith.constant 0 : i32
    %rows = arith.constant 96 : i32
    %one = arith.constant 1 : i32
    %ma = nv_tileas.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> {tile}
    %mb = nv_tileas.make_memref %b, sizes = [%rows], strides = [] : !nv_tileaa.ptr<i32>, (i32), () -> {rows}
    %va = nv_tileas.block_tile %ma : !nv_tileaa.tiled_view<[32, 32], {tile}>
    %vb = nv_tileas.block_tile %mb : !nv_tileaa.tiled_view<[32, 32], {rows}>
    %x, %t = nv_tileas.tiled_load %va[%z, %z] {{atom = #nv_tileas.copy_atom<ld_global, 1>}}
      : !nv_tileaa.tiled_view<[32, 32], {tile}>, (i32, i32) -> {a}, !nv_tileaa.mem_token
    %end = scf.for %i = %z to %n step %one iter_args(%p = %x) -> ({a}) : i32 {{
      %q = nv_tileas.convert_layout %p : {a} -> {b}
      %s = nv_tileas.tiled_store %q, %vb[%i, %z] {{atom = #nv_tileas.copy_atom<st_global, 1>}}
        : {b}, !nv_tileaa.tiled_view<[32, 32], {rows}>, (i32, i32) -> !nv_tileaa.mem_token
      {next}
      scf.yield %next : {a}
    }}
    nv_tileaa.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("next_tile", "barriers"),
    [
        # The loads of one iteration and the stores of the next meet: a barrier between them, one before the loads.
        ("%next = arith.addi %p, %p : {a}", 2),
        # Another conversion has an area of its own, and its barrier separates the iterations as well.
        ("%w = arith.addi %q, %q : {b}\n%next = nv_tileas.convert_layout %w : {b} -> {a}", 2),
    ],
)
def test_iterations_are_kept_apart(next_tile, barriers):
    a, b = tensor((32, 32), "i32", ROWS), tensor((32, 32), "i32", COLUMNS)
    text = ptx(
        LOOP.format(
            a=a,
            b=b,
            spec=SPEC % 4,
            tile="!nv_tileaa.memref<32x32xi32, strides = [32, 1]>",
            rows="!nv_tileaa.memref<?x32xi32, strides = [32, 1]>",
            next=next_tile.format(a=a, b=b),
        )
    )
    assert text.count("bar.sync") == barriers
    values = np.random.default_rng(0).integers(0, 100, (32, 32)).astype(np.int32)
    for seed in range(4):
        out = np.zeros((96, 32), np.int32)
        emulate(text, "loop", 1, [values, out, 3], shared_memory=1 << 16, seed=seed)
        assert np.array_equal(out, np.concatenate([values, 2 * values, 4 * values]))
