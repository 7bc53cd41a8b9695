"""The hardware's encoding of the fields of a tensor map (PTX ISA, "tensormap.replace")."""

from __future__ import annotations

ELEMENT_TYPES = {
    "i8": 0, "i16": 1, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 9, "bf16": 10, "tf32": 11,
}  # fmt: skip
"""The type of elements -> `.elemtype`, whose numbers are not the CUDA driver API's."""
