"""Kernels with loops over tiles that two agents execute alternately."""

from __future__ import annotations

import tileiras
from tests.kernels.reasons import stated
from tests.tileas_stage import through
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, UnitAttr, parse_module, print_op

SCHEDULED, SPLIT = "tileas-generate-schedule", "tileas-materialize-schedule"


def asked(text: str, gpu: str = "sm_90", **options: object) -> tuple[str, list[str]]:
    """The artifact of the stage `tileas` of a kernel whose outermost loops request it by their attribute, and the
    remarks.  `options` are those of `tileas{...}`."""
    module = parse_module(tileiras.compile(text, gpu_name=gpu, emit="tileaa").text, "k.tileaa.mlir")
    result = {"pipeline_strategy": "warp-specialize", **options}
    engine = DiagnosticEngine()
    module = through(module, SCHEDULED, gpu, engine, **result)
    for loop in (op for op in module.walk() if isinstance(op, (scf.ForOp, scf.WhileOp)) and _is_outermost(op)):
        loop.attributes[tileas.PING_PONG] = UnitAttr()
    module = through(module, "", gpu, engine, from_=SPLIT, **result)
    return print_op(module), stated(engine.diagnostics)


def _is_outermost(op: Operation) -> bool:
    return next(iter(scf.loops_around(op)), None) is None
