"""Which stages run after which edit; every build is a scons process of its own, as a user's would be."""

import os

import pytest
from project import Project, axpy, module

WHOLE = ["read", "tileaa", "tileas", "llvm", "ptx"]


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first")))
    return result


def edit(project: Project, name: str, old: str, new: str) -> None:
    text = project.read(name).decode()
    assert old in text
    project.write(name, text.replace(old, new, 1))


def test_null_build_runs_nothing(project):
    assert project.scons().stages == WHOLE
    again = project.scons()
    assert (again.stages, again.cached) == ([], [])


def test_comments_and_moved_lines_stop_at_read(project):
    project.scons()
    before = project.artifacts()
    edit(project, "kernels/k.mlir", "    %lane", "\n\n    // the lanes\n    %lane")
    assert project.scons().stages == ["read"]
    after = project.artifacts()
    changed = [name for name in after if after[name] != before[name]]
    assert changed == [
        "sm_90/O3/kernels/k.cuda_tile.loc",
        "sm_90/O3/kernels/k/first.cuda_tile.loc",
    ]
    assert project.scons().stages == []


def test_a_later_error_points_at_the_line_as_it_is_now(project):
    # libdevice is missed by the last stage only, long after the text was read.
    edit(project, "kernels/k.mlir", "addf %v, %v rounding<nearest_even>", "sin %v")
    missing = {"libdevice": "nowhere.bc"}
    first = project.scons(*[f"{k}={v}" for k, v in missing.items()], expect=2)
    line = entry_line(project)
    assert first.stages == WHOLE and f"kernels/k.mlir:{line}:3: error: could not find libdevice" in first.errors
    edit(project, "kernels/k.mlir", "  entry @first", "\n\n\n  // moved\n  entry @first")
    second = project.scons(*[f"{k}={v}" for k, v in missing.items()], expect=2)
    assert second.stages == ["read", "ptx"]
    assert entry_line(project) == line + 4
    assert f"kernels/k.mlir:{line + 4}:3: error: could not find libdevice" in second.errors


def entry_line(project: Project) -> int:
    lines = project.read("kernels/k.mlir").decode().split("\n")
    return 1 + next(n for n, text in enumerate(lines) if "entry @" in text)


def test_an_option_that_only_ptx_reads_runs_only_ptx(project):
    project.scons()
    assert project.scons("ptx-version=8.8").stages == ["ptx"]
    assert b".version 8.8" in project.read("build/sm_90/O3/kernels/k/first.ptx")


def test_going_back_to_another_target_compiles_nothing(project):
    project.scons("sm=sm_90")
    first = project.artifacts()
    assert project.scons("sm=sm_80").stages == ["tileaa", "tileas", "llvm", "ptx"]
    project.delete_build()
    back = project.scons("sm=sm_90")
    assert (back.stages, back.cached) == ([], WHOLE)
    assert project.artifacts() == first


def test_several_targets_share_independent_artifacts(project):
    build = project.scons("sm=sm_80,sm_90")
    assert sorted(build.stages) == sorted(WHOLE + WHOLE[1:])
    assert build.cached == ["read"]


def test_a_second_entry_compiles_only_that_entry(project):
    project.scons()
    project.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
    assert project.scons().ran == [
        "read k.cuda_tile.mlir", "tileaa second.tileaa.mlir", "tileas second.tileas.mlir", "llvm second.ll",
        "ptx second.ptx",
    ]  # fmt: skip


def test_an_edit_in_one_of_two_entries_compiles_only_that_entry(project):
    project.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
    project.scons()
    project.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="subf")))
    ran = project.scons().ran
    assert ran[0] == "read k.cuda_tile.mlir"
    assert [line for line in ran[1:] if " second." not in line] == []
    assert len(ran) == 5


