"""Points inside of SCons on which the tool relies: all in one file, each with a test that notices a change."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tileiras.build.scons import patches

PACKAGE = Path(patches.__file__).parents[2]
TESTS = Path(__file__).parent


def found(point: str) -> object:
    """The object of a dotted name."""
    words = point.split(".")
    for length in range(len(words), 0, -1):
        try:
            value = importlib.import_module(".".join(words[:length]))
        except ImportError:
            continue
        for word in words[length:]:
            value = getattr(value, word)
        return value
    raise AttributeError(point)


@pytest.mark.parametrize("point", [point for patch in patches.PATCHES for point in patch.points])
def test_every_point_exists_in_this_release(point):
    found(point)


@pytest.mark.parametrize("patch", patches.PATCHES, ids=lambda patch: patch.points[0])
def test_every_patch_has_a_reason_and_a_test(patch):
    file, _, name = patch.test.partition("::")
    functions = [node.name for node in ast.parse((TESTS / file).read_text()).body if isinstance(node, ast.FunctionDef)]
    assert name in functions and len(patch.reason) > 40


def test_a_point_that_is_gone_is_noticed():
    with pytest.raises(AttributeError):
        found("SCons.Taskmaster.NoSuchName")


INSIDE = re.compile(r"SCons\.[\w.]*\._\w|SCons\.(Taskmaster|SConsign)|\._(lookupDict|sconsign|CacheDir_path)|__code__")


def test_no_other_file_looks_inside_of_scons():
    files = list((PACKAGE / "build").rglob("*.py"))
    assert [path.name for path in files if INSIDE.search(path.read_text(encoding="utf-8"))] == ["patches.py"]


def test_no_other_folder_imports_scons():
    importing = {
        path.relative_to(PACKAGE).parent.as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "SCons" for alias in node.names)
        or isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "SCons"
    }  # fmt: skip
    assert importing == {"build/scons"}
