"""How many CTAs of a kernel an SM is to hold at least, which bounds the registers of a thread."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import TensorType
from tileiras.targets import registers_per_thread


def least_ctas(func: Any) -> int | None:
    """What the kernel asks for; one where its tiles take all registers that a thread can have; None to leave it open.

    Told nothing, ptxas 13.5 gives some kernels that no number of registers holds 32 of them, and spills all the rest:
    twelve tiles of 64x128 f32 made 2304 bytes of local memory, and make none since it knows of one CTA.  Others would
    get more registers for this word than they need, so that fewer CTAs fit on an SM.
    """
    spec = func.kernel_spec
    if spec.occupancy:
        return spec.occupancy
    threads = 32 * (spec.num_warps or 1)
    most = registers_per_thread(threads)
    if _elements(func) <= most * threads:
        return None
    # Several modules, for kernels with large tiles only.
    from tileiras.schedule.registers import OTHER_REGISTERS, tile_registers, words

    # A factor that goes through shared memory in rounds is all in registers before the product reads it.
    in_rounds = (op.result for op in func.walk() if isinstance(op, tileas.ConvertLayoutOp) and _takes_rounds(op))
    needed = max(tile_registers(func), max(map(words, in_rounds), default=0))
    return 1 if needed + OTHER_REGISTERS > most else None


def _takes_rounds(op: Any) -> bool:
    from tileiras.schedule.shared_memory import SCRATCH_BYTES, conversion_bytes

    return conversion_bytes(op) > max(SCRATCH_BYTES)


def _elements(func: Any) -> int:
    """Of all tiles together, as words of 32 bits: above the registers that they take at a time."""
    types = (value.type for op in func.walk() for value in op.results)
    tensors = (type for type in types if isinstance(type, TensorType))
    return sum(type.num_elements * max(32, getattr(type.element_type, "width", 64)) // 32 for type in tensors)
