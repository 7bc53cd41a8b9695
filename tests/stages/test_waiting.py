"""Work is done while another process runs, and its errors are reported."""

import pytest

from tileiras import api
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.options import CompileOptions
from tileiras.processes import helper
from tileiras.stages import llvm

KERNEL = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %one = constant <f32: 1.0> : tile<f32>
    %token = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""
OPTIONS = CompileOptions({"gpu-name": "sm_90"})


@pytest.mark.parametrize("forks", [True, False])
@pytest.mark.parametrize("emit", ["llvm", "ptx", "cubin"])
def test_findings_of_our_verifier_precede_those_of_llvm(monkeypatch, emit, forks):
    def wrong(module):
        raise CompileError.at(module.location, "wrong", ExitCode.COMPILE_FAILURE)

    monkeypatch.setattr(llvm, "verify", wrong)
    monkeypatch.setattr(llvm, "translate_module", lambda *_: "no LLVM IR")
    monkeypatch.setattr(helper, "available", lambda: forks)
    with pytest.raises(CompileError, match="wrong"):
        api.compile_with(KERNEL, OPTIONS, emit)


def test_artifacts_given_as_functions_are_built_on_demand():
    from tileiras.stages import StageResult

    items = []
    result = StageResult(b"", {".a": b"1", ".b": lambda: items.append(1) or b"2"})
    assert items == [] and result.artifacts == {".a": b"1", ".b": b"2"} and items == [1]


def test_gc_pauses_for_a_compilation_but_not_in_llvm_s_process(monkeypatch):
    import gc

    seen = []
    monkeypatch.setitem(helper._functions(), "collects", gc.isenabled)
    helper.stop()
    whole = llvm.verify
    monkeypatch.setattr(llvm, "verify", lambda module: seen.append(gc.isenabled()) or whole(module))
    api.compile_with(KERNEL, OPTIONS, "ptx")
    assert seen == [False] and gc.isenabled()
    assert helper.call("collects")[0] is True
    helper.stop()
