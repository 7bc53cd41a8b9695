"""No operation loses its location on the way from text to LLVM IR."""

from pathlib import Path

import pytest

from tileiras import api, pipeline
from tileiras.ir import UnknownLoc, parse_module
from tileiras.ir.pass_manager import PassManager
from tileiras.options import CompileOptions
from tileiras.passes import lookup_pass
from tileiras.stages import StageContext, units

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.mlir"))


def lost(module):
    """The names of operations without a location, except modules: stages create them without a source."""
    return [op.name for op in module.walk() if isinstance(op.location, UnknownLoc) and op.name != "builtin.module"]


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("options", [{}, {"lineinfo": True}, {"opt-level": 0, "device-debug": True}])
def test_every_operation_keeps_a_location(name, options):
    module = api.parse(EXAMPLES / name, source_name=name)
    assert lost(module) == []
    values = CompileOptions({"gpu-name": "sm_90", **options})
    for _, unit in units.entry_modules(module):
        value = unit
        for stage in ("tileaa", "tileas", "llvm"):
            context = StageContext(source_name=name)
            result = pipeline.run_stage(pipeline.stage(stage), value, values, context).output
            # The last stage prints text; it changed the module that it was given.
            value = value if isinstance(result, bytes) else result
            assert lost(value) == [], stage


PASSES = ("canonicalize", "cse", "dce", "fuse-fma", "loop-split", "synthesize-debug-info-scopes")


@pytest.mark.parametrize("name", PASSES)
def test_passes_over_tile_ir_lose_none(name):
    for path in (*TEXT, "../tests/passes/canonicalize_if.mlir", "../tests/passes/loop_split.mlir"):
        module = parse_module((EXAMPLES / path).read_text(), path)
        PassManager([lookup_pass(name)()], verify_each=False).run(module)
        assert lost(module) == [], path
