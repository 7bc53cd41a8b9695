"""The names of MLIR's Python bindings: the calls of the documentation's section on debug information, as written."""

import re

import pytest

import tileiras
from tileiras.mlir import ir, passmanager, register_dialect, writeBytecode

TEXT = """\
module {
  cuda_tile.module @kernels {
    entry @k(%p: tile<ptr<f32>>) {
      %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token loc("foo.py":3:7)
      %q = addf %v, %v : tile<f32> loc("foo.py":4:7)
      %u = store_ptr_tko weak %p, %q : tile<ptr<f32>>, tile<f32> -> token
      return
    } loc("foo.py":2:0)
  }
}
"""


def test_the_documented_calls_synthesize_scopes():
    module = ir.Module.parse(TEXT, source_name="k.mlir")
    assert "di_subprogram" not in module.operation.get_asm(enable_debug_info=True)
    pm = passmanager.PassManager(context=module.context)
    full_pass_string = f"cuda_tile.module({'synthesize-debug-info-scopes'})"
    pm = pm.parse(full_pass_string, context=module.context)
    pm.run(module.operation.regions[0].blocks[0].operations[0])
    text = module.operation.get_asm(enable_debug_info=True)
    assert re.search(r'#cuda_tile.di_subprogram<file = #\w+, line = 2, name = "k", linkageName = "k"', text)
    assert text.count("#cuda_tile.di_loc<") > 3
    assert str(pm) == "cuda_tile.module(synthesize-debug-info-scopes)"


def test_a_module_is_walked_and_verified():
    with ir.Context() as context:
        register_dialect(context, load=True)
        module = ir.Module.parse(TEXT)
    assert module.context is context and module.operation.verify()
    seen = []

    def note(op):
        seen.append(op.name)
        return ir.WalkResult.SKIP if op.name == "cuda_tile.entry" else ir.WalkResult.ADVANCE

    module.operation.walk(note, ir.WalkOrder.PRE_ORDER)
    assert seen == ["builtin.module", "cuda_tile.module", "cuda_tile.entry"]
    seen.clear()
    module.operation.walk(lambda op: (seen.append(op.name), ir.WalkResult.ADVANCE)[1])
    assert seen[0] == "cuda_tile.load_ptr_tko" and seen[-1] == "builtin.module"
    (tile,) = module.body.operations
    (entry,) = tile.regions[0].blocks[0]
    load, add, store, _ = entry.regions[0].blocks[0].operations
    assert entry.parent == tile and entry.attributes["sym_name"].value == "k"
    assert add.operands[0] == add.operands[1] == load.results[0] and add.operands[0].owner == load
    assert list(load.results[0].uses) == [add] and str(add.results[0].type) == "!cuda_tile.tile<f32>"
    assert entry.regions[0].blocks[0].arguments[0].owner.owner == entry
    assert store.operands[1].owner == add and "addf" in str(add)


def test_errors_are_those_of_the_bindings():
    with pytest.raises(ir.MLIRError, match="addf"):
        ir.Module.parse(TEXT.replace("addf %v, %v :", "addf %v :"))
    with pytest.raises(ValueError, match="no-such-pass"):
        passmanager.PassManager.parse("builtin.module(no-such-pass)")


def test_bytecode_of_a_parsed_module_compiles(tmp_path):
    module = ir.Module.of(tileiras.parse(TEXT))
    writeBytecode(tmp_path / "k.tileirbc", module)
    assert ".entry k(" in tileiras.compile(tmp_path / "k.tileirbc", gpu_name="sm_90").text


def test_pipelines_of_the_compiler_run():
    module = ir.Module.parse(TEXT)
    manager = passmanager.PassManager("builtin.module", context=module.context)
    manager.add("tileir{opt-level=1 compute-capability=sm_90}")
    manager.run(module)
    assert "nv_tileaa.func" in str(module)
