"""Pipes: rings of stages in shared memory through which agents pass tiles to each other.

    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 producer = cp_async
      : !nv_tileas.buffer<2, tensor<...>>

One agent fills the stages in turn, and one or more agents drain them.  Each consumer drains every stage; in a pipe
`by_turns` each stage is filled by one of its producers and drained by one of its consumers:

    %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
    %q = nv_tileas.async.pipeline.producer_acquire %p, %i             waits until the stage is empty
    ...                                                               fills it
    %r = nv_tileas.async.pipeline.producer_commit %q                  it is full once this has arrived
    %j = nv_tileas.async.pipeline.inc_iter %i

and likewise `consumer_wait`, `consumer_read`, `consumer_release`. `producer_kind` and `consumer_kind` give the
instructions by which stages are filled and drained, from which `tileiras/targets/pipe_protocol.py` derives the
synchronization.  A pipe without buffers passes no tiles: it is a mutex, or an order, between agents.  Stages of buffers
in tensor memory lie side by side in its columns: dots of one agent fill them and threads of another load from them;
or threads store operands there, and rescale accumulators, of dots of another agent.

The token that `producer_acquire` or `consumer_wait` returns stands for one stage, also when a loop carries it on; the
tokens that `create_pipeline` returns stand for an end of the pipe and for no stage.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.arith import bool_like, integer_like
from tileiras.ir import (
    AnyOf,
    ArrayAttr,
    EnumAttr,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    Pure,
    SingleBlock,
    TensorType,
    Type,
    TypedAttribute,
    UnitAttr,
    VerifyError,
    attribute,
    i32,
    i64,
    operand,
    optional_operand,
    region,
    result,
    variadic_operand,
    variadic_result,
)

from .agents import YieldOp
from .attributes import LinearLayoutAttr
from .buffers import BufferType
from .names import PIPELINE
from .tensor_memory import TensorBufferType

_NUMBER = TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute")
_GROUP = "of the pipe's groups of warps, where one thread does it for each"


class ProducerTokenType(Type, name="nv_tileas.producer_token"):
    """The producer's end of a pipe, and which of its stages has been acquired."""


class ConsumerTokenType(Type, name="nv_tileas.consumer_token"):
    """The consumer's end of a pipe, and which of its stages has been waited for."""


class PipelineIteratorType(Type, name="nv_tileas.pipeline_iterator"):
    """The index of the next stage of a pipe, and the parity of the number of passes over the ring."""


class ProducerKindAttr(EnumAttr, name="nv_tileas.producer_kind"):
    """The producer of stages: a copy atom, dots into tensor memory (of one CTA or of a pair), whose accumulators
    are the stages, or stores of threads to tensor memory."""

    keyword_only = True
    cases = {"st_shared": 0, "cp_async": 1, "bulk_load": 2, "tcgen05": 3, "tcgen05_pair": 4, "tcgen05_st": 5}


class ConsumerKindAttr(EnumAttr, name="nv_tileas.consumer_kind"):
    """The reader of stages: loads by threads, dots of warpgroups, dots into tensor memory, bulk copies, loads
    of accumulators from tensor memory, or dots of a pair of CTAs, each of which fills stages of its own."""

    keyword_only = True
    cases = {"ld_shared": 0, "wgmma": 1, "bulk_store": 2, "tcgen05": 3, "tcgen05_ld": 4, "tcgen05_pair": 5}


