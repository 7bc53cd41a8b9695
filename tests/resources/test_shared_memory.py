"""Shared memory: the sizes in plans, in nv_tileas and in launches are equal."""

from __future__ import annotations

import sys
from pathlib import Path
from zlib import crc32

from tileiras import api
from tileiras.analysis.function_pass import functions_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import parse_module
from tileiras.layout.encoding import is_in_shared
from tileiras.options import CompileOptions
from tileiras.resources.shared_memory import SCRATCH_BYTES, conversion_bytes, scratch_beside, scratch_bytes
from tileiras.stages import units
from tileiras.targets import target as gpu

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.kernels import collect  # noqa: E402

TARGETS = ("sm_80", "sm_90", "sm_120")


def test_planned_shared_memory_is_that_of_launches(tmp_path, monkeypatch):
    """Each example on one target: the bytes of conversions and reductions as planned are those of their scratch areas,
    and all areas and buffers lie within the size in the launch description."""
    monkeypatch.chdir(ROOT)
    conversions = reductions = others = 0
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
                    elif areas and not isinstance(op, tileas.ConvertLayoutOp):
                        others += 1
                        planned = scratch_bytes(op, gpu(target).shared_per_cta)
                        assert max(area.bytes for area in areas) <= planned, (op.name, name, target)
    assert conversions > 5
    assert reductions > 5
    assert others > 5


LOOP = """
#layout = #nv_tileas.linear<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]]>
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = arith.constant dense<1.0> : tensor<512xf32> as tensor<512xf32, #layout>
  scf.for %i = %zero to %n step %one : i32 {
BODY
    scf.yield
  }
  nv_tileaa.return
}
"""

SCAN = """    %s = nv_tileas.scan %x {dim = 0 : i64, identities = [0.0 : f32]}
        : (tensor<512xf32, #layout>) -> (tensor<512xf32, #layout>) {
    ^bb0(%a: f32, %b: f32):
      %c = nv_tileas.addf %a, %b : f32
      nv_tileas.yield %c : f32
    }
"""


def beside(body: str) -> int:
    (func,) = functions_of(parse_module(LOOP.replace("BODY", body), "loop"))
    (loop,) = (op for op in func.walk() if op.name == "scf.for")
    return scratch_beside(loop, ())


def test_a_loop_reserves_shared_memory_for_exchanges():
    """A scan hands one number of each warp to the others; two of them have an area each."""
    assert beside("") == 0
    one = beside(SCAN)
    assert 0 < one <= 1024
    assert beside(SCAN + SCAN.replace("%s", "%t")) == 2 * one
    assert beside("".join(SCAN.replace("%s", f"%s{number}") for number in range(300))) == SCRATCH_BYTES[0]
