"""Which operations the interpreter gives a meaning."""

from tileiras.ir.registry import OPERATIONS, load_dialect
from tileiras.sim.interpreter import MEANINGS

# Containers, which the interpreter walks instead of executing.
STRUCTURE = {"cuda_tile.module", "cuda_tile.entry", "cuda_tile.global"}



def test_every_operation_has_a_meaning():
    assert load_dialect("cuda_tile")
    declared = {name for name in OPERATIONS if name.startswith("cuda_tile.")}
    assert declared - set(MEANINGS) == STRUCTURE


def test_every_meaning_is_of_a_declared_operation():
    assert load_dialect("cuda_tile")
    assert set(MEANINGS) <= set(OPERATIONS)