class CreatePipelineOp(Operation, name=f"{PIPELINE}create_pipeline", traits=(MemoryWrite,)):
    """Creates a pipe over the stages of buffers, which are filled and drained together."""

    buffers = variadic_operand(AnyOf(BufferType, TensorBufferType))
    num_stages = attribute(_NUMBER)
    producer_kind = attribute(ProducerKindAttr, optional=True)
    consumer_kind = attribute(ConsumerKindAttr, optional=True)
    ctas = attribute(_NUMBER, "that fill each other's stages, all of a cluster", optional=True)
    alone = attribute(
        UnitAttr, "a CTA may fill stages for itself, also in rounds that the others do not have", optional=True
    )
    groups = attribute(
        _NUMBER, "warpgroups with mbarriers of their own; each signals its rows of a stage", optional=True
    )
    by_turns = attribute(
        UnitAttr, "each stage is filled by one of the producers and drained by one of the consumers",
        optional=True,
    )
    offset = attribute(IntegerAttr, "of its mbarriers, in bytes from the start of the arena", optional=True)
    producer = result(ProducerTokenType)
    consumer = result(ConsumerTokenType)
    assembly_format = (
        "($buffers^)? `stages` $num_stages (`producer` `=` $producer_kind^)? (`consumer` `=` $consumer_kind^)?"
        " (`ctas` `=` $ctas^)? attr-dict (`:` type($buffers)^)?"
    )

    MBARRIER_BYTES = 8

    @property
    def kinds(self) -> tuple[str, str]:
        """The producer and consumer kinds; where the text does not give them, threads store and load."""
        producer = "st_shared" if self.producer_kind is None else self.producer_kind.value
        return producer, "ld_shared" if self.consumer_kind is None else self.consumer_kind.value

    @property
    def num_ctas(self) -> int:
        """The number of CTAs that fill each stage, and whose consumers each of them waits for."""
        return 1 if self.ctas is None else self.ctas.value

    @property
    def is_freed_by_all(self) -> bool:
        """Whether consumers signal that a stage is empty to all CTAs that fill it: all do so in each round."""
        return self.ctas is not None and self.alone is None

    @property
    def num_groups(self) -> int:
        """The number of warpgroups that have mbarriers of their own."""
        return 1 if self.groups is None else self.groups.value

    @property
    def mbarrier_bytes(self) -> int:
        """Bytes of shared memory of the mbarriers: for each stage one for `full`, one for `empty`, and, where CTAs fill
        it together or alone, one for `empty` in all of them; as often as there are groups of warps."""
        kinds = 2 if self.alone is None else 3
        return kinds * self.num_stages.value * self.num_groups * self.MBARRIER_BYTES

    @property
    def stage_bytes(self) -> int:
        """Bytes that a copy transfers to the buffers of one stage in shared memory."""
        return sum(buffer.type.tile_bytes for buffer in self.buffers if isinstance(buffer.type, BufferType))

    def verify_op(self) -> None:
        stages = self.num_stages.value
        if stages < 1:
            raise VerifyError("expects at least one stage")
        producer, consumer = self.kinds
        of_accumulators, of_threads = producer in ("tcgen05", "tcgen05_pair"), producer == "tcgen05_st"
        if (consumer == "tcgen05_ld") is not of_accumulators and not (of_threads and not self.buffers):
            raise VerifyError("expects accumulators that 'tcgen05' fills to be drained by 'tcgen05_ld'")
        if of_threads and consumer not in ("tcgen05", "tcgen05_ld"):
            raise VerifyError("expects operands that 'tcgen05_st' fills to be drained by 'tcgen05'")
        for buffer in self.buffers:
            if isinstance(buffer.type, TensorBufferType) is not (of_accumulators or of_threads):
                raise VerifyError(f"has stages of accumulators in tensor memory or none, got {buffer.type}")
            if of_accumulators or of_threads:
                if buffer.type.columns % stages:
                    raise VerifyError(f"has {stages} stages in {buffer.type.columns} columns")
                continue
            if stages != buffer.type.stages:
                raise VerifyError(f"has {stages} stages in a buffer of {buffer.type.stages}")
            if buffer.type.is_of_registers:
                raise VerifyError(f"expects a buffer that all threads read, got {buffer.type}")
        if self.ctas is not None and (self.num_ctas not in (2, 4, 8, 16) or self.kinds[0] != "bulk_load"):
            raise VerifyError("expects 2, 4, 8 or 16 CTAs, and bulk copies, where CTAs fill each other's stages")
        if self.ctas is not None and self.kinds[1] == "tcgen05_pair":
            raise VerifyError("has stages that a pair of CTAs multiplies, which no other CTA fills")
        if self.alone is not None and self.ctas is None:
            raise VerifyError("is of one CTA, which always fills its stages alone")
        by_warps = of_accumulators or of_threads or self.kinds == ("st_shared", "ld_shared")
        if self.groups is not None and (self.num_groups < 2 or not by_warps):
            raise VerifyError("expects two groups of warps or more, and stages in tensor memory or of threads alone")
        for number, kind in enumerate(self.kinds):
            if not self.buffers and kind not in ("st_shared", "ld_shared", "tcgen05_st", "tcgen05_ld"):
                raise VerifyError(f"has no buffer that '{kind}' could {('fill', 'drain')[number]}")


class DestroyPipelineOp(Operation, name=f"{PIPELINE}destroy_pipeline", traits=(MemoryWrite,)):
    """Ends a pipe that a loop creates in every iteration: its mbarriers are invalid from here on.

    All threads have finished their operations on the pipe, and a barrier stands between; the thread that initialised
    the mbarriers invalidates them.
    """

    producer = operand(ProducerTokenType)
    assembly_format = "$producer attr-dict"

    def verify_op(self) -> None:
        if not isinstance(self.producer.defining_op, CreatePipelineOp):
            raise VerifyError("expects the end of a pipe that 'create_pipeline' gives")


