"""The table of passes agrees with their declarations and with the dialects."""

import pytest

from tileiras.dialects import nv_tileas
from tileiras.ir.registry import OPERATIONS, load_dialect, lookup_operation
from tileiras.passes import PASSES, lookup_pass


def test_each_row_is_a_declaration_of_its_module():
    for name, place in PASSES.items():
        declared = lookup_pass(name)
        assert (declared.name, declared.__module__) == (name, f"tileiras.{place.module}")


@pytest.mark.parametrize("name", sorted({name for place in PASSES.values() for name in place.triggers}))
def test_triggers_are_operations_or_attributes(name):
    if name.endswith("."):
        assert load_dialect(name.partition(".")[0])
        assert any(operation.startswith(name) for operation in OPERATIONS)
        return
    attributes = {value for value in vars(nv_tileas).values() if isinstance(value, str)}
    assert lookup_operation(name) is not None or name in attributes
