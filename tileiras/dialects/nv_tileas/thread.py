"""One thread's share of an operation of nv_tileas, as a machine operation: `nv_tileas.thread.*`.

    nv_tileas.thread.mma A [%a ...] B [%b ...] C [%c ...] {atom = "..."}      one execution of an atom
    nv_tileas.thread.mbarrier.wait %mbarrier, %parity                         waits for a phase, in the target's way

They exist between `convert-tileas-to-llvm`, which assigns registers and addresses to threads, and
`convert-tileas-to-nvgpu`, which chooses instructions.  Most have the fields of the nvgpu operation of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.dialects.nvgpu.ops import MachineOp, generate
from tileiras.dialects.nvgpu.rows import ROWS
from tileiras.ir import Operation, StringAttr, attribute
from tileiras.ir.registry import GeneratedOperations
from tileiras.support.named_tuple import NamedTuple


class ThreadRow(NamedTuple):
    nvgpu: str
    """The operation of nvgpu with the same operands."""
    replaces: tuple[str, ...] = ()
    """Attributes of it that are not known here: the atom has them."""
    own: Mapping[str, Any] = {}


class ThreadOp(MachineOp):
    """Base of the operations."""


_ATOM = {"atom": lambda: attribute(StringAttr, "the name of the atom that is executed")}

_BY_ATOM = {
    "mma": ThreadRow("mma.sync", ("mmaShape", "aType", "bType", "cType", "saturate"), _ATOM),
    "mma.scaled": ThreadRow(
        "mma.block_scale", ("mmaShape", "aType", "bType", "kind", "scaleVecSize", "blockScaleFormat"), _ATOM
    ),
    "mbarrier.wait": ThreadRow("mbarrier.try_wait.parity"),
}
_CHOSEN_HERE = ("mma.sync", "mma.block_scale", "mbarrier.try_wait.parity", "mbarrier.test_wait.parity")

THREAD_ROWS: Mapping[str, ThreadRow] = {
    **_BY_ATOM, **{key: ThreadRow(key) for key in ROWS if key not in _CHOSEN_HERE},
}  # fmt: skip
"""By the operation's name without `nv_tileas.thread.`."""


def _operation_class(key: str, thread: ThreadRow) -> type[Operation]:
    row = ROWS[thread.nvgpu]
    replaces = (*row.replaces, *thread.replaces)
    own = {name: result for name, result in row.own.items() if name not in thread.replaces}
    return generate(ThreadOp, f"nv_tileas.thread.{key}", row, replaces, {**own, **thread.own})


THREAD = GeneratedOperations("nv_tileas.thread.", THREAD_ROWS, _operation_class)
"""The classes: `THREAD["mbarrier.init"]`."""
