import os

import pytest

from tileiras.build import discover
from tileiras.stages import export as export_stage
from tileiras.stages.units import PYTHON, TEXT, Source, file_stem


def names(text: str, kind: str = TEXT) -> list[str]:
    return discover.entry_names(Source(text.encode(), "k", None, kind))


def test_entries_are_found_in_order_in_any_spelling():
    text = """
    // entry @commented() { }
    cuda_tile.module @m {
      global @entry <f32: 0.0> : tile<1xf32>
      entry @first(%a: tile<ptr<f32>>) { print "entry @printed" return }
      cuda_tile.entry @"second one"() { return }
      entry
        @third.3$() { return }
    }
    """
    assert names(text) == ["first", "second one", "third.3$"]


def test_a_broken_text_still_shows_its_entries():
    assert names("cuda_tile.module @m { entry @k(%a: tile<pt") == ["k"]


def test_exports_of_a_python_file_are_found_without_running_it():
    text = "raise SystemExit\nTILEIRAS_EXPORT = {'vadd_1024': (vadd, 1024), 'vadd_64': (vadd, 64)}\n"
    assert names(text, PYTHON) == ["vadd_1024", "vadd_64"]
    assert discover.exported_names(b"def (") == []
    assert discover.exported_names(b"TILEIRAS_EXPORT = {n: k for n in names}") is None


def test_the_export_table_has_one_name():
    assert discover.EXPORT_NAME == export_stage.EXPORT_NAME


def test_kernel_files_are_those_that_name_kernels(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").mkdir()
    for path, text in {
        "z.mlir": "", "b/k.py": "x = 1\nTILEIRAS_EXPORT = {}\n", "b/reference.py": "import numpy\n", "a.tileirbc": "",
        ".hidden/k.mlir": "", "README.md": "", ".#z.mlir": "",
    }.items():  # fmt: skip
        (tmp_path / path).write_text(text)
    os.symlink("nowhere", tmp_path / "link.mlir")
    (tmp_path / "folder.mlir").mkdir()
    assert discover.kernel_files(str(tmp_path)) == ["a.tileirbc", "z.mlir", "b/k.py"]


def test_outputs_of_a_build_are_no_sources(tmp_path):
    for path in ("k.mlir", "out/sm_90/O3/k.cuda_tile.mlir", "out/.tileiras/steps/x", "other/k.mlir"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    assert discover.kernel_files(str(tmp_path)) == ["k.mlir", "other/k.mlir"]


def test_a_python_file_may_name_its_oldest_target(tmp_path):
    (tmp_path / "k.py").write_text('TILEIRAS_REQUIRES = "sm_100"\nTILEIRAS_EXPORT = {}\n')
    (tmp_path / "any.py").write_text("# TILEIRAS_REQUIRES = 'sm_90'\nTILEIRAS_EXPORT = {}\n")
    assert discover.required_target(str(tmp_path / "k.py")) == 100
    assert discover.required_target(str(tmp_path / "any.py")) is None


def test_imports_beside_a_file_are_followed(tmp_path):
    (tmp_path / "k.py").write_text("import os\nfrom helper import f\nfrom package.deep import g\n")
    (tmp_path / "helper.py").write_text("import second\n")
    (tmp_path / "second.py").write_text("import k\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "deep.py").write_text("")
    imported_files = discover.imported_files(str(tmp_path / "k.py"))
    assert [path[len(str(tmp_path)) + 1 :] for path in imported_files] == [
        "helper.py", "package/__init__.py", "package/deep.py", "second.py",
    ]  # fmt: skip


def test_sources_of_one_name_have_artifacts_of_their_own(tmp_path):
    for name in ("vadd.py", "vadd.tileirbc", "saxpy.tileirbc"):
        (tmp_path / name).write_text("")
    assert discover.artifact_stem(str(tmp_path / "vadd.py")) == "vadd"
    assert discover.artifact_stem(str(tmp_path / "vadd.tileirbc")) == "vadd-tileirbc"
    assert discover.artifact_stem(str(tmp_path / "saxpy.tileirbc")) == "saxpy"


@pytest.mark.parametrize("name", ["vadd", "matmul_f16.128x128", "a$b"])
def test_an_ordinary_entry_names_its_files(name):
    assert file_stem(name) == name


def test_entries_that_cannot_name_files_get_names_of_their_own():
    odd = ["a/b", "a:b", "-k", ".k", "x" * 300, "x" * 299 + "y"]
    stems = [file_stem(name) for name in odd]
    assert len(set(stems)) == len(odd)
    for stem in stems:
        assert len(stem) < 130 and "/" not in stem and stem[0] not in ".-"


def test_relative_imports_start_at_the_importing_file(tmp_path):
    texts = {
        "k.py": "from package.deep.kernel import weight\n",
        "package/__init__.py": "",
        "package/deep/__init__.py": "",
        "package/deep/kernel.py": "from . import beside\nfrom ..above import x\nfrom ....outside import y\n",
        "package/deep/beside.py": "",
        "package/above.py": "from .deep.more import z\n",
        "package/deep/more.py": "",
        "beside.py": "",
        "above.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    imported_files = discover.imported_files(str(tmp_path / "k.py"))
    assert [path[len(str(tmp_path)) + 1 :] for path in imported_files] == sorted(name for name in texts if "/" in name)
