"""Remarks about the schedules of loops, and about loads that do not run ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark, supersede
from tileiras.reasons import Reason
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

    def _emit(self, reason: Reason, location: Location, **arguments: object) -> None:
        self._engine.emit(Remark(reason, location, arguments=arguments, function=self._function))

    def staged(
        self, loop: scf.ForOp, loads: Sequence[Any], attempt: Callable[[Any, list[Reason]], StagedLoad | None]
    ) -> list[StagedLoad]:
        """The result of `attempt(load, why)` for the loads of a loop; emits the reason for those for which it finds
        nothing."""
        result = []
        for load in loads:
            why: list[Reason] = []
            staged = attempt(load, why)
            if staged is not None:
                result.append(staged)
            else:
                cause = why[-1] if why else Reason("copies.no-vectors")
                self._emit(Reason("loops.load-stays", cause=cause), load.location)
        if not result:
            self.as_written(loop, Reason("loops.no-load-ahead" if loads else "loops.no-loads"))
        return result

    def as_written(self, loop: scf.ForOp, reason: Reason) -> None:
        self._emit(Reason("loops.as-written", cause=reason), loop.location)

    def no_boxes(self, load: Operation, reason: Reason) -> None:
        """A load that a tensor map could serve, and that does not run ahead in boxes."""
        self._emit(Reason("maps.unused", cause=reason), load.location)

    def prefetched(self, loop: scf.ForOp, loads: Sequence[Any], reason: Reason) -> None:
        """A loop some of whose loads run one iteration ahead in registers."""
        result = Reason("loops.pipelined", stages=2, cause=reason)
        self._emit(result, loop.location, Loads=len(loads), Buffers="registers")

    def pipelined(
        self, loop: scf.ForOp, staged: Sequence[StagedLoad], stages: int, most_stages: int, atom: CopyAtom,
        cause: Reason | None = None,
    ) -> None:  # fmt: skip
        """A loop whose loads run `stages - 1` iterations ahead."""
        ring_size = stages * sum(each.stage_bytes for each in staged)
        if stages < most_stages:
            cause = Reason("loops.stages-do-not-fit", wanted=most_stages)
        reason = Reason("loops.pipelined", stages=stages, cause=cause)
        self._emit(reason, loop.location, Loads=len(staged), Buffers=f"{ring_size} bytes")
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
                self._selected(each.load, Reason("access.boxes"), arguments)
            else:
                self._copied(each.load, stages, atom)

    def streamed(self, stream: Stream, stages: int, atom: CopyAtom) -> None:
        """A loop whose threads copy their own elements `stages - 1` iterations ahead."""
        ring_size = stages * stream.stage_bytes
        self._emit(
            Reason("loops.pipelined", stages=stages), stream.loop.location,
            Loads=len(stream.loads), Buffers=f"{ring_size} bytes, of each thread its own",
        )  # fmt: skip
        for each in stream.loads:
            self._copied(each.load, stages, atom)

    def _copied(self, load: tileas.Load, stages: int, atom: CopyAtom) -> None:
        """A load whose threads copy it."""
        type, vector = load.data.type, load.atom.vector_size
        width = vector * type.element_type.width // 8
        arguments = {
            "Instruction": atom.instruction, "Width": f"{width} bytes", "Shape": list(type.shape),
            "Elements per access": vector, "Stages": stages,
        }  # fmt: skip
        self._selected(load, Reason("access.load", bytes=width), arguments)

    def _selected(self, load: tileas.Load, reason: Reason, arguments: dict[str, Any]) -> None:
        supersede(self._engine, Remark(reason, load.location, arguments=arguments, function=self._function))
