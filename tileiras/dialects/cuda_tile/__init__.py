"""cuda_tile: the language that front ends write and this compiler reads.

One class per operation, attribute and type; text, bytecode, verifier and the reference in docs/ follow from the
declarations.  `since` is the Tile IR version that introduced a thing, `opcode` and `bytecode_tag` its number in files.
"""

from typing import Any

from tileiras.ir import Attribute, Location, Operation, register_type_directive
from tileiras.support.lazy import lazy_names

from . import (
    attributes,
    debug_info,
    ops_aggregate,
    ops_arith_float,
    ops_arith_integer,
    ops_atomics,
    ops_bitwise,
    ops_control_flow,
    ops_conversion,
    ops_core,
    ops_debug,
    ops_math,
    ops_memory,
    ops_mma,
    ops_module,
    ops_multimem,
    ops_preview,
    ops_views,
    types,
    view_types,
)

# Types in custom syntax come without `!cuda_tile.`; formats select this by the name.
register_type_directive("CudaTileType", types.NAMESPACE)

FAMILIES = (
    types,
    view_types,
    attributes,
    debug_info,
    ops_aggregate,
    ops_arith_float,
    ops_arith_integer,
    ops_atomics,
    ops_bitwise,
    ops_control_flow,
    ops_conversion,
    ops_core,
    ops_debug,
    ops_math,
    ops_memory,
    ops_mma,
    ops_module,
    ops_multimem,
    ops_preview,
    ops_views,
)
"""The files that declare the dialect, in the order of the reference."""


def __getattr__(name: str) -> Any:
    """Everything with a name in the dialect is found here: `cuda_tile.AddFOp`, `cuda_tile.TileType`."""
    for family in () if name.startswith("_") else FAMILIES:
        value = vars(family).get(name)
        if isinstance(value, type) and issubclass(value, (Attribute, Location, Operation)):
            globals()[name] = value
            return value
    return _files(name)


_files = lazy_names(__name__, globals())
