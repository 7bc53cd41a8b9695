"""Loops whose loads run ahead, on the emulator, which lets a copy arrive as late as its wait allows."""

import numpy as np
import pytest

from tests.lowering.tileas_to_llvm.harness import SPEC, ptx
from tests.tileas_stage import LAYOUTS, PIPELINED, through
from tileiras.diagnostics import DiagnosticEngine
from tileiras.ir import parse_module
from tileiras.schedule.materialize.software_pipeline import materialize_loops
from tileiras.schedule.plain import generate_schedule
from tileiras.sim import EmulationError, emulate
from tileiras.targets import target

TOKEN = "!nv_tileaa.mem_token"
M, N, K = 32, 16, 32


def view(rows, columns, strides):
    memref = f"!nv_tileaa.memref<?x?xf16, strides = [{strides}]>"
    return memref, f"!nv_tileaa.tiled_view<[{rows}, {columns}], {memref}, padding = #nv_tileaa.padding_value<zero>>"


def matmul(body="", before="", step=1):
    """C = A B over %n steps of K; A is `m` x `k` in rows of `pitch` elements, a multiple of 8; B is `k` x 16, dense."""
    a_memref, a_view = view(M, K, "?, 1")
    b_memref, b_view = view(K, N, "16, 1")
    c_memref, c_view = view(M, N, "16, 1")
    c_memref, c_view = c_memref.replace("f16", "f32"), c_view.replace("f16", "f32")
    f16, f32 = "!nv_tileaa.ptr<f16>", "!nv_tileaa.ptr<f32>"
    acc = f"tensor<{M}x{N}xf32>"
    return f"""
builtin.module {{
  nv_tileaa.func @matmul(%pa: {f16}, %pb: {f16}, %pc: {f32}, %m: i32, %k: i32, %pitch: i32, %n: i32)
      attributes {SPEC % 4} {{
    %a = nv_tileaa.assume #nv_tileaa.div_by<16>, %pa : {f16}
    %b = nv_tileaa.assume #nv_tileaa.div_by<16>, %pb : {f16}
    %pitch8 = nv_tileaa.assume #nv_tileaa.div_by<8>, %pitch : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant {step} : i32
    %sixteen = arith.constant 16 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [%m, %k], strides = [%pitch8] : {f16}, (i32, i32), (i32) -> {a_memref}
    %mb = nv_tileaa.make_memref %b, sizes = [%k, %sixteen], strides = [] : {f16}, (i32, i32), () -> {b_memref}
    %mc = nv_tileaa.make_memref %pc, sizes = [%m, %sixteen], strides = [] : {f32}, (i32, i32), () -> {c_memref}
    %va = nv_tileaa.block_tile %ma : {a_view}
    %vb = nv_tileaa.block_tile %mb : {b_view}
    %vc = nv_tileaa.block_tile %mc : {c_view}
    %start = arith.constant dense<0.0> : {acc}
    %token = nv_tileaa.create_mem_token : {TOKEN}
    {before}
    %sum, %last = scf.for %i = %zero to %n step %one iter_args(%acc = %start, %t = %token)
        -> ({acc}, {TOKEN}) : i32 {{
      %x, %tx = nv_tileaa.tiled_load %va[%zero, %i] token = %t
        : {a_view}, (i32, i32) -> tensor<{M}x{K}xf16>, {TOKEN}
      %y, %ty = nv_tileaa.tiled_load %vb[%i, %zero] token = %t
        : {b_view}, (i32, i32) -> tensor<{K}x{N}xf16>, {TOKEN}
      %d = nv_tileaa.dot %x, %y, %acc : tensor<{M}x{K}xf16>, tensor<{K}x{N}xf16> -> {acc}
      %both = nv_tileaa.join_mem_token %tx, %ty : {TOKEN}
      {body}
      scf.yield %d, %both : {acc}, {TOKEN}
    }}
    %done = nv_tileaa.tiled_store %sum, %vc[%zero, %zero] token = %last
      : {acc}, {c_view}, (i32, i32) -> {TOKEN}
    nv_tileaa.return
  }}
}}
"""


def pipelined(text, stages=None, gpu="sm_80"):
    """The function of nv_tileas after pipelining."""
    return through(parse_module(text, "test.mlir"), PIPELINED, gpu, num_stages=stages)


