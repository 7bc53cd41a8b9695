"""Agents: warps of a kernel that run programs of their own, and the pipes through which they hand tiles to each other.

    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 : !nv_tileas.buffer<2, tensor<...>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      ...                                                              fills the stage
      %r = nv_tileas.async.pipeline.producer_commit %q
      nv_tileas.async.pipeline.yield
    }, {
      ...                                            consumer_wait, reads the stage, consumer_release
      nv_tileas.async.pipeline.yield
    }

Our schedules make none of them; `tileaa-agent-verifier` says of text that has them whether its agents fit together.
"""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    ArrayAttr,
    DenseArrayAttr,
    HasParent,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    ReturnLike,
    SingleBlock,
    Terminator,
    Type,
    TypedAttribute,
    VerifyError,
    attribute,
    i32,
    operand,
    region,
    result,
    variadic_operand,
    variadic_region,
    variadic_result,
)

from .buffers import BufferType

PREFIX = "nv_tileas.async.pipeline."
INHERITED = 0
"""In `num_warps` and `max_regs`: as many as the kernel's warps have."""


class ProducerTokenType(Type):
    """The end of a pipe that is filled."""

    name = "nv_tileas.producer_token"


class ConsumerTokenType(Type):
    """The end of a pipe that is drained."""

    name = "nv_tileas.consumer_token"


class PipelineIteratorType(Type):
    """Which stage of a pipe comes next, and how often all have been gone through."""

    name = "nv_tileas.pipeline_iterator"


_WITH_REGIONS = tuple(PREFIX + name for name in ("agent_switch", "produce_one", "consume_one"))


class YieldOp(Operation):
    """Ends the region of an agent, or of a producer or consumer."""

    name = f"{PREFIX}yield"
    traits = (ReturnLike, Terminator, HasParent(*_WITH_REGIONS))
    values = variadic_operand()
    assembly_format = "attr-dict ($values^ `:` type($values))?"