def test_an_edit_of_a_lowering_reruns_only_its_stage(project):
    compiler = project.copy_compiler()
    project.scons()
    folder = os.path.join(compiler, "tileiras", "lowering", "tileas_to_llvm")
    path = os.path.join(folder, sorted(name for name in os.listdir(folder) if name.endswith(".py"))[-1])
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n# A remark at the end of the file.\n")
    assert project.scons().stages == ["llvm"]


def test_an_edit_of_the_compiler_reruns_stages_after_the_change(project):
    compiler = project.copy_compiler()
    project.scons()
    path = os.path.join(compiler, "tileiras", "stages", "llvm.py")
    with open(path, "a", encoding="utf-8") as file:
        file.write(
            "\n\n_run = run\n\n\ndef run(source, options, context):\n"
            "    result = _run(source, options, context)\n"
            "    result.output = b'; another header\\n' + result.output\n"
            "    return result\n"
        )
    assert project.scons().stages == ["llvm", "ptx"]


def test_artifacts_do_not_depend_on_place_or_hash_seed(tmp_path):
    items = []
    for folder, seed in (("one", "1"), ("two/deeper é", "77")):
        project = Project(tmp_path / folder)
        project.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
        project.scons(PYTHONHASHSEED=seed)
        items.append(project.artifacts())
    assert items[0] == items[1]
    for name, data in items[0].items():
        assert str(tmp_path).encode() not in data, name


def test_a_store_is_shared_between_checkouts(tmp_path):
    store = str(tmp_path / "store")
    for folder, expected in (("one", WHOLE), ("two", [])):
        project = Project(tmp_path / folder, store=store)
        project.write("kernels/k.mlir", module(axpy("first")))
        assert project.scons().stages == expected


def test_builds_at_the_same_time_share_a_store(tmp_path):
    import concurrent.futures

    def build(number: int) -> dict[str, bytes]:
        project = Project(tmp_path / f"checkout {number}", store=str(tmp_path / "store"))
        for name in ("a", "b", "c"):
            project.write(f"kernels/{name}.mlir", module(axpy(name), axpy(name + "_2", operation="mulf")))
        done = project.scons()
        assert done.errors == ""
        return project.artifacts()

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        result = list(pool.map(build, range(3)))
    assert result[0] == result[1] == result[2] != {}


def test_without_a_store_everything_still_builds_once(project):
    project.store = "off"
    assert project.scons().stages == WHOLE
    assert project.scons().stages == []
    project.delete_build()
    assert project.scons().stages == WHOLE


def test_a_deleted_artifact_is_made_again(project):
    project.scons()
    before = project.artifacts()
    os.unlink(project.path("build/sm_90/O3/kernels/k/first.tileas.loc"))
    build = project.scons()
    assert (build.stages, build.cached) == ([], ["tileas"])
    assert project.artifacts() == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arguments, last", [(["opt=0"], "read"), (["opt=1"], "tileaa"), (["opt=2"], "llvm"),
                                             (["opt=0", "emit=ptx"], "ptx")])  # fmt: skip
def test_opt_names_the_product_and_emit_overrides_it(project, arguments, last):
    assert project.scons(*arguments).stages == WHOLE[: WHOLE.index(last) + 1]


def test_a_library_of_device_code_is_an_input(project):
    call = axpy("first").replace("return", "preview$call @noted() : () -> ()\n    return", 1)
    function = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .func noted()\n{\n\tret;\n}\n"
    project.write("kernels/k.mlir", module(call))
    project.write("library.ptx", function)
    library = f"device-libraries={project.path('library.ptx')}"
    assert project.scons(library).stages == WHOLE
    assert project.scons(library).stages == []
    project.write("library.ptx", function.replace("\tret", "\texit"))
    assert project.scons(library).stages == ["tileaa", "ptx"]
    assert b"exit;" in project.read("build/sm_90/O3/kernels/k/first.ptx")
    project.write("library.ptx", function.replace("noted", "absent"))
    errors = project.scons(library, expect=2).errors
    assert "kernels/k.mlir" in errors and "calls '@noted', which no library defines" in errors
