"""Constraints of a text on the stages of a loop's operations, under the documented names of the attributes."""

import pytest

from tests.kernels.dots import attention_like
from tests.tileas_stage import through
from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import IntegerAttr, StringAttr, UnitAttr, i32, i64, parse_module, print_op
from tileiras.schedule.constraints import GROUP, LEADER, MOST_DEPTH, SERIAL

BEFORE, ROW = "tileas-mark-short-loops", "tileas-generate-schedule"


@pytest.fixture(scope="module")
def text():
    """Attention whose two products have different stages without constraints."""
    return print_op(attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name="sm_80").after(BEFORE, "sm_80"))


def stages(text, ask):
    """The stages of the products, or None where iterations do not overlap; `ask(loop, products)` sets attributes."""
    module = parse_module(text, "a.mlir")
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    products = [op for op in loop.body.block.operations if op.name == "nv_tileas.dot"]
    ask(loop, products)
    # Constraints survive printing and parsing.
    module = parse_module(print_op(module), "a.mlir")
    through(module, ROW, "sm_80", from_=ROW, v2_opt_level=2)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    result = [op.attributes[tileas.AWS_STAGE].value for op in loop.body.block.operations if op.name == "nv_tileas.dot"]
    return (
        result if any(op.attributes[tileas.AWS_STAGE].value for op in list(loop.body.block.operations)[:-1]) else None
    )


def number(value):
    return IntegerAttr(value, i32)


def test_nothing_asked(text):
    assert stages(text, lambda loop, products: None) == [0, 1]


def test_serial_execution(text):
    assert stages(text, lambda loop, products: loop.attributes.update({SERIAL: UnitAttr()})) is None
    assert stages(text, lambda loop, products: products[0].attributes.update({SERIAL: UnitAttr()})) is None


def test_the_latest_stage(text):
    result = stages(text, lambda loop, products: products[1].attributes.update({MOST_DEPTH: number(0)}))
    assert result is None or result == [0, 0]


def test_groups(text):
    def one_group(loop, products):
        for product in products:
            product.attributes[GROUP] = number(3)

    def one_leader(loop, products):
        for gid, product in enumerate(products, 1):
            product.attributes.update({GROUP: number(gid), LEADER: number(7)})

    def apart(loop, products):
        for gid, product in enumerate(products, 1):
            product.attributes.update({GROUP: number(gid), LEADER: number(gid)})

    for ask in (one_group, one_leader):
        result = stages(text, ask)
        assert result is None or result[0] == result[1]
    assert stages(text, apart) == [0, 1]


def test_an_invalid_constraint_is_refused(text):
    wrong = (
        ({MOST_DEPTH: IntegerAttr(1, i64)}, f"'nv_tileas.dot' op expects '{MOST_DEPTH}' to be a 32-bit integer"),
        ({GROUP: StringAttr("a")}, f"'nv_tileas.dot' op expects '{GROUP}' to be a 32-bit integer"),
        ({SERIAL: number(1)}, f"'nv_tileas.dot' op expects '{SERIAL}' to have no value"),
    )
    for attributes, message in wrong:
        with pytest.raises(CompileError) as error:
            stages(text, lambda loop, products, given=attributes: products[1].attributes.update(given))
        (diagnostic,) = error.value.diagnostics
        assert (error.value.code, diagnostic.message) == (3, message) and diagnostic.location is not None
