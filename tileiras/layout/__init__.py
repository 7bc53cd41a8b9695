"""Linear layouts and derived data: conversions, access widths, reductions."""

from tileiras.layout.constructors import (
    blocked,
    fma_operands,
    mma_layouts,
    row_major_shared,
    scale_layouts,
    swizzled_shared,
    warpgroup_layouts,
)
from tileiras.layout.linear_layout import LinearLayout

__all__ = [
    "LinearLayout",
    "blocked",
    "fma_operands",
    "mma_layouts",
    "row_major_shared",
    "scale_layouts",
    "swizzled_shared",
    "warpgroup_layouts",
]

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
