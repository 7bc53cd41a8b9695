"""The schedules of the loops of a kernel."""

from __future__ import annotations

import tileiras
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import parse_module


def schedules(text: bytes, gpu: str, **options: int) -> list[str]:
    module = parse_module(tileiras.compile(text, gpu_name=gpu, emit="tileas", **options).text, "k.mlir")
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    return [op.attributes[tileas.LOOP_SCHEDULE].kind for op in loops]