class CreateIteratorOp(Operation, name=f"{PIPELINE}create_iterator", traits=(Pure,)):
    """An iterator at the first stage of a pipe."""

    token = operand()
    result = result(PipelineIteratorType)
    assembly_format = "$token attr-dict `:` type($token)"

    def verify_op(self) -> None:
        if not isinstance(self.token.type, (ProducerTokenType, ConsumerTokenType)):
            raise VerifyError(f"expects an end of a pipe, but got {self.token.type}")


class IncIterOp(Operation, name=f"{PIPELINE}inc_iter", traits=(Pure,)):
    """The iterator at the next stage, or `by` stages on, where another agent uses the stages between.  `by` is an
    integer of 32 or 64 bits, and not negative."""

    iterator = operand(PipelineIteratorType)
    by = optional_operand(integer_like)
    result = result(PipelineIteratorType)
    assembly_format = "$iterator (`by` $by^ `:` type($by))? attr-dict"

    def verify_op(self) -> None:
        if self.by is not None and self.by.type not in (i32, i64):
            raise VerifyError(f"counts stages as i32 or i64, not as {self.by.type}")


class GetStageOp(Operation, name=f"{PIPELINE}get_stage", traits=(Pure,)):
    """The index of an iterator's stage, as operations on buffers take it."""

    iterator = operand(PipelineIteratorType)
    result = result(integer_like)
    assembly_format = "$iterator attr-dict `:` type($result)"

    def verify_op(self) -> None:
        if self.result.type is not i32:
            raise VerifyError(f"gives the number of a stage as i32, not as {self.result.type}")


# ---- one stage -------------------------------------------------------------------------------------------------------


class _OnToken(Operation):
    """An operation that takes a token of a pipe and returns one."""
    typed_as = 0


class ProducerAcquireOp(_OnToken, name=f"{PIPELINE}producer_acquire"):
    """Waits until a stage is empty.  It does not wait where the stage is `fresh`, never filled before, or `known` to be
    empty by earlier waits.

    In a pipe that several CTAs fill, it waits until the stage is empty in all of them; with `together`, on a pipe whose
    CTAs may fill stages `alone`, only where that condition holds, which is the same in all CTAs.
    """

    traits = (MemoryRead, MemoryWrite)
    token = operand(ProducerTokenType)
    iterator = operand(PipelineIteratorType)
    together = optional_operand(bool_like)
    fresh = attribute(UnitAttr, optional=True)
    known = attribute(UnitAttr, optional=True)
    result = result(ProducerTokenType)
    group = attribute(_NUMBER, _GROUP, optional=True)
    assembly_format = "$token `,` $iterator (`if` $together^)? attr-dict"


class ProducerCommitOp(_OnToken, name=f"{PIPELINE}producer_commit"):
    """Signals that the acquired stage is full, or will be once the copies into it have arrived."""

    traits = (MemoryRead, MemoryWrite)
    token = operand(ProducerTokenType)
    result = result(ProducerTokenType)
    group = attribute(_NUMBER, _GROUP, optional=True)
    assembly_format = "$token attr-dict"


class ProducerTailOp(Operation, name=f"{PIPELINE}producer_tail"):
    """Waits until each stage that has been filled is empty.  It is needed where the arrivals at `empty` come from
    another CTA, before whose last arrival this CTA must not exit; where threads load accumulators that are complete
    then; and where memory that other agents have read, such as operands of their dots, is reused.  The iterator is
    at the stage that would be filled next."""

    traits = (MemoryRead, MemoryWrite)
    producer = operand(ProducerTokenType)
    iterator = operand(PipelineIteratorType)
    group = attribute(_NUMBER, _GROUP, optional=True)
    assembly_format = "$producer `,` $iterator attr-dict"

    def verify_op(self) -> None:
        if not isinstance(self.producer.defining_op, CreatePipelineOp):
            raise VerifyError("expects the end of a pipe that 'create_pipeline' gives")


class ConsumerTailOp(Operation, name=f"{PIPELINE}consumer_tail", traits=(MemoryRead, MemoryWrite)):
    """States that no stage is filled any more and that all stages the agent waited for have been read: from here on
    allocations of the agent in its own block may use the memory of the pipe's buffers.  The agent is the pipe's only
    consumer."""

    consumer = operand(ConsumerTokenType)
    assembly_format = "$consumer attr-dict"

    def verify_op(self) -> None:
        if not isinstance(self.consumer.defining_op, CreatePipelineOp):
            raise VerifyError("expects the end of a pipe that 'create_pipeline' gives")


