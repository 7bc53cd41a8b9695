"""Dots of batches are executed matrix by matrix, where warpgroups or tensor memory multiply these.

    for %i ... (%c = %zero):                                  for %s = 0 to 2:
      %a = tiled_load %v[%b, %m, %i] : tensor<2x64x64xf16>      for %i ... (%c = %zero):
      %w = tiled_load %u[%b, %i, %n] : tensor<2x64x64xf16>        %a = tiled_load %x[2 * %b + %s, %m, %i]
      %r = dot %a, %w, %c                                ->       %w = tiled_load %y[2 * %b + %s, %i, %n]
      yield %r                                                    %r = dot %a, %w, %c : tensor<1x64x64xf32>
    tiled_store %c, %o[%b, %m, %n]                              tiled_store %c, %z[2 * %b + %s, %m, %n]

wgmma and tcgen05.mma multiply matrices only.  One after the other they need the operands and accumulators of one
matrix, which leaves an SM room for more CTAs than the whole batch side by side would, and agents run through a loop
over tiles without a pause.  mma.sync accepts a batch as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.analysis.alias import AliasAnalysis, data_of
from tileiras.assignment.tensor_dots import HALF, LEAST_COLUMNS, MOST_COLUMNS, takes_scales
from tileiras.assignment.warpgroup_dots import FEWEST_COLUMNS, ROWS
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, TensorType, Value
from tileiras.layout.tensor_memory import LANES
from tileiras.reasons import Reason
from tileiras.targets import MmaAtom, Target, find_tensor_atom, find_warpgroup_atom, product_types

from .dimensions import DOTS, WRITES, RematerializedValues, Unsliceable
from .groups import Group
from .loops import SlicedLoops


def slice_batches(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Make loops over the matrices of dots of batches of a function of nv_tileaa, in place, if an asynchronous
    instruction multiplies these and the result is stored or reduced; a remark names them."""
    whole: set[aa.Dot] = set()
    while dot := next((op for op in _batches(func) if op not in whole and multiplies_matrices(op, target)), None):
        group = _group(dot, func)
        if group is None:
            whole.add(dot)
            continue
        if engine is not None:
            shape = "x".join(map(str, dot.result.type.shape))
            engine.emit(Remark(Reason("slices.matrices", shape=shape, parts=group.parts), dot.location))
        SlicedLoops(group).run()


def _batches(func: aa.FuncOp) -> Iterator[aa.Dot]:
    """The dots of batches of two or more."""
    return (op for op in func.walk() if isinstance(op, DOTS) and op.c.type.rank == 3 and op.c.type.shape[0] > 1)


def multiplies_matrices(op: aa.Dot, target: Target) -> bool:
    """Whether wgmma or tcgen05.mma multiplies each matrix of a batch of dots."""
    if isinstance(op, aa.BlockScaledMmaOp):
        return target.has("tcgen05") and takes_scales(target, op)
    (m, n), types = op.result.type.shape[-2:], product_types(op)
    if m < HALF:
        m, n, types = n, m, (types[1], types[0], types[2])
    atom = _atom(target, types, m, n)
    return atom is not None and op.a.type.shape[-1] % atom.shape[2] == 0


def _atom(target: Target, types: tuple[str, str, str], m: int, n: int) -> MmaAtom | None:
    if not target.has("tcgen05"):
        enough = m >= ROWS and n >= FEWEST_COLUMNS
        return find_warpgroup_atom(target, *types, min(n, MOST_COLUMNS)) if enough else None
    rows = min(m, LANES)
    enough = m >= HALF and n >= LEAST_COLUMNS[rows]
    return find_tensor_atom(target, *types, rows, min(n, MOST_COLUMNS)) if enough else None


def _group(dot: aa.Dot, func: aa.FuncOp) -> Group | None:
    """The operations that are cut together with a dot along its batch, if the dot is executed once for each matrix;
    None if it cannot be cut."""
    aliases, rematerialized = AliasAnalysis(), RematerializedValues()
    for consumer in func.walk():
        seed = _seed(consumer)
        if seed is None or seed in rematerialized or seed.defining_op is None:
            continue
        for dim in range(seed.type.rank):
            try:
                group = Group(seed, dim, dot.result.type.shape[0], aliases, rematerialized, consumer=consumer)
            except Unsliceable:
                continue
            around = group.block.find_ancestor_op(dot)
            if group.dims.get(dot.result) == 0 and around is not None and len(group.runs[around]) == 1:
                return group
    return None


def _seed(consumer: Operation) -> Value | None:
    """The tensor that an operation stores or reduces."""
    if not isinstance(consumer, (*WRITES, aa.ReduceOp)):
        return None
    value: Value = consumer.inputs[0] if isinstance(consumer, aa.ReduceOp) else data_of(consumer)
    return value if isinstance(value.type, TensorType) else None
