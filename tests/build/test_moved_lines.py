"""With line information a moved line reruns the stages whose output has locations; without it, no stage."""

from pathlib import Path

import pytest
from project import CHECKOUT, Project, axpy, module

import tileiras

ARGUMENTS = ("lineinfo=1", "emit=ptx")


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first"), axpy("second")))
    return result


def move(project: Project, before: str) -> None:
    text = project.read("kernels/k.mlir").decode()
    assert before in text
    project.write("kernels/k.mlir", text.replace(before, "\n// moved\n" + before, 1))


def test_moved_lines_run_the_stages_that_carry_locations(project):
    project.scons(*ARGUMENTS)
    ptx = project.read("build/sm_90/O3/kernels/k/second.ptx")
    assert b'"kernels/k.mlir"' in ptx
    move(project, "  entry @second")
    build = project.scons(*ARGUMENTS)
    # The other kernel's lines have not moved; the layouts of this one come from the store: their text has no locations.
    assert sorted(build.stages) == ["llvm", "ptx", "read", "tileaa"]
    assert project.read("build/sm_90/O3/kernels/k/second.ptx") != ptx
    assert project.scons(*ARGUMENTS).stages == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("arguments", "options"),
    [(("lineinfo=1",), {"lineinfo": True}), (("device-debug=1", "opt=0"), {"device_debug": True, "opt_level": 0})],
)
def test_live_modules_and_artifacts_lead_to_the_same_lines(project, arguments, options):
    bytecode = Path(CHECKOUT, "examples/bytecode/softmax.tileirbc").read_bytes()
    Path(project.path("kernels/s.tileirbc")).write_bytes(bytecode)
    project.scons("emit=ptx", *arguments)
    folder = f"build/sm_90/O{options.get('opt_level', 3)}/kernels"
    text = project.read("kernels/k.mlir").decode()
    for source, name, stem in ((text, "first", "k"), (text, "second", "k"), (bytecode, "softmax", "s")):
        result = tileiras.compile(
            source, gpu_name="sm_90", emit="ptx", entry=name, source_name=f"kernels/{stem}.mlir", **options
        )
        assert b".loc" in result.data
        assert result.data == project.read(f"{folder}/{stem}/{name}.ptx")
