"""CTAs of an SM that a kernel's tiles leave registers for, before anything is scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.copied_loads import LOADS, copied_vector
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Value
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.targets import Target, find_copy_atom, registers_per_thread

from .limits import threads_of
from .register_bounds import least_beside_tiles
from .registers import words

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def lower_occupancy(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Lower the occupancy of a kernel, in place, where its tiles need the registers of more CTAs; a remark says so."""
    spec = func.kernel_spec
    threads, asked = threads_of(func), spec.occupancy or 1
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)

    def held(value: Value) -> int:
        """As words(), without tiles that are loaded for dots only: these can wait in shared memory."""
        source = value
        while isinstance(source.defining_op, tileas.VIEW_LIKE):
            source = source.defining_op.operand
        load = source.defining_op
        if atom is None or not isinstance(load, LOADS) or copied_vector(load, atom) is None:
            return words(value)
        return 0 if _goes_to_dots(source) else words(value)

    needed = least_beside_tiles(func, held)
    ctas = asked
    while ctas > 1 and registers_per_thread(threads, ctas) < needed:
        ctas -= 1
    if ctas == asked:
        return
    func.attributes["kernel_spec"] = spec.with_occupancy(ctas)
    if engine is not None:
        cause = Reason("kernel.registers-needed", registers=needed)
        engine.emit(Remark(Reason("kernel.fewer-ctas", ctas=ctas, asked=asked, cause=cause), func.location))


def _goes_to_dots(value: Value) -> bool:
    """Whether a tile is an operand of dots only, perhaps in another layout or under another shape."""
    for user in value.users:
        if isinstance(user, tileas.DOTS):
            if user.operands[2] is value:
                return False
        elif not isinstance(user, (*tileas.VIEW_LIKE, tileas.ConvertLayoutOp)) or not _goes_to_dots(user.results[0]):
            return False
    return True
