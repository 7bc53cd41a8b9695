"""Operations that exist only to test the language, its text and its files; no program contains them.

Never imported by the dialect, and known only inside `loaded()`, which `--testing-ops` of tileiras-opt and
tileiras-translate enters: with them, test modules of the reference tools can be read.  They are a function whose
parameters and results have any type, and operations that change between versions 250.0 and 250.1, which are unreleased.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

from tileiras.ir import (
    AttrSizedOperandSegments,
    EnumAttr,
    IntegerAttr,
    IsolatedFromAbove,
    StringAttr,
    Symbol,
    UnitAttr,
    attribute,
    i32,
    optional_operand,
    region,
    registry,
    result,
    variadic_operand,
)

from .constraints import DictArrayAttr, I32Attr, TileType, TokenType, function_type_attr
from .operation import TileOp
from .ops_control_flow import ReturnOp
from .ops_conversion import FToFOp, modes_until_13_3
from .ops_module import FunctionOp
from .traits import EndsWith, OneBlock, ParentOneOf


class TestPriorityAttr(EnumAttr, name="cuda_tile.bytecode_test_priority", since="250.0"):
    """An enum that has gained a case."""

    angled = True
    cases = {"low": 0, "normal": 1, "high": 2}
    case_since = {"high": "250.1"}


class TestFuncOp(FunctionOp, name="cuda_tile.testing$func", since="250.0", opcode=0x3001):
    """A function with parameters and results of any type."""

    traits = (IsolatedFromAbove, OneBlock("body"), EndsWith("cuda_tile.return"), Symbol)
    sym_name = attribute(StringAttr, "name of the function")
    function_type = attribute(function_type_attr, "types of the parameters and of the results")
    arg_attrs = attribute(DictArrayAttr, "a dictionary per parameter", optional=True)
    res_attrs = attribute(DictArrayAttr, "a dictionary per result", optional=True)
    body = region("the body")


class TestNewAttributeOp(TileOp, name="cuda_tile.testing$bytecode_test_new_attribute", since="250.0", opcode=0x3000):
    """An operation that has gained attributes."""

    new_flag = attribute(UnitAttr, "a flag", optional=True, since="250.1")
    new_param = attribute(I32Attr, "a number", default=IntegerAttr(42, i32), since="250.1")
    assembly_format = "(`new_flag` $new_flag^)? (`new_param` `=` $new_param^)? attr-dict"


class TestEvolutionOp(TileOp, name="cuda_tile.testing$bytecode_test_evolution", since="250.0", opcode=0x3002):
    """An operation that has gained an operand, a result and attributes."""

    traits = (AttrSizedOperandSegments(),)
    inputs = variadic_operand(TileType, "the operands of every version")
    new_attr = attribute(I32Attr, "a number", optional=True, since="250.1")
    optional_token = optional_operand(TokenType, "an order", since="250.1")
    priority = attribute(TestPriorityAttr, "an enum", optional=True)
    result_token = result(TokenType, "an order", since="250.1")
    assembly_format = (
        "`(` $inputs `:` type($inputs) `)` (`new_attr` `=` $new_attr^)?"
        " (`token` `=` $optional_token^ `:` custom<CudaTileType>(type($optional_token)))?"
        " (`priority` `=` $priority^)? `->` custom<CudaTileType>(type($result_token)) attr-dict"
    )


_OPERATIONS = (TestFuncOp, TestNewAttributeOp, TestEvolutionOp)

# Declaring a class enters it in the registry; these stay there only while they are asked for.
for _class in _OPERATIONS:
    del registry.OPERATIONS[_class.name]
del registry.ATTRIBUTES[TestPriorityAttr.name]


@contextlib.contextmanager
def loaded() -> Iterator[None]:
    """Inside, the operations are part of the dialect: they can be read, and a function may hold a `return`.

    They belong to the public release, 13.3, so that the rules that 13.4 has relaxed are that release's.
    """
    if TestFuncOp.name in registry.OPERATIONS:
        yield
        return
    parents = ReturnOp.get_trait(ParentOneOf)
    before, modes = parents.names, FToFOp.__dict__["modes"]
    try:
        registry.OPERATIONS.update({op_class.name: op_class for op_class in _OPERATIONS})
        registry.ATTRIBUTES[TestPriorityAttr.name] = TestPriorityAttr
        parents.names = (TestFuncOp.name, *before)
        FToFOp.modes = staticmethod(modes_until_13_3)  # type: ignore[method-assign]
        yield
    finally:
        parents.names = before
        FToFOp.modes = modes  # type: ignore[method-assign]
        del registry.ATTRIBUTES[TestPriorityAttr.name]
        for op_class in _OPERATIONS:
            del registry.OPERATIONS[op_class.name]