class CreatePipelineOp(Operation):
    """A pipe over the stages of a buffer."""

    name = f"{PREFIX}create_pipeline"
    buffer = operand(BufferType)
    num_stages = attribute(TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute"))
    producer = result(ProducerTokenType)
    consumer = result(ConsumerTokenType)
    assembly_format = "$buffer `stages` $num_stages attr-dict `:` type($buffer)"

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [ProducerTokenType(), ConsumerTokenType()]

    def verify_op(self) -> None:
        if self.num_stages.value != self.buffer.type.stages:
            raise VerifyError(f"has {self.num_stages.value} stages in a buffer of {self.buffer.type.stages}")


class CreateIteratorOp(Operation):
    """An iterator at the first stage of a pipe."""

    name = f"{PREFIX}create_iterator"
    token = operand()
    result = result(PipelineIteratorType)
    assembly_format = "$token attr-dict `:` type($token)"

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [PipelineIteratorType()]

    def verify_op(self) -> None:
        if not isinstance(self.token.type, (ProducerTokenType, ConsumerTokenType)):
            raise VerifyError(f"expects an end of a pipe, but got {self.token.type}")


class IncIterOp(Operation):
    """The iterator at the next stage."""

    name = f"{PREFIX}inc_iter"
    iterator = operand(PipelineIteratorType)
    result = result(PipelineIteratorType)
    assembly_format = "$iterator attr-dict"

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [PipelineIteratorType()]


class _OnToken(Operation):
    """Takes an end of a pipe and gives it back."""

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [operands[0].type]


class ProducerAcquireOp(_OnToken):
    """Waits until a stage is empty."""

    name = f"{PREFIX}producer_acquire"
    traits = (MemoryRead, MemoryWrite)
    token = operand(ProducerTokenType)
    iterator = operand(PipelineIteratorType)
    result = result(ProducerTokenType)
    assembly_format = "$token `,` $iterator attr-dict"


class ProducerCommitOp(_OnToken):
    """Says that the acquired stage is full."""

    name = f"{PREFIX}producer_commit"
    traits = (MemoryRead, MemoryWrite)
    token = operand(ProducerTokenType)
    result = result(ProducerTokenType)
    assembly_format = "$token attr-dict"


class ConsumerWaitOp(_OnToken):
    """Waits until a stage is full."""

    name = f"{PREFIX}consumer_wait"
    traits = (MemoryRead, MemoryWrite)
    token = operand(ConsumerTokenType)
    iterator = operand(PipelineIteratorType)
    result = result(ConsumerTokenType)
    assembly_format = "$token `,` $iterator attr-dict"


class ConsumerReleaseOp(_OnToken):
    """Says that the stage that was waited for is empty."""

    name = f"{PREFIX}consumer_release"
    traits = (MemoryRead, MemoryWrite)
    token = operand(ConsumerTokenType)
    result = result(ConsumerTokenType)
    assembly_format = "$token attr-dict"


class _One(Operation):
    """What happens with one stage, from waiting for it to handing it on; the region's arguments are the tiles in it."""

    def _verify_region(self: Any, types: list[Type], results: list[Type]) -> None:
        block = self.body.block
        found = [argument.type for argument in block.arguments]
        if found != types:
            raise VerifyError(
                "expects region arguement types to match with producer types "
                f"[{_listed(types)}], but got: [{_listed(found)}]"
            )
        yielded = [value.type for value in block.last.operands] if isinstance(block.last, YieldOp) else []
        if yielded != results:
            raise VerifyError(
                "expects region result types to be match with operation result types "
                f"[{_listed(results)}], but got: [{_listed(yielded)}]"
            )


def _listed(types: list[Type]) -> str:
    return ", ".join(map(str, types))


class ProduceOneOp(_One):
    """Fills a stage with what the region yields, tiles of the types of its arguments."""

    name = f"{PREFIX}produce_one"
    traits = (MemoryRead, MemoryWrite, SingleBlock)
    token = operand(ProducerTokenType)
    iterator = operand(PipelineIteratorType)
    producer_types = attribute(ArrayAttr, "the tiles' types")
    result = result(ProducerTokenType)
    body = region()
    assembly_format = "$token `,` $iterator attr-dict-with-keyword $body"

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [ProducerTokenType()]

    def verify_op(self) -> None:
        types = list(self.producer_types)
        self._verify_region(types, types)


class ConsumeOneOp(_One):
    """Gives what the region makes of the tiles in a stage."""

    name = f"{PREFIX}consume_one"
    traits = (MemoryRead, MemoryWrite, SingleBlock)
    token = operand(ConsumerTokenType)
    iterator = operand(PipelineIteratorType)
    consumer_types = attribute(ArrayAttr, "the tiles' types")
    result_token = result(ConsumerTokenType)
    values = variadic_result()
    body = region()
    assembly_format = "$token `,` $iterator attr-dict-with-keyword `:` type(results) $body"

    def verify_op(self) -> None:
        self._verify_region(list(self.consumer_types), [value.type for value in self.values])


_COUNTS = TypedAttribute(DenseArrayAttr, i32, "i32 dense array attribute")


class AgentSwitchOp(Operation):
    """One region for each agent, group after group; all begin together, and what follows begins when all have ended.

    `num_warps` and `max_regs` are the warps of each agent and the registers that its threads may have, 0 as many as
    the kernel's have; `warp_id` is each agent's first warp, one behind the other when it is left out.
    """

    name = f"{PREFIX}agent_switch"
    traits = (MemoryRead, MemoryWrite)
    num_agents_per_group = attribute(_COUNTS)
    num_warps = attribute(_COUNTS, optional=True)
    warp_id = attribute(_COUNTS, optional=True)
    max_regs = attribute(_COUNTS, optional=True)
    agents = variadic_region("each agent's program")
    assembly_format = (
        "`num_agents_per_group` `=` $num_agents_per_group (`num_warps` `=` $num_warps^)? (`warp_id` `=` $warp_id^)?"
        " (`max_regs` `=` $max_regs^)? attr-dict-with-keyword $agents"
    )

    def verify_op(self) -> None:
        count = sum(self.num_agents_per_group.elements)
        if len(self.agents) != count or any(group < 1 for group in self.num_agents_per_group.elements):
            raise VerifyError(f"expects a region for each of {count} agents, but got {len(self.agents)}")
        for name in ("num_warps", "warp_id", "max_regs"):
            given = getattr(self, name)
            if given is not None and (len(given.elements) != count or any(value < 0 for value in given.elements)):
                raise VerifyError(f"expects '{name}' to have a number for each of {count} agents")
        for agent in self.agents:
            if len(agent.blocks) != 1 or not isinstance(agent.block.last, YieldOp) or agent.block.last.operands:
                raise VerifyError(f"expects regions to end with '{YieldOp.name}' of nothing")
        warps = self.warps(0)
        first = 0
        for group in self.num_agents_per_group.elements:
            named = {n for n in warps[first : first + group] if n != INHERITED}
            if len(named) > 1:
                raise VerifyError(f"expects the agents of a group to have one number of warps, but got {sorted(named)}")
            first += group

    def warps(self, inherited: int) -> list[int]:
        """How many warps each agent has, in a kernel of `inherited`."""
        given = self.num_warps.elements if self.num_warps is not None else [INHERITED] * len(self.agents)
        return [n or inherited for n in given]

    def first_warps(self, inherited: int) -> list[int]:
        """The number of each agent's first warp."""
        if self.warp_id is not None:
            return list(self.warp_id.elements)
        counts = self.warps(inherited)
        return [sum(counts[:number]) for number in range(len(counts))]
