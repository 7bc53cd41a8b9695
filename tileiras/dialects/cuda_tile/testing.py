"""Operations that exist only to test the language, its text and its files; no program contains them.

Never imported by the dialect.  `tileiras-opt --testing-ops` and `tileiras-translate --testing-ops` load them, so that
test modules of the reference tools can be read: a function whose parameters and results have any type, and operations
that have changed between two versions that no release has.
"""

from __future__ import annotations

from tileiras.ir import IsolatedFromAbove, StringAttr, Symbol, attribute, region

from .constraints import DictArrayAttr, function_type_attr
from .ops_control_flow import ReturnOp
from .ops_module import FunctionOp
from .traits import EndsWith, OneBlock, ParentOneOf


class TestFuncOp(FunctionOp):
    """A function with parameters and results of any type."""

    name = "cuda_tile.testing$func"
    since = "250.0"
    opcode = 0x3001
    traits = (IsolatedFromAbove, OneBlock("body"), EndsWith("cuda_tile.return"), Symbol)
    sym_name = attribute(StringAttr, "name of the function")
    function_type = attribute(function_type_attr, "types of the parameters and of the results")
    arg_attrs = attribute(DictArrayAttr, "a dictionary per parameter", optional=True)
    res_attrs = attribute(DictArrayAttr, "a dictionary per result", optional=True)
    body = region("the body")


# A function ends with a return, too.
_parents = ReturnOp.get_trait(ParentOneOf)
_parents.names = (TestFuncOp.name, *_parents.names)
