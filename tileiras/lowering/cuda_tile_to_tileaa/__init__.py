"""cuda_tile -> nv_tileaa: tiles become tensors or scalars, views become memrefs and tilings, entries become functions.

One file per family of operations; each ends in a table from mnemonic to rule.  An operation in no table is refused with
its location.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, Severity
from tileiras.ir import Operation, VerifyError, registry
from tileiras.support.lazy import lazy_names
from tileiras.support.named_tuple import NamedTuple

from . import (
    arithmetic,
    calls,
    collectives,
    control_flow,
    conversions,
    entry,
    functions,
    memory,
    mma,
    multimem,
    packing,
    shape,
)
from .types import tileaa_types

if TYPE_CHECKING:
    from tileiras.codegen.device_code import DeviceCode

FAMILIES = (
    arithmetic, functions, conversions, shape, packing, memory, control_flow, collectives, mma, multimem, calls, entry,
)  # fmt: skip

LEGAL_DIALECTS = ("arith", "builtin", "math", "nv_tileaa", "scf")

FAILURE = "failed to convert cuda_tile to nv_tileaa"


class TargetSpec(NamedTuple):
    """The properties of the target that rules use; `num_warps` and `num_ctas` are None unless forced by an option."""

    gpu_name: str
    num_warps: int | None = None
    num_ctas: int | None = None
    device_code: DeviceCode | None = None
    """The libraries whose functions `preview$call` reaches; None if none is given."""


@functools.cache
def pattern_table() -> dict[type[Operation], Any]:
    """Rules by operation class."""
    registry.load_dialect("cuda_tile")
    table: dict[type[Operation], Any] = {}
    for family in FAMILIES:
        for mnemonic, rule in family.patterns().items():
            op_class = registry.OPERATIONS[f"cuda_tile.{mnemonic}"]
            table[op_class] = rule
    return table


def convert_to_tileaa(module: Operation, target: TargetSpec, engine: DiagnosticEngine | None = None) -> Operation:
    """The builtin module with the functions and globals of a verified `cuda_tile.module`, which is consumed.

    Raises CompileError (code 5), located at the operation, for an operation without a rule.
    """
    from tileiras.analysis.module_attributes import chip_attributes
    from tileiras.dialects.builtin import ModuleOp
    from tileiras.ir.conversion import ConversionTarget, apply_conversion

    from .early_exits import structure_exits

    if not target.gpu_name:
        raise CompileError.at(
            module.location, "invalid or missing --compute-capability option", ExitCode.COMPILE_FAILURE
        )
    try:
        structure_exits(module)
    except VerifyError as error:
        result = [Diagnostic(Severity.ERROR, error.location, text) for text in (error.message, FAILURE)]
        raise CompileError(result) from None
    apply_conversion(
        module,
        pattern_table(),
        ConversionTarget(LEGAL_DIALECTS),
        tileaa_types(),
        data=target,
        failure=FAILURE,
        engine=engine,
    )
    memory.end_lifetimes(module)
    body = type(module.regions[0])().take_blocks(module.regions[0])
    return ModuleOp.create((), (), chip_attributes(target.gpu_name), [body], (), module.location)


__getattr__ = lazy_names(__name__, globals())
