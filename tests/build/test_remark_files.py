"""Remarks as artifacts: NAME.STAGE.remarks.json; builds print them again without running a stage."""

import json
import os

import pytest
from project import CHECKOUT, Project, axpy, module

from tileiras.build.ledger.history import History
from tileiras.build.run.execute import Session
from tileiras.build.store.local import OFF, ArtifactStore
from tileiras.build.watch.loop import Single, Watch
from tileiras.diagnostics import Diagnostic
from tileiras.diagnostics.remarks import FORMAT, Remark, read_remarks, remarks_json
from tileiras.ir import FileLineColLoc
from tileiras.ir.location import BytecodeLoc
from tileiras.options import CompileOptions
from tileiras.reasons import Reason

ASKED = ("emit=ptx", "emit-remarks=1")
FILES = ("tileas.remarks.json", "llvm.remarks.json")


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
    result.write("kernels/other.mlir", module(axpy("third", width=512)))
    return result


def remarks_in(project: Project) -> list[str]:
    return [name for name in project.artifacts() if name.endswith(".remarks.json")]


def place(entry: str, suffix: str, file: str = "k") -> str:
    return f"build/sm_90/O3/kernels/{file}/{entry}.{suffix}"


@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_an_up_to_date_build_repeats_remarks_in_order(project, jobs):
    ran = project.scons(*ASKED, jobs)
    assert "Load instruction selected" in ran.errors and len(ran.stages) == 14
    heads = [line for line in ran.errors.splitlines() if line.startswith("remarks on ")]
    assert heads == ["remarks on kernels/k.mlir (sm_90, O3):", "remarks on kernels/other.mlir (sm_90, O3):"]
    for arguments in (ASKED, ("tile_full=1", *ASKED)):
        again = project.scons(*arguments, jobs)
        assert (again.stages, again.cached, again.errors) == ([], [], ran.errors)
    artifacts = project.artifacts()
    project.delete_build()
    served = project.scons(*ASKED, jobs)
    assert (served.stages, served.errors) == ([], ran.errors)
    assert project.artifacts() == artifacts


def test_only_requested_remarks_are_reported(project):
    project.scons(*ASKED)
    errors = project.scons(*ASKED, place("third", "ptx", "other")).errors
    assert "remarks on kernels/other.mlir" in errors and "kernels/k.mlir" not in errors
    assert project.scons("-n", *ASKED).errors == project.scons("emit=ptx").errors == ""


def test_a_file_holds_the_librarys_remarks_on_the_stage(project, monkeypatch):
    from tileiras import api

    project.scons(*ASKED)
    monkeypatch.chdir(project.folder)
    result = api.compile("kernels/k.mlir", gpu_name="sm_90", entry="second", emit_remarks=True)
    value = [json.loads(json.dumps(remark.fields())) for remark in result.diagnostics]
    rows = []
    for name in FILES:
        document = json.loads(project.read(place("second", name)))
        assert document["format"] == FORMAT
        rows += document["remarks"]
    assert rows == value and {row["function"] for row in rows} == {"second"}


def test_remarks_follow_lines_that_move(project):
    project.scons(*ASKED)
    text = project.read("kernels/k.mlir").decode()
    before = json.loads(project.read(place("first", FILES[0])))["remarks"]
    project.write("kernels/k.mlir", "// a comment\n" + text)
    moved = project.scons(*ASKED)
    after = json.loads(project.read(place("first", FILES[0])))["remarks"]
    assert [row["line"] - 1 for row in after] == [row["line"] for row in before]
    assert f"kernels/k.mlir:{after[0]['line']}:" in moved.errors
    # Stages whose inputs do not change with the positions do not run again.
    assert set(moved.stages) == {"read", "tileas", "llvm"}


