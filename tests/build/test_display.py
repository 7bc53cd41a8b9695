"""Messages of a build: its last line, failures under -k, reasons under --debug=explain, progress on a terminal."""

import io

import pytest
from project import SCONSTRUCT, Project, axpy, module

from tileiras.build.scons.display import Display
from tileiras.build.step import Report, Step
from tileiras.options import CompileOptions
from tileiras.pipeline import stage


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    for name in ("a", "b"):
        result.write(f"kernels/{name}.mlir", module(axpy(name)))
    return result


def said(build) -> list[str]:
    return [line for line in build.output.splitlines() if line.startswith("tileiras: ")]


def test_the_last_line_counts_runs_hits_and_cut_offs(project):
    (line,) = said(project.scons())
    assert line.startswith("tileiras: 10 stages run in ")
    assert said(project.scons()) == []
    project.write("kernels/a.mlir", "// a comment\n" + module(axpy("a")))
    (line,) = said(project.scons())
    assert line.startswith("tileiras: 1 stage run in ") and line.endswith(", 4 cut off")
    project.delete_build()
    (line,) = said(project.scons())
    assert line.startswith("tileiras: 0 stages run in 0 ms, 10 from the store, which saved ")


def test_silence_is_kept(project):
    build = project.scons("-s")
    assert (build.output, build.errors) == ("", "") and project.artifacts()


def test_failed_kernels_are_named_together_at_the_end(project):
    for name in ("a", "b"):
        project.write(f"kernels/{name}.mlir", module(axpy(name)).replace("%lane = iota", "%lane = iotta"))
    build = project.scons("-k", expect=2)
    assert said(build) == ["tileiras: 0 stages run in 0 ms, 2 kernels failed"]
    last = build.errors.splitlines()[-3:]
    assert last[0] == "tileiras: 2 kernels failed:"
    assert [line.split(":")[0] for line in last[1:]] == ["  kernels/a.mlir", "  kernels/b.mlir"]
    assert all("error: " in line and line.endswith(" (sm_90)") for line in last[1:])


def test_mistakes_for_every_target_are_reported_once(project):
    project.write("kernels/a.mlir", module(axpy("a")).replace("%lane = iota", "%lane = iotta"))
    build = project.scons("-k", "sm=sm_90,sm_100", expect=2)
    assert build.errors.count("kernels/a.mlir:") == 1
    assert said(build)[0].endswith(", 1 kernel failed")
    project.write("kernels/b.mlir", module(axpy("b")).replace("%lane = iota", "%lane = iotta"))
    build = project.scons("-k", "sm=sm_90,sm_100", expect=2)
    assert [line.endswith(" (sm_100, sm_90)") for line in build.errors.splitlines()[-2:]] == [True, True]


def test_keep_going_finds_no_cycles_in_the_folder(project):
    project.write("SConstruct", SCONSTRUCT.replace("Default(env.TileTree(\"kernels\"))", "env.TileTree(\"kernels\")"))
    project.write("kernels/a.mlir", module(axpy("a")).replace("%lane = iota", "%lane = iotta"))
    build = project.scons("-k", expect=2)
    assert "cycle" not in build.errors and "build/sm_90/O3/kernels/b/b.ptx" in build.output


def test_a_cycle_is_reported_all_the_same(project):
    project.write("SConstruct", SCONSTRUCT + "env.Depends(Alias('a', Alias('b')), Alias('b', Alias('a')))\n")
    assert "dependency cycle" in project.scons("-k", "a", expect=2).errors


def test_explain_answers_in_options(project):
    project.scons()
    lines = project.scons("--debug=explain", "ptx-version=8.8").output.splitlines()
    at = lines.index("  PTX      build/sm_90/O3/kernels/a/a.ptx")
    assert lines[at + 1] == "           options: ptx-version: None -> '8.8'"


# ---- a terminal ------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_progress_line_below_messages(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("tileiras.build.scons.display.EVERY", 0)
    done: set[str] = set()
    out = Terminal()
    display = Display(done.__contains__, out, out)
    options = CompileOptions({"gpu-name": "sm_90"})
    steps = [Step(stage("read"), f"{n}", n, [".cuda_tile.mlir"], n, n, options) for n in ("a", "b")]
    for step in steps:
        display.add([step], {step.outputs[0]: step.stem}, [step.stem])
    display.begin()
    display.begin()
    done.add("a")
    display.finished(steps[0], Report("a", "read", "key", True, 0, "", 0.5), "  READ a (cached)")
    display.finished(steps[1], Report("b", "read", None, False, 3, "b:1:1: error: bad\n", 0), "  READ b")
    display.summary()
    display.summary()
    shown = out.getvalue().split("\r\x1b[K")
    assert shown[1:] == [
        "[0/2 kernels] 0 stages from the store, 1 running", "[0/2 kernels] 0 stages from the store, 2 running",
        "  READ a (cached)\n", "[1/2 kernels] 1 stages from the store, 1 running", "  READ b\n",
        "b:1:1: error: bad\n\n", "[1/2 kernels] 1 stages from the store, 0 running",
        "tileiras: 0 stages run in 0 ms, 1 from the store, which saved 500 ms, 1 kernel failed\n",
    ]  # fmt: skip