class ConsumerWaitOp(_OnToken, name=f"{PIPELINE}consumer_wait"):
    """Waits until a stage is full."""

    traits = (MemoryRead, MemoryWrite)
    token = operand(ConsumerTokenType)
    iterator = operand(PipelineIteratorType)
    result = result(ConsumerTokenType)
    group = attribute(_NUMBER, _GROUP, optional=True)
    assembly_format = "$token `,` $iterator attr-dict"


class ConsumerReleaseOp(_OnToken, name=f"{PIPELINE}consumer_release"):
    """Signals that the stage that was waited for is empty.  It signals nothing where it is the `last` release, after
    which no stage of the pipe is filled, or where it is `known` to the producer by later signals."""

    traits = (MemoryRead, MemoryWrite)
    token = operand(ConsumerTokenType)
    last = attribute(UnitAttr, optional=True)
    known = attribute(UnitAttr, optional=True)
    result = result(ConsumerTokenType)
    group = attribute(_NUMBER, _GROUP, optional=True)
    assembly_format = "$token attr-dict"


_REGISTER_TILE = "expects a tile in registers"


class ProducerWriteOp(Operation, name=f"{PIPELINE}producer_write", traits=(MemoryWrite,)):
    """Writes a tile to the acquired stage of one of the pipe's buffers, which are numbered from 0."""

    tensor = operand(TensorType)
    token = operand(ProducerTokenType)
    buffer = attribute(_NUMBER, optional=True)
    assembly_format = "$tensor `into` $token (`buffer` `=` $buffer^)? attr-dict `:` type($tensor)"

    def verify_op(self) -> None:
        if self.tensor.type.encoding is not None and not isinstance(self.tensor.type.encoding, LinearLayoutAttr):
            raise VerifyError(f"{_REGISTER_TILE}, got {self.tensor.type}")


class ConsumerReadOp(Operation, name=f"{PIPELINE}consumer_read", traits=(MemoryRead,)):
    """Reads the tile in the stage that was waited for, of one of the pipe's buffers, into registers."""

    token = operand(ConsumerTokenType)
    buffer = attribute(_NUMBER, optional=True)
    result = result(TensorType)
    assembly_format = "$token (`buffer` `=` $buffer^)? attr-dict `:` type($result)"

    def verify_op(self) -> None:
        if self.result.type.encoding is not None and not isinstance(self.result.type.encoding, LinearLayoutAttr):
            raise VerifyError(f"{_REGISTER_TILE}, got {self.result.type}")


# ---- a stage from beginning to end -----------------------------------------------------------------------------------


class _One(Operation):
    """The operations on one stage, from the wait for it to its commit or release."""

    def _verify_region(self: Any, types: list[Type], results: list[Type]) -> None:
        block = self.body.block
        entry = [argument.type for argument in block.arguments]
        if entry != types:
            raise VerifyError(
                "expects region arguement types to match with producer types "
                f"[{_listed(types)}], but got: [{_listed(entry)}]"
            )
        yielded = [value.type for value in block.last.operands] if isinstance(block.last, YieldOp) else []
        if yielded != results:
            raise VerifyError(
                "expects region result types to be match with operation result types "
                f"[{_listed(results)}], but got: [{_listed(yielded)}]"
            )


def _listed(types: list[Type]) -> str:
    return ", ".join(map(str, types))


class ProduceOneOp(_One, name=f"{PIPELINE}produce_one", traits=(MemoryRead, MemoryWrite, SingleBlock)):
    """Acquires a stage, writes to each buffer of the pipe the tile that the region yields for it, and commits.

    The region's arguments, where they are used, are the tiles that the stage has held since it was last filled.
    """

    token = operand(ProducerTokenType)
    iterator = operand(PipelineIteratorType)
    producer_types = attribute(ArrayAttr, "the tiles' types")
    result = result(ProducerTokenType)
    body = region()
    assembly_format = "$token `,` $iterator attr-dict-with-keyword $body"

    def verify_op(self) -> None:
        types = list(self.producer_types)
        self._verify_region(types, types)


class ConsumeOneOp(_One, name=f"{PIPELINE}consume_one", traits=(MemoryRead, MemoryWrite, SingleBlock)):
    """Waits for a stage, executes the region, whose arguments are the tiles in the buffers of the stage, and releases
    the stage.  Its results are the values that the region yields."""

    token = operand(ConsumerTokenType)
    iterator = operand(PipelineIteratorType)
    consumer_types = attribute(ArrayAttr, "the tiles' types")
    result_token = result(ConsumerTokenType)
    values = variadic_result()
    body = region()
    assembly_format = "$token `,` $iterator attr-dict-with-keyword `:` type(results) $body"

    def verify_op(self) -> None:
        self._verify_region(list(self.consumer_types), [value.type for value in self.values])
