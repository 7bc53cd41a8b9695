"""The example of a guide is a patch: it applies to this compiler, has the effect that the guide states, and its
size."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.filecheck import check
from tests.guide_patches import ROOT, Change, changes, patched

PASS = "tileas-drop-true-masks"
PROGRAM = f"""
import sys
from tileiras.build.store.fingerprint import CodeBase, stage_roots
from tileiras.cli import tileiras_opt
from tileiras.options import CompileOptions
from tileiras.pipeline import stage
from tileiras.stages.tileas import explained
row = stage("tileas")
assert "{PASS}" in dict(explained(row.select(CompileOptions({{"gpu-name": "sm_90"}}))))
assert "tileiras.registers.true_masks" in CodeBase().closure(stage_roots(row))[0]
sys.exit(tileiras_opt.main([sys.argv[1], "--{PASS}", "--verify-roundtrip"]))
"""

ATOM = """
import pathlib, sys
sys.path.insert(0, "tests/targets")
import test_atom_rows as rows
atom = rows.BULK_COPY_ATOMS["tma_load_im2col"]
rows.check_ordering(atom)
for target in ("sm_80", rows.asked_for(atom.requires)):
    print(rows.assemble(sys.argv[1], pathlib.Path(), target, [rows.copy_line(atom)]).returncode)
"""
OPERATION = """
import sys
from pathlib import Path
import numpy
from tileiras import api
from tileiras.ir import parse_module
from tileiras.sim.interpreter.functions import evaluate
assert evaluate("hypot", numpy.array([3.0, 1e300, 1.0]), numpy.array([4.0, 0.0, 0.0])).tolist() == [5.0, 1e300, 1.0]
parse_module(Path("tests/dialects/cuda_tile/math.mlir").read_text(), "math.mlir")
print(api.compile(sys.argv[1], gpu_name="sm_90", emit="llvm").text)
"""
AGENT = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.kernels.reasons import stated
from tests.kernels.tile_rounds import rounds
kernel = rounds((64, 64, 64), count=3, loaded=True)
artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps="host", pipeline_strategy="warp-specialize")
kernel.emulated(artifact, 0)
print(*stated(artifact.diagnostics), artifact.kernels[0].metadata["block"])
"""


def run(folder: Path, program: str, *arguments: str) -> str:
    """The output of a program with the patched compiler."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_hunk_has_one_place():
    change = Change("x", False, [" a\n+b\n c\n"])
    assert change.applied("a\nc\n") == "a\nb\nc\n" and change.added == 1
    for text in ("a\n", "a\nc\na\nc\n"):
        with pytest.raises(ValueError, match="places"):
            change.applied(text)


def test_adding_a_pass(tmp_path):
    folder = patched("adding-a-pass", tmp_path)
    (source,) = folder.glob("tests/passes/*.mlir")
    check(source.read_text(encoding="utf-8"), run(folder, PROGRAM, str(source)))


def test_adding_an_operation(tmp_path):
    folder = patched("adding-an-op", tmp_path)
    (source,) = folder.glob("tests/lowering/**/*.mlir")
    check(source.read_text(encoding="utf-8"), run(folder, OPERATION, str(source)))


def test_adding_an_agent(tmp_path):
    """Four warps load the tiles of C beside four that multiply, and one that loads those of A and B."""
    result = run(patched("adding-an-agent", tmp_path), AGENT)
    assert "agents.prefetched loads=1" in result and "[288, 1, 1]" in result


def test_adding_an_atom(tmp_path, ptxas):
    refused, accepted = run(patched("adding-an-atom", tmp_path), ATOM, ptxas).split()
    assert refused != "0" and accepted == "0"


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "docs/patches").glob("*.patch")))
def test_guides_state_the_size_of_their_patches(name):
    files = changes(name)
    text = Path(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    stated = re.search(rf"patches/{name}\.patch\)\s+\((\d+)\s+lines\s+in\s+(\d+)\s+files\)", text)
    assert stated is not None, "NAME.md says: [patch](patches/NAME.patch) (N lines in M files)"
    assert (int(stated[1]), int(stated[2])) == (sum(each.added for each in files), len(files))
    assert all(each.path in text or each.path.removeprefix("tileiras/") in text for each in files)