def test_a_build_that_does_not_ask_leaves_none_behind(project):
    project.scons(*ASKED)
    assert len(remarks_in(project)) == 6
    project.scons("emit=ptx", "-n")
    assert len(remarks_in(project)) == 6
    project.scons("emit=ptx")
    assert remarks_in(project) == []
    project.scons(*ASKED)
    project.scons("-c", "emit=ptx")
    assert project.artifacts() == {}


def test_a_stage_that_is_called_alone_writes_its_own(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, TILE_OPTIONS={"emit-remarks": True})
aa = env.TileAA("out/one", env.TileRead("out/one", "kernels/one.mlir")[0])
env.TileAS("out/one", aa[0])
""")  # fmt: skip
    project.write("kernels/one.mlir", module(axpy("one")))
    project.scons("out/one.tileas.mlir")
    assert read_remarks(project.artifacts("out")["one.tileas.remarks.json"])


def test_a_watch_reports_its_builds(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    for item in (True, False):
        options = CompileOptions({"gpu-name": "sm_90", "emit-remarks": item})
        kernel = Single(project.path("kernels/k.mlir"), "kernels/k.mlir", options, "tileas", "build")
        items: list[str] = []
        session = Session(ArtifactStore(OFF, pytest.fail), history=History("build"))
        watching = Watch([kernel], session, out=lambda line: None, error=items.append)
        assert watching.build(watching.scan()[0])
        assert [text.splitlines()[0] for text in items] == ["remarks on kernels/k.mlir (sm_90, O3):"] * item
        assert len(remarks_in(project)) == 2 * item


def test_written_tiles_are_read_back():
    where = FileLineColLoc("k.py", 4, 8)
    loaded, cause = Reason("access.load", bytes=4), Reason("kernel.most-registers", most=255)
    items = [
        Remark(loaded, where, arguments={"Width": 4}, function="k", notes=[Diagnostic.note(where, "here")]),
        Remark(Reason("kernel.spills", stored=4, loaded=8, cause=cause), None, function="k"),
        Remark(loaded, BytecodeLoc("k.tileirbc", "Func", 17), function="k"),
    ]
    remarks = read_remarks(remarks_json(items))
    assert [(str(d), d.fields()) for d in remarks] == [(str(d), d.fields()) for d in items]


ROW = {"code": "maps.unused", "code_arguments": {}, "arguments": {}, "function": "k"}


def rows(*changed: object) -> bytes:
    return json.dumps({"format": FORMAT, "remarks": changed}).encode()


@pytest.mark.parametrize("text", [
    b"", b"[]", b'{"format": 1, "remarks": []}', rows({}), rows(3), b"\xff", rows(ROW | {"code": "maps.no-such"}),
    rows(ROW | {"code_arguments": {"dim": 1}}), rows(ROW | {"code": "maps.hint"}), rows(ROW | {"causes": [{}]}),
])  # fmt: skip
def test_a_missing_file_is_reported(text):
    with pytest.raises(ValueError):
        read_remarks(text)


def test_a_damaged_file_is_made_again(project):
    errors = project.scons(*ASKED).errors
    path = project.path(place("first", FILES[0]))
    artifacts = project.artifacts()
    with open(path, "wb") as file:
        file.write(b"x" * os.path.getsize(path))
    again = project.scons(*ASKED)
    assert "first.tileas.remarks.json differs from its stage's output: rebuilding it" in again.output
    assert again.errors == errors
    assert project.artifacts() == artifacts


def test_schedules_and_reasons_are_reported_on_request_only(project):
    with open(os.path.join(CHECKOUT, "examples", "matmul_f32.mlir"), encoding="utf-8") as file:
        project.write("kernels/k.mlir", file.read())
    silent = project.scons("emit=ptx")
    assert "remark" not in silent.output + silent.errors
    result = project.scons(*ASKED)
    assert result.errors.count("agents.loads-stay variant=auto; ") == 1
    (path,) = (name for name in remarks_in(project) if "/k/" in name and name.endswith(FILES[0]))
    names = {remark.name for remark in read_remarks(project.artifacts()[path])}
    assert "RemarkKernelSchedule" in names
