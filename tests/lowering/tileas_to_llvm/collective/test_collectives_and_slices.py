"""Scans, atomics, concatenation and slices on the emulator."""

import numpy as np
import pytest

from tests.kernels.tileaa import kernel
from tests.tileas_stage import ptx
from tileiras.sim import EmulationError, emulate


def run(text, *arrays, grid=1):
    emulate(ptx(text), "kernel", grid, list(arrays), shared_memory=1 << 16)


@pytest.mark.parametrize(
    ("shape", "axis", "reverse"),
    [((8, 128), 1, False), ((8, 128), 1, True), ((64, 8), 0, False), ((16,), 0, True), ((4, 8, 4), 1, False)],
)
def test_scan(shape, axis, reverse):
    tile = f"tensor<{'x'.join(map(str, shape))}xi32>"
    flag = ", reverse" if reverse else ""
    body = f"""
    %out = nv_tileaa.scan %x0 {{dim = {axis} : i64, identities = [0 : i32]{flag}}} : ({tile}) -> ({tile}) {{
    ^bb0(%l: i32, %r: i32):
      %s = arith.addi %l, %r : i32
      nv_tileaa.yield %s : i32
    }}"""
    values = np.random.default_rng(0).integers(-100, 100, shape).astype(np.int32)
    out = np.zeros_like(values)
    run(kernel([shape], shape, body), values, out)
    turned = np.flip(values, axis) if reverse else values
    expected = np.cumsum(turned, axis=axis, dtype=np.int32)
    assert np.array_equal(out, np.flip(expected, axis) if reverse else expected)


@pytest.mark.parametrize("dim", [0, 1])
def test_cat(dim):
    shape = (16, 32)
    joined = tuple(2 * n if d == dim else n for d, n in enumerate(shape))
    tile, wide = ("tensor<" + "x".join(map(str, s)) + "xi32>" for s in (shape, joined))
    body = f"%out = nv_tileaa.cat %x0, %x1 {{dim = {dim} : i64}} : {tile}, {tile} -> {wide}"
    a, b = (np.random.default_rng(i).integers(0, 1000, shape).astype(np.int32) for i in range(2))
    out = np.zeros(joined, np.int32)
    run(kernel([shape, shape], joined, body), a, b, out)
    assert np.array_equal(out, np.concatenate([a, b], dim))


def test_slices_at_positions_known_at_run_time():
    body = """
    %i = nv_tileaa.get_num_programs x : i32
    %part = nv_tileaa.extract_slice %x0[%i, %z] : tensor<32x32xi32>, (i32, i32) -> tensor<8x16xi32>
    %one = arith.constant 1 : i32
    %out = nv_tileaa.insert_slice %part into %x0[%one, %one]
      : tensor<8x16xi32>, tensor<32x32xi32>, (i32, i32) -> tensor<32x32xi32>"""
    a = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    out = np.zeros_like(a)
    run(kernel([(32, 32)], (32, 32), body), a, out, grid=3)
    expected = a.copy()
    expected[8:16, 16:32] = a[24:32, 0:16]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
