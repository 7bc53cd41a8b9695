"""Loops whose operations have stages: overlap changes no result, for any choice of stages and any number of
iterations."""

import random

import pytest

from tests.kernels.dots import attention_like, converted, with_steps_at_run_time
from tests.kernels.loop_stages import loop_of, random_slots, slot, slots_from
from tests.kernels.pipelined import K, check, matmul
from tests.kernels.reasons import stated
from tests.kernels.views import Kernel, names
from tests.tileas_stage import compiled, through
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import IntegerAttr, i32, parse_module, print_op
from tileiras.schedule.schedule_analysis import analysis_of
from tileiras.sim import EmulationError

SCHEDULED = "tileas-generate-schedule"
REST = "tileas-materialize-schedule"


def scheduled(text, gpu="sm_80", **options):
    """A module of nv_tileaa whose loops have schedules."""
    return through(parse_module(text, "test.mlir"), SCHEDULED, gpu, v2_opt_level=2, **options)


BODIES = {
    "product": "",
    "carried scalar": "%odd = arith.addi %i, %one : i32",
    "assertions": '%positive = arith.cmpi sge, %i, %zero : i32\n'
    '      nv_tileaa.assert %positive, "first" : i1\n      nv_tileaa.assert %positive, "second" : i1',
}  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("body", BODIES)
def test_any_stages_and_places_give_the_same_result(body, seed):
    rng = random.Random(f"{body} {seed}")
    module = scheduled(matmul(body=BODIES[body]))
    loop = loop_of(module)
    slots = random_slots(loop, rng, rng.choice((2, 3, 4)))
    most = max(stage for stage, _ in slots)
    slot(loop, slots, most + rng.choice((2, 3)))
    analysis_of(loop)
    through(module, gpu="sm_80", from_=REST)
    text = compiled(module, "sm_80")
    for steps in (-1, 0, 1, 2, 3, 4, 7):
        check(text, 32, max(1, steps) * K, max(1, steps) * K, steps, seed=seed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu, size", [("sm_80", 32), ("sm_90", 64), ("sm_100", 64)])
@pytest.mark.parametrize("seed", range(4))
def test_any_stages_of_attention(gpu, size, seed):
    """Products, reductions, and values that go from the end of one iteration to the beginning of the next."""
    kernel = attention_like(1, rows=size, columns=size, depth=size, steps=4, gpu_name=gpu, halved=True)
    rng = random.Random(seed)
    module = kernel.after(SCHEDULED, gpu, v2_opt_level=2)
    loop = loop_of(module)
    loop.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
    slot(loop, random_slots(loop, rng, 3), 5)
    through(module, gpu=gpu, from_=REST)
    result = [array.copy() for array in kernel.outputs]
    run(kernel, compiled(module, gpu), seed, result)


@pytest.mark.parametrize("seed", range(4))
def test_computations_on_a_tile_run_in_the_stage_of_their_use(seed):
    kernel = converted((32, 32, 32), "b", "f16", "tf32", steps=5)
    module = kernel.after(SCHEDULED, "sm_80", v2_opt_level=2)
    loop = loop_of(module)
    slot(loop, random_slots(loop, random.Random(seed), 3), 5)
    through(module, gpu="sm_80", from_=REST)
    result = [array.copy() for array in kernel.outputs]
    run(kernel, compiled(module, "sm_80"), seed, result)


def test_registers_that_a_dot_reads_are_not_overwritten():
    """Registers of the second product, whose addend is computed in the same stage: A is carried, and written before the
    next round."""
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, halved=True)
    module = kernel.after(SCHEDULED, "sm_90", v2_opt_level=2)
    loop = loop_of(module)
    operations = list(loop.body.block.operations)[:-1]
    first, last = (number for number, op in enumerate(operations) if op.name == "nv_tileas.dot")
    stages = [int(op in (operations[last], operations[last].c.defining_op)) for op in operations]
    orders = (slots_from(loop, random.Random(seed), stages) for seed in range(100))
    # The next iteration's first product is issued before, and waited for while this one is under way.
    slot(loop, next(slots for slots in orders if slots[first][1] < slots[last][1] < slots[first + 1][1]), 4)
    through(module, gpu="sm_90", from_=REST)
    text = compiled(module, "sm_90")
    for seed in range(3):
        run(kernel, text, seed, [array.copy() for array in kernel.outputs])


def run(kernel: Kernel, text, seed, found):
    from tileiras.sim import emulate

    inputs = [array.view("u2") if array.dtype.kind == "V" else array for array in kernel.inputs]
    emulate(text, "k", kernel.grid, [*inputs, *found], seed=seed)
    kernel._compare(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("halved", [False, True])
def test_attention_overlaps_and_is_right(gpu, halved):
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name=gpu, halved=halved)
    if not halved:  # how many steps there are is known at run time
        kernel = with_steps_at_run_time(kernel, 4)
    artifact = kernel.check(gpu, v2_opt_level=2)
    for seed in (1, 2):
        kernel.emulated(artifact, seed)
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics))
    plain = kernel.compiled(gpu, pipeline_strategy="unspecialize")
    assert plain.text != artifact.text
    assert not stated(plain.diagnostics, "loops.overlap")


