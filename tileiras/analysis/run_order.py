"""Operations by which the result of a kernel depends on the order in which its tile blocks happen to run.

Within a tile block every reduction, scan and dot has an order that the compiler fixes.  Between tile blocks only memory
carries values.  Integer updates commute and do not depend on their order; float additions round after each, and values
that are read while other blocks write depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tileiras.ir import FloatType, Operation

ADDITIONS = "adds floats in the order in which tile blocks arrive, and rounds after each addition"
OLD_VALUE = "returns a value that earlier tile blocks left"
LAST_WRITER = "keeps the value of the tile block that arrives last"
MIXED = "updates memory that updates of another kind may reach, and the two do not commute"
EXCHANGE = "succeeds for the tile block that arrives first"
VISIBLE = "reads memory while other tile blocks may write it"
MULTICAST = "adds the copies of several GPUs in an order that the hardware chooses"
EXTERNAL = "calls code that is not part of the program"


class OrderDependence(NamedTuple):
    """An operation whose effect depends on the order of tile blocks, and the reason."""

    operation: Operation
    reason: str


def order_dependences(entry: Operation) -> list[OrderDependence]:
    """All of an entry of cuda_tile in textual order; empty where two runs of one launch give the same bits.

    Conservative: a lock that serializes tile blocks in a fixed order is reported as well, as are updates of two kinds
    wherever they go.  The program has no races.
    """
    dependences = []
    is_mixed = len({op.attributes["mode"].value for op in entry.walk() if _is_update(op)}) > 1
    for op in entry.walk():
        reasons = list(_reasons(op))
        if is_mixed and not reasons and _is_update(op):
            reasons.append(MIXED)
        dependences += [OrderDependence(op, reason) for reason in reasons]
    return dependences


def _is_update(op: Operation) -> bool:
    return op.name in ("cuda_tile.atomic_rmw_tko", "cuda_tile.atomic_red_view_tko")


def _reasons(op: Operation) -> Iterator[str]:
    name = op.name.removeprefix("cuda_tile.")
    if name in ("atomic_rmw_tko", "atomic_red_view_tko"):
        mode = op.attributes["mode"].value
        if mode == "addf":
            yield ADDITIONS
        elif mode == "xchg":
            yield LAST_WRITER
        if name == "atomic_rmw_tko" and op.results[0].has_uses:
            yield OLD_VALUE
    elif name == "atomic_cas_tko":
        yield EXCHANGE
    elif name.startswith("multimem_") and "reduce" in name:
        if _is_float_addition(op):
            yield MULTICAST
    elif "load_" in name and is_ordered(op):
        yield VISIBLE
    elif "store_" in name and is_ordered(op):
        yield LAST_WRITER
    elif name == "preview$call":
        yield EXTERNAL


def is_ordered(op: Operation) -> bool:
    """Whether an access has an ordering other than `weak`."""
    semantics = op.attributes.get("memory_ordering_semantics")
    return semantics is not None and semantics.value != "weak"


def _is_float_addition(op: Operation) -> bool:
    values = [*op.operands, *op.results]
    floats = any(isinstance(getattr(value.type, "element_type", None), FloatType) for value in values)
    return floats and op.attributes["reduction"].value == "add"
