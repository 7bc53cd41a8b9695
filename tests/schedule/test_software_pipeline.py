"""Loops whose loads run ahead, on the emulator, which lets a copy arrive as late as its wait allows."""

import numpy as np
import pytest

from tests.kernels.pipelined import TOKEN, K, M, N, arrays, check, matmul, through_pointers, view
from tests.kernels.reasons import stated
from tests.kernels.views import names
from tests.tileas_stage import LAYOUTS, compiled, pipelined, ptx, through
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import parse_module, print_op
from tileiras.schedule.materialize.loops import materialize_loops
from tileiras.schedule.plain import generate_schedule
from tileiras.schedule.strategy import Strategy
from tileiras.sim import EmulationError, emulate
from tileiras.targets import target


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_any_number_of_iterations(stages):
    text = ptx(matmul(), "sm_80", stages=stages)
    assert text.count("cp.async.wait_group") == 1 and f"wait_group \t{stages - 2};" in text
    for steps in (-1, 0, 1, 2, 3, 7):
        check(text, 32, max(1, steps) * K, max(1, steps) * K, steps)


@pytest.mark.parametrize(("m", "k", "pitch"), [(32, 27, 32), (9, 64, 64), (1, 71, 72), (30, 96, 104)])
def test_edges_are_filled_with_zeros(m, k, pitch):
    """Rows that end within a vector: elements behind them in memory are not read into the tile."""
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


def test_stages_shrink_until_they_fit():
    small = target("sm_80")._replace(shared_per_cta=8 * 1024)
    module = parse_module(matmul(), "test.mlir")
    through(module, LAYOUTS, "sm_80")
    engine = DiagnosticEngine()
    (func,) = [op for op in module.walk() if op.name == "nv_tileaa.func"]
    generate_schedule(func, small, Strategy(stages=8), engine)
    materialize_loops(func, small, engine)
    assert stated(engine.diagnostics) == ["loops.fewer-stages stages=2 wanted=8; loops.no-shared-memory"]
    assert {op.result.type.stages for op in module.walk() if op.name == "nv_tileas.alloc_tensor"} == {2}


@pytest.mark.parametrize(("m", "k", "pitch"), [(32, 96, 96), (32, 27, 32), (9, 64, 64), (1, 71, 72), (30, 90, 104)])
def test_masks_may_end_within_a_vector(m, k, pitch):
    """Whole vectors are copied in the background; vectors with masked elements are loaded and stored element by
    element."""
    source = through_pointers()
    assert "async.load" in names(pipelined(source))
    text = ptx(source, "sm_80", stages=3)
    assert text.count("cp.async.ca") + text.count("cp.async.cg") > 4 and "ld.global.b16" in text
    for seed in range(2):
        check(text, m, k, pitch, -(-k // K), seed)


def test_the_bound_of_a_counter_is_at_least_its_start():
    # So LLVM, which makes the loop end there, has the same number in one register for the copies and for the loop.
    (loop,) = [op for op in pipelined(matmul(), 3, "sm_90").walk() if op.name == "scf.for"]
    bound = loop.upper_bound.defining_op
    assert bound.name == "arith.maxsi"
    assert bound.operands[0] is loop.lower_bound


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
def test_a_schedule_without_a_load_ahead_is_given_up(gpu):
    """A person may write a kind on a loop and forget the loads."""
    module = parse_module(matmul(), "test.mlir")
    through(module, "tileas-generate-schedule", gpu)
    marked = [op for op in module.walk() if op.attributes.pop(tileas.RUNS_AHEAD, None) is not None]
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    assert marked and loop.attributes[tileas.LOOP_SCHEDULE].kind != tileas.SERIAL
    engine = DiagnosticEngine()
    through(module, "tileas-unspecialized-pipeline", gpu, engine, from_="tileas-unspecialized-pipeline")
    (remark,) = engine.diagnostics
    assert remark.location is loop.location and remark.codes[-1] == "loops.schedule-without-loads"
    assert loop.attributes[tileas.LOOP_SCHEDULE] is tileas.LoopScheduleAttr(tileas.SERIAL, 1)
    assert names(module).count("tiled_load") == 2
    through(module, gpu=gpu, from_="tileas-materialize-async")
    check(compiled(module, gpu), 32, 3 * K, 3 * K, 3)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
def test_a_loop_is_rewritten_once(gpu):
    module = pipelined(matmul(), 3, gpu)
    before, engine = print_op(module), DiagnosticEngine()
    through(module, "tileas-unspecialized-pipeline", gpu, engine, from_="tileas-unspecialized-pipeline")
    assert print_op(module) == before and not engine.diagnostics
