"""Shared memory: what plans count on, what nv_tileas says, and what launches give are one number."""

from __future__ import annotations

import sys
from pathlib import Path
from zlib import crc32

from tileiras import api, units
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import parse_module
from tileiras.layout.encoding import is_in_shared
from tileiras.options import CompileOptions
from tileiras.passes import functions_of
from tileiras.resources.shared_memory import conversion_bytes, scratch_bytes

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.kernels import collect  # noqa: E402

TARGETS = ("sm_80", "sm_90", "sm_120")


def test_planned_shared_memory_is_what_launches_give(tmp_path, monkeypatch):
    """Each example on one target: the bytes of conversions and reductions as planned are those of their scratch areas,
    and all areas and buffers lie in what the launch description asks for."""
    monkeypatch.chdir(ROOT)
    conversions = reductions = 0
    for kernel in collect(str(tmp_path)):
        target = TARGETS[crc32(kernel.name.encode()) % len(TARGETS)]
        if int(target[3:]) < kernel.lowest:
            continue
        options, source = CompileOptions({"gpu-name": target}), units.Source.read(kernel.path)
        launches = {k.name: k.metadata for k in api.compile_with(source, options, "ptx").kernels}
        for part in api.compile_with(source, options, "tileas").text.split("// -----"):
            for func in functions_of(parse_module(part, kernel.name)):
                name = func.sym_name.value
                total = tileas.number_of(func, tileas.SHARED_MEMORY)
                assert total == launches[name]["shared_memory"], (name, target)
                for op in func.walk():
                    areas = tileas.scratch_areas(op)
                    assert all(area.offset + area.bytes <= total for area in areas), (name, target)
                    if isinstance(op, tileas.AllocTensorOp):
                        assert op.offset.value + op.result.type.bytes <= total, (name, target)
                    if isinstance(op, tileas.ConvertLayoutOp) and areas and not is_in_shared(op.result.type):
                        conversions += 1
                        assert sum(area.bytes * area.rounds for area in areas) == conversion_bytes(op), (name, target)
                    if isinstance(op, tileas.ReduceOp) and areas:
                        reductions += 1
                        assert sum(area.bytes for area in areas) <= scratch_bytes(op, total), (name, target)
    assert conversions > 5
    assert reductions > 5