@pytest.mark.parametrize("part", [(8, 128), (16, 32), (4, 128)])
def test_parts_that_a_thread_has_stay_in_its_registers(part, element):
    """Rows of 16 bytes a thread, warps along the rows: every half of the columns and of the rows, added up."""
    whole = (16, 128)
    shape, wide = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (part, whole))
    numbers = list(np.ndindex(*(n // m for n, m in zip(whole, part))))
    lines = [f"%c{n} = arith.constant {n} : i32" for n in range(max(map(max, numbers)) + 1)]
    for at, (i, j) in enumerate(numbers):
        lines.append(f"%part{at} = nv_tileaa.extract_slice %x0[%c{i}, %c{j}] : {wide}, (i32, i32) -> {shape}")
        before = f"%s{at - 1}" if at > 1 else "%part0"
        lines += [f"%s{at} = arith.addi {before}, %part{at} : {shape}"] * (at > 0)
    last = f"%s{len(numbers) - 1}"
    body = "\n".join(lines).replace(f"{last} =", "%out =")
    dtype = {"i8": np.int8, "i32": np.int32, "i64": np.int64}[element]
    a = np.random.default_rng(0).integers(-100, 100, whole).astype(dtype)
    out = np.zeros(part, dtype)
    text = ptx(kernel([whole], part, body, element))
    emulate(text, "kernel", 1, [a, out], shared_memory=1 << 16)
    m, n = part
    assert np.array_equal(out, sum(a[i * m : (i + 1) * m, j * n : (j + 1) * n] for i, j in numbers))


def test_a_part_in_registers_takes_no_shared_memory():
    body = """
    %c1 = arith.constant 1 : i32
    %out = nv_tileaa.extract_slice %x0[%c1, %z] : tensor<64x32xi32>, (i32, i32) -> tensor<32x32xi32>"""
    text = ptx(kernel([(64, 32)], (32, 32), body))
    assert "shared" not in text
    a, out = np.arange(64 * 32, dtype=np.int32).reshape(64, 32), np.zeros((32, 32), np.int32)
    emulate(text, "kernel", 1, [a, out])
    assert np.array_equal(out, a[32:])


def test_slices_larger_than_the_scratch_memory(monkeypatch):
    """Through windows: a slice of 64 x 32 numbers by way of 2 KB."""
    monkeypatch.setattr("tileiras.resources.arena.SCRATCH_LIMIT", 2048)
    body = """
    %one = arith.constant 1 : i32
    %part = nv_tileaa.extract_slice %x0[%z, %one] : tensor<64x64xi32>, (i32, i32) -> tensor<64x32xi32>
    %out = nv_tileaa.insert_slice %part into %x0[%z, %z]
      : tensor<64x32xi32>, tensor<64x64xi32>, (i32, i32) -> tensor<64x64xi32>"""
    a = np.arange(64 * 64, dtype=np.int32).reshape(64, 64)
    out = np.zeros_like(a)
    run(kernel([(64, 64)], (64, 64), body), a, out)
    expected = a.copy()
    expected[:, :32] = a[:, 32:]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("op", ["cat", "extract", "insert"])
def test_slices_of_tiles_of_256_kilobytes(op):
    whole, half = (128, 256), (64, 256)
    wide, part = (f"tensor<{'x'.join(map(str, s))}xi64>" for s in (whole, half))
    bodies = {
        "cat": ([half, half], whole, f"%out = nv_tileaa.cat %x0, %x1 {{dim = 0 : i64}} : {part}, {part} -> {wide}"),
        "extract": ([whole], half, f"%out = nv_tileaa.extract_slice %x0[%n, %z] : {wide}, (i32, i32) -> {part}"),
        "insert": (
            [whole, half],
            whole,
            f"%out = nv_tileaa.insert_slice %x1 into %x0[%n, %z] : {part}, {wide}, (i32, i32) -> {wide}",
        ),
    }
    inputs, output, body = bodies[op]
    text = kernel(inputs, output, "%n = nv_tileaa.get_num_programs x : i32\n" + body, "i64").replace(
        "numWarps = 4", "numWarps = 16"
    )
    arrays = [np.random.default_rng(i).integers(0, 1000, s) for i, s in enumerate(inputs)]
    out = np.zeros(output, np.int64)
    # One program: slice 1 of 2.
    emulate(ptx(text), "kernel", 1, [*arrays, out], shared_memory=1 << 16)
    expected = {
        "cat": lambda: np.concatenate(arrays),
        "extract": lambda: arrays[0][64:],
        "insert": lambda: np.concatenate([arrays[0][:64], arrays[1]]),
    }[op]()
    assert np.array_equal(out, expected)


def test_every_element_is_updated_once_with_any_replicas():
    """A tile of 16 elements on 128 threads: seven of eight threads hold copies."""
    body = """
    %r = nv_tileaa.make_range : tensor<16xi32>
    %seven = arith.constant dense<7> : tensor<16xi32>
    %slot = arith.andi %r, %seven : tensor<16xi32>
    %ps = nv_tileaa.splat %p0 : !nv_tileaa.ptr<i32> -> tensor<16x!nv_tileaa.ptr<i32>>
    %q = nv_tileaa.addptr %ps, %slot : tensor<16x!nv_tileaa.ptr<i32>>, tensor<16xi32>
    %five = arith.constant dense<12> : tensor<16xi32>
    %mask = arith.cmpi slt, %r, %five : tensor<16xi32>
    %out, %t = nv_tileaa.atomic_rmw add %q, %x1 mask = %mask : tensor<16xi1>
      {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>}
      : tensor<16x!nv_tileaa.ptr<i32>>, tensor<16xi32> -> tensor<16xi32>, !nv_tileaa.mem_token"""
    counters = np.arange(100, 116, dtype=np.int32)
    before = counters.copy()
    values = np.arange(1, 17, dtype=np.int32)
    old = np.zeros(16, np.int32)
    run(kernel([(16,), (16,)], (16,), body), counters, values, old)
    expected = before.copy()
    for i in range(12):
        expected[i % 8] += values[i]
    assert np.array_equal(counters, expected)
    assert np.array_equal(old[4:8], before[4:8])
    for i in range(4):
        assert {int(old[i]), int(old[i + 8])} in (
            {before[i], before[i] + values[i]},
            {before[i], before[i] + values[i + 8]},
        )


def test_scalar_update_reaches_all_threads():
    body = """
    %one = arith.constant 1 : i32
    %n, %t = nv_tileaa.atomic_rmw add %p0, %one
      {mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #nv_tileaa.mem_scope<gpu>}
      : !nv_tileaa.ptr<i32>, i32 -> i32, !nv_tileaa.mem_token
    %s = nv_tileaa.splat %n : i32 -> tensor<128xi32>
    %out = arith.addi %s, %x1 : tensor<128xi32>"""
    counter = np.array([41] * 16, np.int32)
    values = np.arange(128, dtype=np.int32)
    out = np.zeros(128, np.int32)
    run(kernel([(16,), (128,)], (128,), body), counter, values, out)
    assert counter[0] == 42
    assert np.array_equal(out, values + 41)


def test_compare_and_swap():
    body = """
    %ten = arith.constant dense<10> : tensor<128xi32>
    %r = nv_tileaa.make_range : tensor<128xi32>
    %ps = nv_tileaa.splat %p0 : !nv_tileaa.ptr<i32> -> tensor<128x!nv_tileaa.ptr<i32>>
    %q = nv_tileaa.addptr %ps, %r : tensor<128x!nv_tileaa.ptr<i32>>, tensor<128xi32>
    %out, %t = nv_tileaa.atomic_cas %q, %ten, %r
      {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>}
      : tensor<128x!nv_tileaa.ptr<i32>>, tensor<128xi32> -> tensor<128xi32>, !nv_tileaa.mem_token"""
    memory = np.where(np.arange(128) % 3 == 0, 10, 5).astype(np.int32)
    before = memory.copy()
    out = np.zeros(128, np.int32)
    run(kernel([(128,)], (128,), body), memory, out)
    assert np.array_equal(out, before)
    assert np.array_equal(memory, np.where(before == 10, np.arange(128), before))


ASSERTED = """
    %limit = arith.constant dense<100> : tensor<128xi32>
    %ok = arith.cmpi slt, %x0, %limit : tensor<128xi32>
    nv_tileaa.assert %ok, "too large" : tensor<128xi1>
    %n = nv_tileaa.get_num_programs x : i32
    %tok = nv_tileaa.print "%i programs\\0A", %n : i32 -> !nv_tileaa.mem_token
    %out = arith.addi %x0, %limit : tensor<128xi32>"""


def test_assertion_and_print():
    text = ptx(kernel([(128,)], (128,), ASSERTED))
    values = np.arange(128, dtype=np.int32) % 100
    out = np.zeros(128, np.int32)
    assert emulate(text, "kernel", 2, [values, out]).output == "2 programs\n" * 2
    assert np.array_equal(out, values + 100)
    with pytest.raises(EmulationError, match="too large"):
        emulate(text, "kernel", 1, [values + 1, out])
