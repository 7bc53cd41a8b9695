"""Remarks about the schedules of loops, and about loads that do not run ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.remarks import Remark, supersede
from tileiras.targets import CopyAtom

from .staging import StagedLoad
from .tensor_boxes import box_atom, comes_in_boxes, descriptor_type, is_multicast

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas
    from tileiras.dialects import scf
    from tileiras.ir import Location, Operation

    from .streams import Stream


class ScheduleRemarks:
    """The remarks about the loops of one function."""

    __slots__ = ("_engine", "_function")

    def __init__(self, engine: DiagnosticEngine, function: str) -> None:
        self._engine = engine
        self._function = function

    def _emit(
        self, kind: str, name: str, location: Location, *values: int, reason: str = "", **arguments: object
    ) -> None:
        self._engine.emit(
            Remark(kind, name, location, *values, arguments=arguments, reason=reason, function=self._function)
        )

    def staged(
        self, loop: scf.ForOp, loads: Sequence[Any], attempt: Callable[[Any, list[str]], StagedLoad | None]
    ) -> list[StagedLoad]:
        """The result of `attempt(load, why)` for the loads of a loop; emits the reason for those for which it finds
        nothing."""
        found = []
        for load in loads:
            why: list[str] = []
            staged = attempt(load, why)
            if staged is not None:
                found.append(staged)
            else:
                reason = why[-1] if why else "its layout has no vectors"
                self._emit("missed", "RemarkLoopLoad", load.location, reason=reason)
        if not found:
            self.as_written(loop, "none of its loads can run ahead" if loads else "there is no load in it")
        return found

    def as_written(self, loop: scf.ForOp, reason: str) -> None:
        self._emit("missed", "RemarkLoopSchedule", loop.location, reason=reason)

    def no_boxes(self, load: Operation, reason: str) -> None:
        """A load that a tensor map could serve, and that does not run ahead in boxes."""
        self._emit("missed", "RemarkMemoryTensorMap", load.location, reason=reason)

    def prefetched(self, loop: scf.ForOp, loads: Sequence[Any], reason: str) -> None:
        """A loop some of whose loads run one iteration ahead in registers."""
        arguments = {"Loads": len(loads), "Buffers": "registers"}
        self._emit("passed", "RemarkLoopPipeline", loop.location, 2, reason=reason, **arguments)

    def pipelined(
        self, loop: scf.ForOp, staged: Sequence[StagedLoad], stages: int, wanted: int, atom: CopyAtom
    ) -> None:
        """A loop whose loads run `stages - 1` iterations ahead."""
        used = stages * sum(each.stage_bytes for each in staged)
        reason = f"{wanted} stages do not fit into shared memory" if stages < wanted else ""
        self._emit(
            "passed", "RemarkLoopPipeline", loop.location, stages,
            Loads=len(staged), Buffers=f"{used} bytes", reason=reason,
        )  # fmt: skip
        for each in staged:
            type = each.load.data.type
            desc = descriptor_type(each) if comes_in_boxes(each) else None
            if desc is not None:
                arguments = {"Instruction": box_atom(each).instruction, "Box": list(desc.box)}
                arguments |= {"Swizzle": f"{desc.swizzle} bytes", "Shape": list(type.shape), "Stages": stages}
                if desc.rounds:
                    arguments["Rounded to"] = str(desc.element)
                if is_multicast(each):
                    arguments["CTAs"] = each.cluster
            else:
                arguments = _copies(each.load, stages, atom)
            self._selected(each.load, arguments)

    def streamed(self, stream: Stream, stages: int, atom: CopyAtom) -> None:
        """A loop whose threads copy their own elements `stages - 1` iterations ahead."""
        used = stages * stream.stage_bytes
        self._emit(
            "passed", "RemarkLoopPipeline", stream.loop.location, stages,
            Loads=len(stream.loads), Buffers=f"{used} bytes, of each thread its own",
        )  # fmt: skip
        for each in stream.loads:
            self._selected(each.load, _copies(each.load, stages, atom))

    def _selected(self, load: tileas.Load, arguments: dict[str, Any]) -> None:
        supersede(
            self._engine,
            Remark("passed", "RemarkMemoryLoadInstructionSelected", load.location, arguments=arguments,
                   function=self._function),
        )  # fmt: skip


def _copies(load: tileas.Load, stages: int, atom: CopyAtom) -> dict[str, Any]:
    """The wording of a remark for copies by threads."""
    type, vector = load.data.type, load.atom.vector_size
    width = vector * type.element_type.width // 8
    return {
        "Instruction": atom.instruction, "Width": f"{width} bytes", "Shape": list(type.shape),
        "Elements per access": vector, "Stages": stages,
    }  # fmt: skip
