"""Instructions of atoms are named only by the atoms' tables, by layouts, and by the builders of their operations."""

from __future__ import annotations

import ast
from pathlib import Path

import tileiras
from tileiras.dialects import nvgpu
from tileiras.dialects.nv_tileas.thread import THREAD_ROWS
from tileiras.ir import registry
from tileiras.lowering.tileas_to_llvm.tensor_core.atoms import MOVEMENTS
from tileiras.targets import COPY_ATOMS, MMA_ATOMS, SCALED_MMA_ATOMS, find_copy_atom, target

PACKAGE = Path(tileiras.__file__).parent
ATOMS = PACKAGE / "lowering" / "tileas_to_llvm" / "tensor_core" / "atoms.py"
PLANS = [path for folder in ("lowering", "schedule", "analysis", "stages") for path in (PACKAGE / folder).rglob("*.py")]
# LLVM IR has these instructions too, under other names; the conversion from nvgpu writes them as inline assembly.
WRITERS = {"llvm_to_ir", "nvgpu_to_nvvm"}
PLANS = sorted(path for path in PLANS if path != ATOMS and WRITERS.isdisjoint(path.parts))

EVERY_ATOM = [*COPY_ATOMS.values(), *MMA_ATOMS.values(), *SCALED_MMA_ATOMS.values()]


def operations() -> set[str]:
    """The nvgpu operations that the tables name."""
    named = {atom.op for atom in EVERY_ATOM}
    named.update(name for atom in COPY_ATOMS.values() for name in (atom.commit, atom.wait))
    return {name for name in named if name.startswith("nvgpu.")}


def spellings() -> set[str]:
    """Words that only the tables should have: atoms, operations, their classes, instructions in PTX."""
    classes = {registry.lookup_operation(name).__name__ for name in operations()}
    ptx = {atom.instruction for atom in EVERY_ATOM if atom.op.startswith("nvgpu.")}
    return {atom.name for atom in EVERY_ATOM} | operations() | classes | ptx


def words(path: Path) -> set[str]:
    """Names and texts of a module, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            result.add(node.attr)
        elif isinstance(node, ast.Name):
            result.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explained:
            result.add(node.value)
    return result


def test_no_other_module_names_them():
    named = spellings()
    ptx = tuple(f"{name}." for name in named if not name.startswith("nvgpu"))
    result = [(path.name, w) for path in PLANS for w in sorted(words(path)) if w in named or w.startswith(ptx)]
    assert not result
    assert words(ATOMS) & named, "the search finds them where they are"


def test_every_operation_exists_and_has_a_maker():
    for name in operations():
        assert registry.lookup_operation(name).name == name
    dots = {f"nvgpu.{THREAD_ROWS[name].nvgpu}" for name in ("mma", "mma.scaled")}
    assert {atom.op for atom in (*MMA_ATOMS.values(), *SCALED_MMA_ATOMS.values())} == dots
    assert {atom.op for atom in COPY_ATOMS.values() if atom.op.startswith("nvgpu.")} == set(MOVEMENTS)
    assert {name.removeprefix("nvgpu.") for name in dots} <= set(nvgpu.ROWS)


def test_movements_are_found_by_their_effect():
    assert find_copy_atom(target("sm_80"), "global", "shared", asynchronous=True).name == "cp_async"
    assert find_copy_atom(target("sm_75"), "global", "shared", asynchronous=True) is None
    assert find_copy_atom(target("sm_75"), "shared", "register", matrices=True).name == "ldmatrix"
    assert find_copy_atom(target("sm_80"), "register", "shared", matrices=True) is None
    assert find_copy_atom(target("sm_90"), "register", "shared", matrices=True).name == "stmatrix"
    assert find_copy_atom(target("sm_90"), "register", "global", combines=True).name == "red_global"
