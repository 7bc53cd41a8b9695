"""Reductions and scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import nv_tileaa
from tileiras.ir import ArrayAttr, Block, IntegerAttr, Operation, Region, UnitAttr, i64

from .rules import Rule, Table

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def _collective(target: type[Operation]) -> Rule:
    def rule(op: cuda_tile.ReduceOp | cuda_tile.ScanOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        types = [rewriter.convert_type(result.type) for result in op.results]
        attributes: dict[str, Any] = {}
        reverse = op.attributes.get("reverse")
        if reverse is not None and getattr(reverse, "value", 1):
            attributes["reverse"] = UnitAttr()
        body = _by_running_value(rewriter.convert_region(op.regions[0]))
        return rewriter.insert(
            target(
                list(args),
                dim=IntegerAttr(op.dim.value, i64),
                identities=ArrayAttr(op.identities),
                results_=types,
                body=body,
                **attributes,
            )
        )

    return rule


def _by_running_value(body: Region) -> Region:
    """Reorder the arguments: (running value, element) per input become all running values, then all elements.

    The specification's text has the element first; its example of a scan and the vendor's compiler, which hands on the
    first argument when a scan's body does (13.5, sm_90), have the running value first.
    """
    block: Block = body.block
    old = block.arguments
    order = (*old[0::2], *old[1::2])
    for index, argument in enumerate(order):
        argument.index = index
    block.arguments = order
    return body


def patterns() -> Table:
    return {
        "reduce": _collective(nv_tileaa.ReduceOp),
        "scan": _collective(nv_tileaa.ScanOp),
    }