def names(module):
    return [op.name.removeprefix("nv_tileas.") for op in module.walk()]


def arrays(m, k, pitch):
    rng = np.random.default_rng(0)
    a = np.full((m, pitch), 1000, np.float16)
    a[:, :k] = rng.integers(-8, 8, (m, k))
    b = rng.integers(-8, 8, (k, N)).astype(np.float16)
    return a, b, np.zeros((m, N), np.float32)


def check(text, m, k, pitch, steps, seed=0):
    a, b, c = arrays(m, k, pitch)
    emulate(text, "matmul", 1, [a, b, c, m, k, pitch, steps], shared_memory=1 << 16, seed=seed)
    depth = min(k, max(0, steps) * K)
    assert np.array_equal(c, a[:, :depth].astype(np.float32) @ b[:depth].astype(np.float32))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_any_number_of_iterations(stages):
    text = ptx(matmul(), "sm_80", stages=stages)
    assert text.count("cp.async.wait_group") == 1 and f"wait_group \t{stages - 2};" in text
    for steps in (-1, 0, 1, 2, 3, 7):
        check(text, 32, max(1, steps) * K, max(1, steps) * K, steps)


@pytest.mark.parametrize(("m", "k", "pitch"), [(32, 27, 32), (9, 64, 64), (1, 71, 72), (30, 96, 104)])
def test_edges_are_filled_with_zeros(m, k, pitch):
    """Rows that end within a vector: what follows them in memory is not read into the tile."""
    text = ptx(matmul(), "sm_80", stages=3)
    check(text, m, k, pitch, -(-k // K))


@pytest.mark.parametrize("stages", [2, 3])
def test_one_stage_is_carried(stages):
    """Which one is overwritten follows from which one is read."""
    module = pipelined(matmul(), stages)
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    assert [str(a.type) for a in loop.body.block.arguments].count("i32") == 2  # the counter and the stage


def test_one_barrier_for_each_iteration():
    text = ptx(matmul(), "sm_80", stages=3)
    lines = [line.split()[0] for line in text.splitlines() if line.startswith("\tcp.async.wait") or "bar.sync" in line]
    assert lines == ["cp.async.wait_group", "bar.sync"] and "ldmatrix" in text and "ld.global" not in text


@pytest.mark.parametrize("missing", ["cp.async.wait_group", "cp.async.commit_group", "bar.sync"])
def test_nothing_of_the_protocol_can_be_left_out(missing):
    lines = ptx(matmul(), "sm_80", stages=3).splitlines()
    places = [number for number, line in enumerate(lines) if missing in line]
    assert places
    for number in places:
        broken = "\n".join(lines[:number] + lines[number + 1 :])
        with pytest.raises((EmulationError, AssertionError)):
            for steps in (1, 2, 4, 6):
                check(broken, 32, steps * K, steps * K, steps)


def test_too_few_groups_waited_for_is_found():
    text = ptx(matmul(), "sm_80", stages=3).replace("wait_group \t1;", "wait_group \t2;")
    with pytest.raises((EmulationError, AssertionError)):
        check(text, 32, 4 * K, 4 * K, 4)


def test_stores_before_the_loop_are_seen():
    """The loop's loads are ordered after a store of other threads' elements: a barrier stands before the copies."""
    _, b_view = view(K, N, "16, 1")
    before = f"""
    %v = arith.constant dense<2.0> : tensor<{K}x{N}xf16>
    %stored = nv_tileaa.tiled_store %v, %vb[%zero, %zero] token = %token
      : tensor<{K}x{N}xf16>, {b_view}, (i32, i32) -> {TOKEN}"""
    source = matmul(before=before).replace("%t = %token)", "%t = %stored)")
    assert "async.tiled_load" in names(pipelined(source))
    text = ptx(source, "sm_80", stages=3)
    for seed in range(3):
        a, b, c = arrays(32, K, K)
        emulate(text, "matmul", 1, [a, b, c, 32, K, K, 1], shared_memory=1 << 16, seed=seed)
        assert np.array_equal(c, a.astype(np.float32) @ np.full((K, N), 2, np.float32))


def test_loads_after_a_store_of_the_loop_stay():
    _, b_view = view(K, N, "16, 1")
    body = f"""
      %w = nv_tileaa.tiled_store %y, %vb[%i, %zero] token = %both
        : tensor<{K}x{N}xf16>, {b_view}, (i32, i32) -> {TOKEN}"""
    source = matmul(body=body).replace("scf.yield %d, %both", "scf.yield %d, %w")
    assert "async.tiled_load" not in names(pipelined(source))


def test_loads_after_an_acquire_of_the_loop_stay():
    before = """
    %flags = nv_tileaa.ptr_to_int %pc : !nv_tileaa.ptr<f32> to i64
    %flag = nv_tileaa.int_to_ptr %flags : i64 to !nv_tileaa.ptr<i32>"""
    acquire = f"""
      %f, %tf = nv_tileaa.load %flag token = %t {{mem_semantic = #nv_tileaa.mem_semantic<acquire>,
        mem_scope = #nv_tileaa.mem_scope<gpu>}} : !nv_tileaa.ptr<i32> -> i32, {TOKEN}
      %x, %tx"""
    source = matmul(before=before).replace("%x, %tx", acquire, 1).replace("token = %t\n", "token = %tf\n")
    assert source.count("token = %tf") == 2
    assert "async.tiled_load" not in names(pipelined(source))
    assert "async.tiled_load" in names(pipelined(source.replace("token = %tf", "token = %token")))


def test_loads_that_other_iterations_place_stay():
    """Addresses that depend on carried values are not known ahead."""
    source = matmul().replace("%va[%zero, %i]", "%va[%zero, %carried]")
    source = source.replace("%t = %token)", "%t = %token, %carried = %zero)").replace(
        f"-> (tensor<{M}x{N}xf32>, {TOKEN}) :", f"-> (tensor<{M}x{N}xf32>, {TOKEN}, i32) :"
    )
    source = source.replace("%sum, %last = scf", "%sum, %last, %end = scf").replace(
        f"scf.yield %d, %both : tensor<{M}x{N}xf32>, {TOKEN}",
        f"%nx = arith.addi %carried, %one : i32\nscf.yield %d, %both, %nx : tensor<{M}x{N}xf32>, {TOKEN}, i32",
    )
    module = pipelined(source)
    assert names(module).count("async.tiled_load") == 3  # B: two before the loop, one in it
    check(ptx(source, "sm_80", stages=3), 32, 4 * K, 4 * K, 4)


def test_counters_that_do_not_start_at_zero_or_step_by_one():
    source = matmul(step=2)
    a, b, c = arrays(32, 4 * K, 4 * K)
    text = ptx(source, "sm_80", stages=3)
    emulate(text, "matmul", 1, [a, b, c, 32, 4 * K, 4 * K, 4], shared_memory=1 << 16)
    used = np.r_[0:K, 2 * K : 3 * K]
    assert np.array_equal(c, a[:, used].astype(np.float32) @ b[used].astype(np.float32))


def test_steps_known_at_run_time_only():
    source = matmul().replace("step %one iter", "step %m iter")
    text = ptx(source, "sm_80", stages=3)
    assert "cp.async" in text
    for step, used in ((2, [0, 2]), (3, [0, 3]), (2**31 - 1, [0])):
        a, b, c = arrays(32, 4 * K, 4 * K)
        rows = min(step, 32)
        emulate(text, "matmul", 1, [a, b, c, step, 4 * K, 4 * K, 4], shared_memory=1 << 16)
        columns = np.concatenate([np.arange(i * K, (i + 1) * K) for i in used])
        assert np.array_equal(c[:rows], a[:rows, columns].astype(np.float32) @ b[columns].astype(np.float32))


def test_targets_without_asynchronous_copies_keep_the_loop():
    assert "async.tiled_load" not in names(pipelined(matmul(), gpu="sm_75"))
    check(ptx(matmul(), "sm_75", stages=3), 32, 2 * K, 2 * K, 2)


def test_stages_shrink_to_what_fits():
    small = target("sm_80")._replace(shared_per_cta=8 * 1024)
    module = parse_module(matmul(), "test.mlir")
    through(module, LAYOUTS, "sm_80")
    engine = DiagnosticEngine()
    (func,) = [op for op in module.walk() if op.name == "nv_tileaa.func"]
    generate_schedule(func, small, 8, engine)
    materialize_loops(func, small, engine)
    (remark,) = engine.diagnostics
    assert remark.message == "2 pipeline stages instead of 8: no shared memory is left"
    assert {op.result.type.stages for op in module.walk() if op.name == "nv_tileas.alloc_tensor"} == {2}


def through_pointers():
    """The matmul whose A is a tile of pointers, with a mask that ends at any column and any row."""
    lines = [
        f"%rows = nv_tileaa.make_range : tensor<{M}xi32>",
        f"%columns = nv_tileaa.make_range : tensor<{K}xi32>",
        "%width = arith.constant 32 : i32",
        "%first = arith.muli %i, %width : i32",
        f"%firsts = nv_tileaa.splat %first : i32 -> tensor<{K}xi32>",
        f"%place = arith.addi %firsts, %columns : tensor<{K}xi32>",
        f"%ks = nv_tileaa.splat %k : i32 -> tensor<{K}xi32>",
        f"%ms = nv_tileaa.splat %m : i32 -> tensor<{M}xi32>",
        f"%pitches = nv_tileaa.splat %pitch8 : i32 -> tensor<{M}xi32>",
        f"%inside = arith.cmpi slt, %place, %ks : tensor<{K}xi32>",
        f"%exists = arith.cmpi slt, %rows, %ms : tensor<{M}xi32>",
        f"%starts = arith.muli %rows, %pitches : tensor<{M}xi32>",
    ]
    for name, count, element in (("inside", K, "i1"), ("place", K, "i32"), ("exists", M, "i1"), ("starts", M, "i32")):
        thin = f"1x{K}" if count == K and name in ("inside", "place") else f"{M}x1"
        lines.append(f"%{name}_1 = nv_tileaa.view %{name} : tensor<{count}x{element}> -> tensor<{thin}x{element}>")
        full = f"tensor<{M}x{K}x{element}>"
        lines.append(f"%{name}_2 = nv_tileaa.broadcast %{name}_1 : tensor<{thin}x{element}> -> {full}")
    pointers = f"tensor<{M}x{K}x!nv_tileaa.ptr<f16>>"
    lines += [
        f"%mask = arith.andi %inside_2, %exists_2 : tensor<{M}x{K}xi1>",
        f"%offset = arith.addi %place_2, %starts_2 : tensor<{M}x{K}xi32>",
        f"%bases = nv_tileaa.splat %a : !nv_tileaa.ptr<f16> -> {pointers}",
        f"%addresses = nv_tileaa.addptr %bases, %offset : {pointers}, tensor<{M}x{K}xi32>",
        f"%x, %tx = nv_tileaa.load %addresses mask = %mask : tensor<{M}x{K}xi1> token = %t",
    ]
    text = matmul()
    start, end = text.index("%x, %tx = "), text.index("-> tensor<", text.index("%x, %tx = "))
    return text[:start] + "\n      ".join(lines) + f"\n        : {pointers} " + text[end:]


@pytest.mark.parametrize(("m", "k", "pitch"), [(32, 96, 96), (32, 27, 32), (9, 64, 64), (1, 71, 72), (30, 90, 104)])
def test_masks_may_end_within_a_vector(m, k, pitch):
    """Whole vectors are copied in the background; what is wanted in part is loaded and stored, element by element."""
    source = through_pointers()
    assert "async.load" in names(pipelined(source))
    text = ptx(source, "sm_80", stages=3)
    assert text.count("cp.async.ca") + text.count("cp.async.cg") > 4 and "ld.global.b16" in text
    for seed in range(2):
        check(text, m, k, pitch, -(-k // K), seed)


def test_the_bound_that_counters_are_compared_with_is_no_smaller_than_the_first():
    # So LLVM, which makes the loop end there, has the same number in one register for the copies and for the loop.
    (loop,) = [op for op in pipelined(matmul(), 3, "sm_90").walk() if op.name == "scf.for"]
    bound = loop.upper_bound.defining_op
    assert bound.name == "arith.maxsi"
    assert bound.operands[0] is loop.lower_bound
