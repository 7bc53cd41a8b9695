"""Kernels on which LLVM ends its process: a located diagnostic and code 5, and the next kernel compiles.

No output of the lowerings has this effect, so the kernels come in at the llvm level.
"""

import pytest

from tileiras import api
from tileiras.build.run import worker
from tileiras.build.run.execute import Session
from tileiras.build.run.worker import Place, Request, perform_chain
from tileiras.build.step import Step
from tileiras.build.store.local import OFF, READ_WRITE, SIZE_LIMIT, ArtifactStore
from tileiras.cli import tileiras as command
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.pipeline import stage

KERNEL = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"
MODULE = """\
module {{
  llvm.func @k(%p: !llvm.ptr<1>, %x: f32) attributes {{nvvm.kernel}} {{
    {}
    llvm.return
  }}
}}
"""
FATAL = [
    # An assertion of the instruction selector, which aborts.
    ('llvm.inline_asm has_side_effects "nop; // $0", "q" %x : (f32) -> ()', "Copying to an illegal type!", "SIGABRT"),
    # An error that LLVM reports by ending the process.
    ("%v = llvm.load %p atomic seq_cst {alignment = 16 : i64} : !llvm.ptr<1> -> i128", "unsupported atomic load", "1"),
]
GOOD = "llvm.store %x, %p : f32, !llvm.ptr<1>"


@pytest.fixture(params=FATAL, ids=["abort", "exit"])
def fatal(request, tmp_path):
    """(path of the module, message of LLVM, end of its process)"""
    body, words, end = request.param
    path = tmp_path / "bad.llvm.mlir"
    path.write_text(MODULE.format(body))
    return str(path), words, end


def good(tmp_path):
    path = tmp_path / "good.llvm.mlir"
    path.write_text(MODULE.format(GOOD))
    return str(path)


def test_the_command_says_where_and_exits_with_5(fatal, tmp_path, capsys):
    path, words, end = fatal
    output = tmp_path / "k.ptx"
    arguments = ["--gpu-name=sm_80", "--emit=ptx", "-o", str(output)]
    assert command.main([path, *arguments]) == 5
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"{path}:2:3: error: LLVM could not generate code for sm_80: ") and words in lines[0]
    assert lines[1].startswith("  llvm.func @k(") and lines[2] == "  ^"
    assert any(line.startswith("note: LLVM ended with ") and line.endswith(end) for line in lines)
    assert lines[-1] == "error: failed to compile Tile IR program" and not output.exists()
    assert "python" not in lines[0], "the message is the same whatever the interpreter is called"
    assert command.main([good(tmp_path), *arguments]) == 0 and ".entry k(" in output.read_text()


def test_the_library_raises_and_goes_on(fatal, tmp_path):
    path, words, _ = fatal
    for _ in range(2):
        with pytest.raises(CompileError) as error:
            api.compile(path, gpu_name="sm_90")
        assert error.value.code == 5 and words in error.value.diagnostics[0].message
        assert error.value.diagnostics[0].position.line == 2
        assert ".entry k(" in api.compile(KERNEL, gpu_name="sm_90").text


def test_llvm_text_points_at_its_kernel(tmp_path):
    path = tmp_path / "k.ll"
    path.write_text('; text\ndefine ptx_kernel void @k() {\n  fence syncscope("nowhere") seq_cst\n  ret void\n}\n')
    with pytest.raises(CompileError) as error:
        api.compile(path, gpu_name="sm_90")
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.position[1:3] == (2, 1) and "LLVM could not generate code" in diagnostic.message


def ptx_step(folder, name, body):
    """The step from LLVM IR of one kernel to its PTX."""
    text = api.compile(KERNEL, gpu_name="sm_90", emit="llvm").text if body is None else body
    (folder / f"{name}.ll").write_text(text)
    return Step(stage("ptx"), f"{name}.ll", f"out/{name}", [".ptx", ".json"], f"{name}.mlir", f"{name}.mlir",
                CompileOptions({"gpu-name": "sm_90"}), "k", [])  # fmt: skip


ABORTS = 'define ptx_kernel void @k() {\n  call void asm "nonsense $0", "Z"(i32 1)\n  ret void\n}\n'


def test_workers_survive_it(tmp_path):
    (tmp_path / "out").mkdir()
    pool = worker.pool(1)
    place = Place(OFF, READ_WRITE, SIZE_LIMIT, str(tmp_path / "out"))
    try:
        codes, workers = [], set()
        for name, body in (("bad", ABORTS), ("good", None), ("worse", ABORTS), ("better", None)):
            (report,) = pool.run(Request(place, str(tmp_path), ptx_step(tmp_path, name, body))).reports
            codes.append(report.code)
            workers |= {idle.pid for idle in pool._idle}
    finally:
        pool.close()
    assert codes == [5, 0, 5, 0] and len(workers) == 1, "the worker itself lives on"


def test_a_build_in_one_process_survives_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    session = Session(ArtifactStore(str(tmp_path / "store"), pytest.fail))
    (bad,) = perform_chain(session, ptx_step(tmp_path, "bad", ABORTS))
    (fine,) = perform_chain(session, ptx_step(tmp_path, "good", None))
    session.store.close()
    assert (bad.code, fine.code) == (5, 0)
