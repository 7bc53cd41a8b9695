"""Operations of threads (nv_tileas.thread) to instructions of nvgpu.

    nv_tileas.thread.mma ... {atom = "mma_m16n8k16_f32_f16"}  ->  nvgpu.mma.sync ... {mmaShape = [16, 8, 16], ...}
    nv_tileas.thread.mbarrier.wait                            ->  nvgpu.mbarrier.try_wait.parity, or test_wait

The atoms of the target tables determine shapes and types of dots; the target decides how a thread waits, and whether a
grid can depend on another one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tileiras.dialects import nvvm
from tileiras.dialects.nv_tileas.thread import THREAD_ROWS
from tileiras.dialects.nvgpu import NVGPU
from tileiras.ir import ArrayAttr, Attribute, IntegerAttr, Operation, StringAttr, UnitAttr, VerifyError, i32
from tileiras.targets import Target
from tileiras.targets.atoms.choice import known_mma_atom
from tileiras.targets.atoms.mma_sync import SCALED_MMA_ATOMS

PREFIX = "nv_tileas.thread."

PTX_TYPES = {"i32": "s32", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f4E2M1FN": "e2m1"}
"""PTX's names of types of elements, where they differ."""


@functools.cache
def _of_atom(name: str) -> dict[str, Attribute]:
    """The attributes of the product that executes an atom."""
    atom: Any = known_mma_atom(name) or SCALED_MMA_ATOMS.get(name)
    if atom is None:
        raise VerifyError(f"has an unknown atom '{name}'")
    result: dict[str, Attribute] = {"mmaShape": ArrayAttr([IntegerAttr(size, i32) for size in atom.shape])}
    types = {"aType": atom.a_type, "bType": atom.b_type}
    if hasattr(atom, "scale_ptx"):
        result |= {
            "kind": nvvm.MMABlockScaleKindAttr(atom.kind),
            "scaleVecSize": nvvm.ScaleVecSizeAttr(f"x{atom.vector.removesuffix('x')}"),
            "blockScaleFormat": nvvm.BlockScaleFormatAttr(atom.scale_ptx),
        }  # fmt: skip
    else:
        types["cType"] = atom.c_type
        if atom.c_type == "i32":
            result["saturate"] = UnitAttr()
    return result | {key: StringAttr(PTX_TYPES.get(element, element)) for key, element in types.items()}


def _by_atom(op: Operation, target: Target) -> str:
    attributes = op.attributes
    op.attributes = {name: value for name, value in attributes.items() if name != "atom"}
    op.attributes.update(_of_atom(attributes["atom"].value))  # type: ignore[attr-defined]
    return THREAD_ROWS[op.name.removeprefix(PREFIX)].nvgpu


def _wait(op: Operation, target: Target) -> str:
    """Before sm_90 a thread can only test."""
    tries = "cluster" in op.attributes or target.has("mbarrier_try_wait")
    return f"mbarrier.{'try' if tries else 'test'}_wait.parity"


def _if_grids_depend(op: Operation, target: Target) -> str:
    """Before sm_90 grids do not overlap: there is nothing to wait for."""
    return op.name.removeprefix(PREFIX) if target.has("dependent_launch") else ""


RULES: Mapping[str, Callable[[Operation, Target], str]] = {
    "mma": _by_atom,
    "mma.scaled": _by_atom,
    "mbarrier.wait": _wait,
    "grid_dependency.wait": _if_grids_depend,
    "grid_dependency.launch": _if_grids_depend,
}
"""Operations that are not those of nvgpu of the same name: the name in nvgpu, or nothing for one that is left out."""


def convert(op: Operation, target: Target) -> None:
    """Convert an operation in place; raises VerifyError for an unknown atom."""
    key = op.name.removeprefix(PREFIX)
    rule = RULES.get(key)
    if rule is not None:
        key = rule(op, target)
    if key:
        op.become(NVGPU[key])
    else:
        op.erase()
