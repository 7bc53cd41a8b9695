"""Signatures that SCons stores of files in folders with many kernels: each kernel's apart, all others' as in SCons."""

import os
import pickle

import pytest
from project import SCONSTRUCT, Project, axpy, module

ARTIFACTS = "build/sm_90/O3/kernels"

MADE = """\
made = env.Command("kernels/made.mlir", "made.in", Copy("$TARGET", "$SOURCE"))
listed = env.Command("%s/list.txt", ["kernels/a.mlir", "kernels/notes.txt"], "cat $SOURCES > $TARGET")
Default(env.TileKernel(made, entries="made"), listed)
""" % ARTIFACTS  # fmt: skip


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    for name in ("a", "b"):
        result.write(f"kernels/{name}.mlir", module(axpy(name)))
    return result


def rows(project: Project) -> dict[str, bytes]:
    """SCons' database: pickled rows by folder."""
    return pickle.loads(project.read(".sconsign.dblite"))


def test_a_build_accesses_only_records_of_its_kernels(project):
    project.scons()
    known = rows(project)
    assert {f"{ARTIFACTS}/a.*", f"{ARTIFACTS}/b.*"} <= set(known)
    assert "kernels" not in known and ARTIFACTS not in known
    # The row of the clean kernel is not read; SCons warns of damaged rows that it reads.
    known[f"{ARTIFACTS}/b.*"] = b"damaged"
    with open(project.path(".sconsign.dblite"), "wb") as file:
        pickle.dump(known, file)
    project.write("kernels/a.mlir", module(axpy("a", operation="subf")))
    done = project.scons()
    assert done.stages == ["read", "tileaa", "tileas", "llvm", "ptx"] and "corrupt" not in done.errors
    after = rows(project)
    assert {name for name in known if known[name] != after[name]} == {f"{ARTIFACTS}/a.*", f"{ARTIFACTS}/a"}
    done = project.scons("tile_full=1")
    assert "corrupt" in done.errors and (done.ran, done.cached) == ([], ["read"])
    assert "corrupt" not in project.scons("tile_full=1").errors


def test_nothing_reruns_whether_or_not_all_are_declared(project):
    project.scons()
    assert "READ" not in project.scons("tile_full=1").output
    project.write("kernels/a.mlir", module(axpy("a", comment="  // edited\n")))
    assert project.scons("tile_full=1").stages == ["read"]
    done = project.scons("tile_full=1")
    assert (done.ran, done.cached) == ([], [])


def test_a_dependency_of_the_user_is_noted_of_an_artifact(project):
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write(f'env.Depends("{ARTIFACTS}/a.cuda_tile.mlir", "table.txt")\n')
    project.write("table.txt", "one")
    project.scons()
    done = project.scons("tile_full=1")
    assert (done.ran, done.cached) == ([], [])
    project.write("table.txt", "two")
    done = project.scons("tile_full=1")
    assert (done.ran, done.cached) == ([], ["read"])


def test_other_files_of_the_folders_are_rebuilt_on_changes(project):
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write(MADE)
    project.write("made.in", module(axpy("made")))
    project.write("kernels/notes.txt", "notes")
    first = project.scons().output
    assert "cat" in first and "Copy(" in first
    known = rows(project)
    # Generated files are in the folders' own rows: a kernel that a command writes, and a file among the artifacts.
    assert "made.mlir" in pickle.loads(known["kernels"]) and "a.mlir" not in pickle.loads(known["kernels"])
    assert set(pickle.loads(known[ARTIFACTS])) == {"list.txt"}
    second = project.scons()
    assert "cat" not in second.output and "Copy(" not in second.output and second.ran == []
    project.write("kernels/a.mlir", module(axpy("a", operation="subf")))
    third = project.scons()
    assert "cat" in third.output and "Copy(" not in third.output and len(third.ran) == 5
    assert b"subf" in project.read(f"{ARTIFACTS}/list.txt")
    project.write("made.in", module(axpy("made", operation="mulf")))
    fourth = project.scons()
    assert "cat" not in fourth.output and "Copy(" in fourth.output and len(fourth.ran) == 5
    fifth = project.scons()
    assert "cat" not in fifth.output and "Copy(" not in fifth.output and fifth.ran == []


def test_a_source_of_equal_size_and_time_is_compared(project):
    # SCons' own signature of a file that is older than two days is its digest, valid while the time is the same.
    source = project.path("kernels/a.mlir")
    os.utime(source, (10**9, 10**9))
    project.scons()
    project.scons("tile_full=1")
    text = project.read("kernels/a.mlir").decode()
    project.write("kernels/a.mlir", text.replace("addf", "subf"))
    os.utime(source, (10**9, 10**9))
    assert len(project.scons("tile_full=1").ran) == 5


def test_a_file_of_signatures_in_each_folder_has_all_of_them(project):
    project.write("SConstruct", SCONSTRUCT.replace("Default(", "env.SConsignFile(None)\nDefault("))
    project.scons()
    noted = set(pickle.loads(project.read(f"{ARTIFACTS}/.sconsign")))
    assert noted == {f"{name}.cuda_tile.{kind}" for name in ("a", "b") for kind in ("mlir", "loc")}
    project.write("kernels/a.mlir", module(axpy("a", comment="  // edited\n")))
    assert project.scons().stages == ["read"]
    done = project.scons("tile_full=1")
    assert (done.ran, done.cached) == ([], [])