@pytest.mark.parametrize("columns, depth, overlaps", [(32, 32, False), (64, 128, True)])
def test_iterations_overlap_where_an_sm_has_no_other_warps(columns, depth, overlaps):
    """Of the larger tiles an SM holds one CTA of four warps, a warp for each scheduler."""
    kernel = attention_like(1, rows=64, columns=columns, depth=depth, steps=4, gpu_name="sm_120")
    artifact = kernel.check("sm_120", v2_opt_level=1)
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics)) == overlaps
    assert ".loop_schedule<unspecialize" in kernel.compiled("sm_120", emit="tileas", v2_opt_level=1).text


def test_a_product_is_under_way_while_another_iteration_computes():
    """On sm_90 the next iteration's first product is issued before the maxima of this one are looked for, and waited
    for behind them; with the plain schedule it is waited for at once."""
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4)
    under_way = []
    for level in (0, 1):
        module = kernel.after("tileas-materialize-async", "sm_90", v2_opt_level=2 * level)
        loop = next(op for op in module.walk() if isinstance(op, scf.ForOp))
        issued = waiting = 0
        most = 0
        for op in loop.body.block.operations:
            issued += op.name == "nv_tileas.async.dot"
            if op.name == "nv_tileas.async.future_wait":
                waiting = issued - op.attributes["pending"].value
            if op.name == "nv_tileas.reduce":
                most = max(most, issued - waiting)
        under_way.append(most)
    assert under_way == [0, 1]


@pytest.mark.parametrize("missing", ["cp.async.wait_group", "cp.async.commit_group", "bar.sync"])
def test_nothing_of_the_protocol_can_be_left_out(missing):
    """Of attention with overlapping iterations: each wait, commit and barrier."""
    kernel = attention_like(1, rows=32, columns=32, depth=32, steps=4, gpu_name="sm_80")
    artifact = kernel.compiled("sm_80", v2_opt_level=2)
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics))
    lines = artifact.text.splitlines()
    # From the first product on: before it two barriers may follow each other, of the wait and of a conversion.
    first = 0 if missing != "bar.sync" else next(number for number, line in enumerate(lines) if "mma.sync" in line)
    places = [number for number, line in enumerate(lines) if missing in line and number > first]
    assert places
    for number in places:
        with pytest.raises((EmulationError, AssertionError)):
            for seed in range(3):
                kernel.emulated(artifact, seed, "\n".join(lines[:number] + lines[number + 1 :]))


def test_schedules_stand_in_the_text():
    """Printed, read and obeyed: the text of a schedule leads to the same code."""
    module = scheduled(matmul())
    again = parse_module(print_op(module), "test.mlir")
    first, second = (print_op(through(each, gpu="sm_80", from_=REST)) for each in (module, again))
    assert first == second and "nv_tile.aws" not in first


def test_the_ring_is_as_deep_as_tiles_are_held():
    """A load whose tile a later stage reads has a stage more than one that the first stage reads."""
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name="sm_80")
    module = kernel.after("tileas-unspecialized-pipeline", "sm_80", v2_opt_level=2)
    depths = sorted(op.result.type.stages for op in module.walk() if isinstance(op, tileas.AllocTensorOp))
    assert len(depths) == 2 and depths[0] + 1 == depths[1]


def test_loops_that_cannot_overlap_run_ahead_as_before():
    """A schedule that leaves no copy ahead: the plain one, and a remark."""
    module = scheduled(matmul())
    loop = loop_of(module)
    later = ("nv_tileas.convert_layout", "nv_tileas.dot")
    slot(loop, [(int(op.name in later), place) for place, op in enumerate(loop.body.block.operations)], 2)
    engine = DiagnosticEngine()
    engine.remarks = True
    through(module, "tileas-unspecialized-pipeline", "sm_80", engine, from_=REST)
    assert "async.tiled_load" in names(module)
    assert stated(engine.diagnostics, "loops.not-in-stages")


@pytest.mark.parametrize("iterations, overlaps", [(0, False), (10, True)])
def test_no_placement_is_tried_without_iterations(iterations, overlaps):
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name="sm_80")
    artifact = kernel.compiled("sm_80", v2_opt_level=2, max_constraint_iterations=iterations)
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics)) == overlaps


def wrong(change):
    module = scheduled(matmul())
    change(loop_of(module))
    with pytest.raises(CompileError) as error:
        through(module, "tileas-unspecialized-pipeline", "sm_80", from_=REST)
    (diagnostic,) = error.value.diagnostics
    assert error.value.code == 3 and diagnostic.location is not None
    return diagnostic.message


def operation(loop, name):
    return next(op for op in loop.body.block.operations if op.name == name)


def test_impossible_values_are_refused():
    def of(name, attribute, value):
        return lambda loop: operation(loop, name).attributes.update({attribute: value})

    assert wrong(of("nv_tileas.dot", tileas.AWS_STAGE, IntegerAttr(-1, i32))) == (
        "'nv_tileas.dot' op expects 'nv_tile.aws.stage' to be from 0 to 7, got -1"
    )
    assert "which 'nv_tileas." in wrong(of("nv_tileas.dot", tileas.AWS_ORDER, IntegerAttr(0, i32)))
    assert wrong(lambda loop: operation(loop, "nv_tileas.dot").attributes.pop(tileas.AWS_STAGE)) == (
        "'nv_tileas.dot' op expects a 32-bit integer 'nv_tile.aws.stage', as all operations of its loop"
    )
    result = wrong(of("nv_tileas.tiled_load", tileas.AWS_STAGE, IntegerAttr(1, i32)))
    assert "begins before 'nv_tileas.tiled_load', which it waits for" in result
