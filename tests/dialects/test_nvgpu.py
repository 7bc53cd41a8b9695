"""The table of nvgpu agrees with the operations of nvvm, and with those that threads have of nv_tileas."""

import inspect

import pytest

from tileiras.dialects import nvvm
from tileiras.dialects.nv_tileas.thread import THREAD, THREAD_ROWS
from tileiras.dialects.nvgpu import NVGPU, ROWS
from tileiras.dialects.nvgpu.rows import ASSEMBLY, EITHER, INTRINSIC
from tileiras.lowering import nvgpu_to_nvvm, tileas_to_nvgpu
from tileiras.targets.atoms.bulk_copies import BULK_COPY_ATOMS
from tileiras.targets.atoms.copies import COPY_ATOMS
from tileiras.targets.atoms.mma_sync import MMA_ATOMS, SCALED_MMA_ATOMS

KINDS = {INTRINSIC: {"Intrinsic"}, ASSEMBLY: {"Assembly"}, EITHER: {"Intrinsic", "Assembly"}}


def operands(cls):
    return [(field.name, field.arity) for field in cls.operand_fields]


@pytest.mark.parametrize("key", [key for key, row in ROWS.items() if row.nvvm])
def test_a_row_states_form_and_operands_of_its_instruction(key):
    lowered = getattr(nvvm, ROWS[key].nvvm)
    entry = inspect.get_annotations(lowered.target)["return"]
    assert set(entry.split(" | ")) <= KINDS[ROWS[key].by], entry
    assert operands(NVGPU[key]) == operands(lowered)


@pytest.mark.parametrize("key", THREAD_ROWS)
def test_thread_operations_have_their_instructions_operands(key):
    assert operands(THREAD[key]) == operands(NVGPU[THREAD_ROWS[key].nvgpu])


def test_rules_are_for_operations():
    assert set(nvgpu_to_nvvm.RULES) <= set(ROWS)
    assert set(tileas_to_nvgpu.RULES) <= set(THREAD_ROWS)
    # Without a counterpart, or with an instruction of an atom, a row needs a rule.
    needed = {key for key, row in ROWS.items() if not row.nvvm or row.replaces and row.lowered is None}
    assert needed <= set(nvgpu_to_nvvm.RULES)


@pytest.mark.parametrize("atom", [
    atom for table in (MMA_ATOMS, SCALED_MMA_ATOMS, BULK_COPY_ATOMS) for atom in table.values()
    if getattr(atom, "op", "")
], ids=lambda atom: atom.name)  # fmt: skip
def test_atoms_name_operations(atom):
    assert atom.op.removeprefix("nvgpu.") in ROWS


def test_copies_name_operations():
    names = {name for atom in COPY_ATOMS.values() for name in (atom.op, atom.commit, atom.wait)}
    named = {name for name in names if name.startswith("nvgpu.")}
    assert named
    assert {name.removeprefix("nvgpu.") for name in named} <= set(ROWS)
