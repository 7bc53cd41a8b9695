import os
import shutil
import subprocess
import sys

import pytest
from project import CHECKOUT, Project, axpy, module

from tileiras.build import discover
from tileiras.build.store.fingerprint import MODULE_FRAME, CodeBase, stage_roots
from tileiras.pipeline import STAGES, stage
from tileiras.stages.tileas import DECISIONS

# Modules of the build itself: they move bytes and do not determine them.
BUILD = (
    "tileiras.build", "tileiras.pipeline", "tileiras.options", "tileiras.support.files",
    "tileiras.support.command_cache",
)  # fmt: skip

PERFORM = """
import sys
from tileiras.build.run.execute import Session
from tileiras.build.step import Step
from tileiras.build.store.local import OFF, ArtifactStore
from tileiras.options import CompileOptions
from tileiras.pipeline import stage
row = stage(sys.argv[1])
options = CompileOptions({"gpu-name": "sm_90"})
session = Session(ArtifactStore(OFF, print))
for given in sys.argv[2:]:
    step = Step(row, given, "out/k", [row.suffix], given, given, options)
    outcome = session.perform(step)
    assert outcome.error is None, outcome.error
print("\\n".join(sorted(m for m in sys.modules if m.split(".")[0] == "tileiras")))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """All kernels that can be built without the cuTile front end."""
    project = Project(tmp_path_factory.mktemp("built"))
    project.write("kernels/k.mlir", module(axpy("first", operation="maxf")))
    for name in discover.kernel_files(os.path.join(CHECKOUT, "examples")):
        if not name.endswith(".py"):
            path = project.path(os.path.join("kernels", name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copy(os.path.join(CHECKOUT, "examples", name), path)
    project.scons()
    return project


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [row.name for row in STAGES if row.name not in ("export", "cubin", "sass")])
def test_every_module_that_a_stage_loads_is_in_its_fingerprint(built, name):
    row = stage(name)
    if name == "read":
        result = [f"kernels/{path}" for path in discover.kernel_files(built.path("kernels"))]
    else:
        suffix = STAGES[STAGES.index(row) - 1].suffix
        entries = [path for path in built.artifacts() if path.endswith(suffix) and path.count("/") >= 4]
        result = [f"build/{path}" for path in entries]
    assert len(result) > 5
    done = subprocess.run(
        [sys.executable, "-c", PERFORM, name, *result],
        cwd=built.folder,
        env={**os.environ, "PYTHONPATH": CHECKOUT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    covered = set(CodeBase().closure(stage_roots(row))[0])
    if not row.dialects:
        # Bytes in, bytes out: the IR is only parsed to locate the kernel in diagnostics.
        covered.update(CodeBase().closure(MODULE_FRAME)[0])
    loaded = [m for m in done.stdout.split("\n") if m.startswith("tileiras.") and not m.startswith(BUILD)]
    assert row.module_name in loaded
    assert [m for m in loaded if m not in covered] == []


def test_a_lowering_belongs_to_its_own_stage_only():
    code = CodeBase()
    for folder, owner in (
        ("cuda_tile_to_tileaa", "tileaa"),
        ("tileaa_to_tileas", "tileas"),
        ("tileas_to_llvm", "llvm"),
        ("llvm_to_ir", "llvm"),
    ):
        package = f"tileiras.lowering.{folder}"
        owners = [row.name for row in STAGES if package in code.closure(stage_roots(row))[0]]
        assert owners == [owner], package


def test_the_ir_is_no_part_of_a_stage_that_sees_no_module():
    closure = CodeBase().closure(stage_roots(stage("cubin")))[0]
    assert [name for name in closure if name.startswith(("tileiras.ir", "tileiras.dialects"))] == []


def small_package(folder) -> str:
    files = {
        "tileiras/__init__.py": "_LAZY = {'compile': 'tileiras.api'}\n",
        "tileiras/api.py": "import everything\n",
        "tileiras/ir/__init__.py": "_LAZY = {'parse': 'parser', 'show': 'printer'}\nfrom .core import Op\n",
        "tileiras/ir/core.py": "",
        "tileiras/ir/parser.py": "",
        "tileiras/ir/printer.py": "",
        "tileiras/stages/__init__.py": "",
        "tileiras/stages/ptx.py": (
            "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nimport numpy\n"
            "if TYPE_CHECKING:\n    import tileiras.typing_only\n"
            "from tileiras import passes as named\nimport tileiras\n"
            "def run():\n    from tileiras.ir import parse\n    from ..codegen import text\n"
            "    return named.cse.run(tileiras.layout.shared.TABLE.rows, tileiras.compile.__doc__)\n"
        ),
        "tileiras/passes/__init__.py": "",
        "tileiras/passes/cse.py": "",
        "tileiras/passes/dce.py": "",
        "tileiras/layout/__init__.py": "",
        "tileiras/layout/shared.py": "",
        "tileiras/layout/scan.py": "",
        "tileiras/typing_only.py": "",
        "tileiras/codegen/__init__.py": "",
        "tileiras/codegen/text.py": "",
    }
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    return str(folder)


def test_imports_in_functions_and_lazy_packages_are_followed(tmp_path):
    inside, outside = CodeBase(small_package(tmp_path)).closure(["tileiras.stages.ptx"])
    assert inside == [
        "tileiras", "tileiras.codegen", "tileiras.codegen.text", "tileiras.ir", "tileiras.ir.core",
        "tileiras.ir.parser", "tileiras.layout", "tileiras.layout.shared", "tileiras.passes", "tileiras.passes.cse",
        "tileiras.stages", "tileiras.stages.ptx",
    ]  # fmt: skip
    assert "numpy" in outside


def test_the_memo_of_imports_changes_nothing_but_the_time(tmp_path):
    root = small_package(tmp_path / "package")
    memo = str(tmp_path / "imports.json")
    first = CodeBase(root, memo).fingerprint(stage("ptx"))
    assert os.path.isfile(memo)
    assert CodeBase(root, memo).fingerprint(stage("ptx")) == first
    # A damaged memo is rebuilt.
    with open(memo, "w") as file:
        file.write("{")
    assert CodeBase(root, memo).fingerprint(stage("ptx")) == first
    # The same content elsewhere is the same code, an edit is not.
    moved = str(tmp_path / "moved")
    shutil.copytree(root, moved)
    assert CodeBase(moved, memo).fingerprint(stage("ptx")) == first
    with open(os.path.join(moved, "tileiras", "codegen", "text.py"), "a") as file:
        file.write("# edited\n")
    assert CodeBase(moved, memo).fingerprint(stage("ptx")) != first


def test_known_fingerprints_hold_until_a_source_file_changes(tmp_path, monkeypatch):
    root = small_package(tmp_path / "package")
    known = str(tmp_path / "code.log")
    for folder, _, files in os.walk(root):
        for name in files:
            os.utime(os.path.join(folder, name), ns=(10**18, 10**18))
    first = CodeBase(root, log_path=known).fingerprint(stage("ptx"))

    def fingerprint(read: bool) -> str:
        code = CodeBase(root, log_path=known)
        with monkeypatch.context() as patched:
            if not read:
                patched.setattr(CodeBase, "closure", lambda *_: pytest.fail("the sources were read"))
            return code.fingerprint(stage("ptx"))

    assert fingerprint(read=False) == first
    text = os.path.join(root, "tileiras", "codegen", "text.py")
    with open(text, "a") as file:
        file.write("# edited\n")
    edited = fingerprint(read=True)
    assert edited != first
    # A file this recent may change again without a new time: it is read again.
    assert fingerprint(read=True) == edited
    os.utime(text, ns=(10**18, 10**18))
    assert fingerprint(read=True) == edited
    assert fingerprint(read=False) == edited
    # A new file can take the place of a module that was imported from elsewhere.
    with open(os.path.join(root, "tileiras", "codegen", "new.py"), "w") as file:
        file.write("")
    assert fingerprint(read=True) == edited
    with open(known, "w") as file:
        file.write("[")
    assert fingerprint(read=True) == edited


def test_versions_of_packages_are_those_of_their_metadata():
    from importlib import metadata

    from tileiras.build.store import fingerprint

    for package in fingerprint.EXTERNAL:
        assert fingerprint._version(package) == metadata.version(package)
    assert fingerprint._version("no-such-package") == "absent"


def test_packages_loaded_by_parts_are_whole_in_a_fingerprint(tmp_path):
    root = small_package(tmp_path)
    for name, text in {
        "codegen/text.py": "from tileiras import ir\nfrom . import rules\n",
        "codegen/rules/__init__.py": "FAMILIES: dict = {'dot': {'x.dot'}, 'scan': {'x.scan'}}\n",
        "codegen/rules/dot.py": "",
        "codegen/rules/scan.py": "",
    }.items():
        path = os.path.join(root, "tileiras", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    inside, _ = CodeBase(root).closure(["tileiras.codegen.text"])
    assert {"tileiras.codegen.rules.dot", "tileiras.codegen.rules.scan"} <= set(inside)
    assert {"tileiras.ir.parser", "tileiras.ir.printer"} <= set(inside)


def test_every_decision_is_in_the_fingerprint_of_its_stage():
    inside, _ = CodeBase().closure(stage_roots(stage("tileas")))
    passes = {row.pass_class.__module__ for row in DECISIONS}
    assert len(passes) > 30 and passes <= {*inside}
    assert {"tileiras.passes.tileaa_agent_verifier", "tileiras.schedule.agents.load_agent"} <= {*inside}


def test_canonical_forms_enter_the_fingerprint_of_their_stage():
    code, forms = CodeBase(), "tileiras.dialects.scf.canonicalization"
    assert [row.name for row in STAGES if forms in code.closure(stage_roots(row))[0]] == ["tileaa"]
