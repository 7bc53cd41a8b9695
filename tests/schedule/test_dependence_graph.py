"""The dependence graph of loops: dependences, recurrences, and operations that are one node."""

import pytest

from tests.kernels import dots
from tests.kernels.pipelined import TOKEN, K, N, matmul, view
from tests.tileas_stage import LAYOUTS, through
from tileiras.analysis.copied_loads import loads_of
from tileiras.dialects import scf
from tileiras.ir import parse_module
from tileiras.schedule.dependence_graph import loop_graph, loop_waits
from tileiras.schedule.modulo_placement import place, place_serially, violations
from tileiras.schedule.staging import staged_load
from tileiras.targets import find_copy_atom, target


def loops_of(module):
    return [op for op in module.walk() if isinstance(op, scf.ForOp)]


def product(gpu="sm_80", **changes):
    """The loop of a matrix product with layouts."""
    (loop,) = loops_of(through(parse_module(matmul(**changes), "test.mlir"), LAYOUTS, gpu))
    return loop


def graph_of(loop, gpu="sm_80", warps=4):
    atom = find_copy_atom(target(gpu), "global", "shared", asynchronous=True)
    staged = [result for load in loads_of(loop) if (result := staged_load(load, loop, atom)) is not None]
    return loop_graph(loop, target(gpu), warps, staged)


def named(graph):
    """The waits as (source, target, distance) with names of operations."""
    names = [op.name.rpartition(".")[2] for op in graph.operations]
    return {(names[wait.source], names[wait.target], wait.distance) for wait in graph.waits}


def test_values_of_this_iteration_and_of_the_one_before():
    result = named(graph_of(product()))
    assert {("tiled_load", "convert_layout", 0), ("convert_layout", "dot", 0), ("dot", "dot", 1)} <= result
    # Tokens of both loads are joined and handed on.
    assert {("tiled_load", "join_mem_token", 0), ("join_mem_token", "tiled_load", 1)} <= result


def test_a_dot_and_its_operands_are_one_node():
    graph = graph_of(product())
    names = [node.name.rpartition(".")[2] for node in graph.graph.nodes]
    assert sorted(names) == ["dot", "join_mem_token", "tiled_load", "tiled_load"]


def test_an_accumulator_recurs_with_the_next_dots_wait():
    """On sm_80 until the result is in registers."""
    graph = graph_of(product())
    (dot,) = (cost for op, cost in zip(graph.operations, graph.costs) if op.name == "nv_tileas.dot")
    assert graph.graph.recurrence_mii == round(dot.latency / graph.grain)


def test_loads_that_run_ahead_are_not_waited_for():
    """Where one does not, because of a store before it, its latency is in the recurrence."""
    _, b_view = view(K, N, "16, 1")
    body = f"""
      %w = nv_tileaa.tiled_store %y, %vb[%i, %zero] token = %both
        : tensor<{K}x{N}xf16>, {b_view}, (i32, i32) -> {TOKEN}"""
    source = matmul(body=body).replace("scf.yield %d, %both", "scf.yield %d, %w")
    (loop,) = loops_of(through(parse_module(source, "test.mlir"), LAYOUTS, "sm_80"))
    stored, ahead = graph_of(loop), graph_of(product())
    names = [node.name for node in stored.graph.nodes]
    edges = {(names[e.source], names[e.target], e.distance): e.latency for e in stored.graph.edges}
    assert edges["nv_tileas.tiled_load", "nv_tileas.dot", 0] > 0
    assert edges["nv_tileas.tiled_store", "nv_tileas.tiled_load", 1] == 0
    names = [node.name for node in ahead.graph.nodes]
    assert all(not edge.latency for edge in ahead.graph.edges if names[edge.source] == "nv_tileas.tiled_load")


def test_effects_without_a_token_keep_their_order():
    body = """
      %positive = arith.cmpi sge, %i, %zero : i32
      nv_tileaa.assert %positive, "first" : i1
      nv_tileaa.assert %positive, "second" : i1"""
    graph = graph_of(product(body=body))
    numbers = [number for number, op in enumerate(graph.operations) if op.name == "nv_tileas.assert"]
    waits = {(wait.source, wait.target, wait.distance) for wait in graph.waits if wait.value is None}
    assert waits == {(*numbers, 0), (numbers[1], numbers[0], 1)}


def test_values_from_before_the_last_iteration():
    source = matmul().replace("%t = %token)", "%t = %token, %a1 = %zero, %a2 = %zero)")
    types = f"-> (tensor<32x16xf32>, {TOKEN}, i32, i32) :"
    source = source.replace(f"-> (tensor<32x16xf32>, {TOKEN}) :", types).replace(
        "%sum, %last = scf", "%sum, %last, %e1, %e2 = scf"
    )
    source = source.replace(
        f"scf.yield %d, %both : tensor<32x16xf32>, {TOKEN}",
        f"%next = arith.addi %a2, %i : i32\nscf.yield %d, %both, %next, %a1 : tensor<32x16xf32>, {TOKEN}, i32, i32",
    )
    (loop,) = loops_of(through(parse_module(source, "test.mlir"), LAYOUTS, "sm_80"))
    assert ("addi", "addi", 2) in named(graph_of(loop))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_attention_overlaps(gpu):
    """Products of one iteration overlap with computations of another one."""
    kernel = dots.attention_like(1, gpu_name=gpu, rows=64, columns=64, depth=64)
    (loop,) = loops_of(kernel.after(LAYOUTS, gpu))
    graph = graph_of(loop, gpu)
    placed = place(graph.graph)
    assert violations(graph.graph, placed) == []
    assert placed.interval < place_serially(graph.graph).interval
    assert loop_waits(loop) == graph.waits
