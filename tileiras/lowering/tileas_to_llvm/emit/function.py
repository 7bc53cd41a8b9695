"""One `nv_tileaa.func` of nv_tileas operations to one `llvm.func`.

A pattern is a function `(op, args, lowering) -> result | sequence of results | None`, found by the operation's class.
`args` are the operands as LLVM values: a vector for a tensor with several registers, a scalar otherwise; views,
memrefs and tokens have no LLVM value and are read from their defining operation instead (args holds None).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.ranges import RangeAnalysis
from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import (
    Block,
    Operation,
    SymbolRefAttr,
    TensorType,
    Type,
    Value,
    VerifyError,
    i32,
)
from tileiras.layout import LinearLayout
from tileiras.layout.arena import ARENA_ALIGNMENT
from tileiras.layout.encoding import held_layout
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target
from tileiras.targets.sm import WARP_SIZE

from .emitter import Emitter
from .kernel_signature import define_kernel, is_in_cluster, num_ctas_of
from .types import count_of, scalar_type, vector_of

if TYPE_CHECKING:
    from ..elementwise.float_relations import FloatRelations
    from ..elementwise.masks import Mask

Pattern = Callable[[Any, Sequence[Any], "FunctionLowering"], Any]

SHARED_ARENA = "smem"
"""The one array of dynamic shared memory; its size comes from the launch."""

FAILURE = "failed to convert nv_tileas to llvm"

class Agent(NamedTuple):
    """Warps that run one program: the first, and how many."""

    first: int
    warps: int


class Area(NamedTuple):
    """A scratch area: its address, and its attribute in nv_tileas."""

    base: Value
    scratch: tileas.ScratchAttr

    @property
    def alignment(self) -> int:
        """The known alignment of the address."""
        return alignment_of(self.scratch.offset)


def alignment_of(offset: int) -> int:
    """The known alignment of an address in the arena."""
    return min(offset & -offset or ARENA_ALIGNMENT, ARENA_ALIGNMENT)


class FunctionLowering:
    """The state of one function's lowering; patterns use `emit` and the helpers below."""

    def __init__(
        self,
        func: aa.FuncOp,
        pattern: Callable[[type[Operation]], Pattern | None],
        target: Target,
        engine: DiagnosticEngine,
        flush_to_zero: bool = False,
        approximate: bool = False,
        variables: bool = False,
    ) -> None:
        self.func = func
        self.variables = variables
        """Whether values of the source's variables are kept for debuggers."""
        self.target = target
        self.engine = engine
        self.flush_to_zero = flush_to_zero
        self.approximate = approximate
        self.pattern = pattern
        self._agent = Agent(0, tileas.block_warps(func))
        self.is_one_thread = False
        """Whether the emitted code is executed by one thread alone."""
        self.pipes: dict[Operation | None, Any] = {}
        """Pipe -> the addresses of its mbarriers (`pipes.Pipe`)."""
        self.num_ctas = num_ctas_of(func)
        self.is_in_cluster = is_in_cluster(func)
        """Whether each launch has made the CTA one of a cluster."""
        self.may_be_in_cluster = self.is_in_cluster or tileas.CLUSTER_BLOCKS in func.attributes
        """Whether the CTA may have been launched with others in a cluster."""
        self.facts = DivisibilityAnalysis(func)
        self.ranges = RangeAnalysis()
        self.values: dict[Value, Any] = {}
        self.relations: FloatRelations | None = None
        """Relations known from comparisons of floats; created with the first of them."""
        self.masks: dict[Value, Mask] = {}
        """Results of comparisons of numbers of elements with limits."""
        self.declared: dict[str, llvm.LLVMFuncOp] = {}
        self.strings: dict[str, str] = {}
        self.module_memory: list[llvm.GlobalOp] = []
        """Variables of the module that the function uses in addition to those of the source."""
        self.allocations: dict[Value, Value] = {}
        """Result of an `alloca` -> the address returned by the heap, as an integer."""
        self._areas: list[tileas.ScratchAttr] = []
        """The remaining scratch areas of the operation that is being lowered."""
        self.counters: list[Value] = []
        """The counters of the loops around the current place, the innermost last."""
        self.copies_exist: Value | None = None
        """The condition of the predicated branch that is lowered: its copies are of no bytes where it does not hold."""
        self._loops_out: int | None = None
        """The number of the counter in whose loop the current operation rematerializes; None if it does not."""
        self._heads: list[tuple[Block, Block]] = []
        """Operations to insert at the beginning of blocks, and these blocks."""
        self._zeros = 0
        self.shared_bytes = tileas.number_of(func, tileas.SHARED_MEMORY) or 0
        self.prepared: dict[Operation, Any] = {}
        """Results of operations that were lowered together with an earlier one."""
        self.postponed: set[Operation] = set()
        """Operations that are lowered with a later one, in parts."""
        self.narrow: dict[LinearLayout, LinearLayout] = {}
        """Layout -> its restriction to the registers of the part that is being lowered."""
        self.result = define_kernel(func, engine, flush_to_zero)
        self.entry = self.result.body.blocks[0]
        self.emit = Emitter(self.entry, func.location)

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> llvm.LLVMFuncOp:
        """The lowered function.  Raises CompileError (code 5), located, with all failures."""
        old = self.func.body.blocks[0]
        for argument, new in zip(old.arguments, self.entry.arguments):
            self.values[argument] = new
        if tileas.FIRST_CTA in self.func.attributes:
            self._leave_to_first_cta()
        self.block(old)
        self.emit.sweep()
        for head, block in [(self.emit.prologue, self.entry), *self._heads]:
            first = block.first
            for op in list(head.operations):
                op.detach()
                block.insert_before(op, first)
        if self.engine.remarks:
            name, arguments = self.func.sym_name.value, {"Available": f"{self.target.shared_per_cta} bytes"}
            reason = Reason("memory.allocated", bytes=self.shared_bytes)
            self.engine.emit(Remark(reason, self.func.location, arguments=arguments, function=name))
        return self.result

    def _leave_to_first_cta(self) -> None:
        """End all CTAs of the cluster but the first at once, so that work that is not divided is done once."""
        emit = self.emit
        body, others = self.new_block(), self.new_block()
        first = emit.icmp("eq", emit.register("cluster.ctarank"), emit.integer(0))
        emit.insert(llvm.CondBrOp(first, [], [], trueDest=body, falseDest=others))
        emit.block = others
        emit.insert(llvm.ReturnOp())
        emit.block = body

    def block(self, block: Block) -> None:
        """Lower the operations of a block to the current place."""
        for op in block.operations:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        if op in self.postponed:
            return
        if op in self.prepared:
            self.values[op.results[0]] = self.prepared.pop(op)
            return
        pattern = self.pattern(type(op))
        if pattern is None and op.dialect == "debuginfo":
            from .variables import lower_variable as pattern
        if pattern is None:
            raise self.failure(op, f"failed to legalize operation '{op.name}'")
        self.emit.location = op.location
        outer, exchanges = self._loops_out, tileas.SCRATCH in op.attributes
        if exchanges:
            self._areas = list(tileas.scratch_areas(op))
        if tileas.REMATERIALIZE in op.attributes:
            self._loops_out = tileas.number_of(op, tileas.REMATERIALIZE)
        try:
            args = [self.values.get(v) for v in op.operands]
            new = pattern(op, args, self)
        except VerifyError as error:
            raise self.failure(op, f"'{op.name}' op {error.message}" if error.prefix else error.message) from None
        self._loops_out = outer
        if exchanges:
            self._areas = []
        results = op.results
        if not results:
            return
        if len(results) == 1 and (new is None or isinstance(new, Value)):
            new = (new,)
        for result, value in zip(results, new):
            if value is not None:
                self.values[result] = value

    def failure(self, op: Operation, message: str) -> CompileError:
        self.engine.error(op.location, message)
        self.engine.error(op.location, FAILURE)
        return CompileError(self.engine.diagnostics, ExitCode.COMPILE_FAILURE)

    # -- rematerialization --------------------------------------------------------------------------------------------

    @property
    def _iteration(self) -> Value | None:
        """The counter of the loop in whose iterations the current operation rematerializes; None where it does not."""
        return None if self._loops_out is None else self.counters[-1 - self._loops_out]

    def opaque(self, value: Value) -> Value:
        """`value`, hidden from LLVM by an empty inline assembly where the operation rematerializes.

        LLVM moves computations on values from outside a loop to before the loop, and holds their results in many
        registers; one opaque value is one register.
        """
        if self._iteration is None or self.emit.number(value) is not None:
            return value
        constraint = "l" if value.type.width == 64 else "r"
        return self.emit.assembly("", f"={constraint},0", [value], value.type)

    def opaque_pointer(self, pointer: Value) -> Value:
        """Likewise for a pointer into shared memory."""
        if self._iteration is None:
            return pointer
        address = self.emit.insert(llvm.PtrToIntOp(pointer, res=i32))
        return self.emit.insert(llvm.IntToPtrOp(self.opaque(address), res=pointer.type))

    def rematerialized(self) -> AbstractContextManager[Any]:
        """Context: recomputes values that depend on the thread's number if the operation rematerializes."""
        counter = self._iteration
        return nullcontext() if counter is None else self.emit.of_thread(self.thread_of_iteration(counter))

    def rematerialize_behind(self, counter: Value) -> None:
        """From the current block on, the one after a loop, recomputes values that depend on the thread's number: they
        need not be held through the loop."""
        head, block = Block(), self.emit.block
        self._heads.append((head, block))
        self.emit.block = head
        thread = self.thread_of_iteration(counter)
        self.emit.block = block
        self.emit.from_here(head, thread)

    def thread_of_iteration(self, counter: Value) -> Value:
        """The thread's number plus a zero that depends on a loop's counter, which neither LLVM nor ptxas looks through:
        n * (n + k) is even for every odd k.

        Both move invariant computations out of loops, and ptxas then spills the results.  Each use has a `k` of its
        own, so that one is not held for the next.
        """
        emit = self.emit
        self._zeros += 1
        number = emit.sext(counter, i32)
        text = f"{{ .reg .b32 n; add.s32 n, $1, {2 * self._zeros - 1}; mul.lo.s32 n, n, $1; and.b32 $0, n, 1; }}"
        return emit.insert(llvm.AddOp(emit.register("tid.x"), emit.assembly(text, "=r,r", [number], i32)))

    # -- used by patterns ---------------------------------------------------------------------------------------------

    def value(self, old: Value) -> Any:
        """The LLVM value of an operand."""
        return self.values[old]

    def layout(self, value: Value) -> LinearLayout:
        """The layout of a tensor; a scalar is held once by every thread."""
        layout = held_layout(value.type, self.num_warps)
        return self.narrow.get(layout, layout)

    def matched(self, args: Sequence[Value]) -> list[Value]:
        """The arguments with scalars spread over the vectors beside them.

        In a function all of them agree; in a combiner, whose body is written for scalars, constants do not.
        """
        count = max(count_of(a.type) for a in args)
        return [a if count_of(a.type) == count else self.emit.splat(a, count) for a in args]

    def like(self, value: Value, type: Type) -> Any:
        """The LLVM type with the elements of `type` (a type of nv_tileas) and as many of them as `value` has."""
        element = scalar_type(type.element_type if isinstance(type, TensorType) else type)
        return vector_of(element, count_of(value.type))

    def external_call(self, name: str, args: Sequence[Value], result: Any, **attributes: Any) -> Any:
        """A call of a function of the driver or of a library; its result, if it has one."""
        self._declare(name, args, result)
        return self.emit.insert(llvm.CallOp(list(args), callee=SymbolRefAttr(name), res=result, **attributes))

    def _declare(self, name: str, args: Sequence[Value], result: Type | None) -> None:
        if name not in self.declared:
            types = [a.type for a in args]
            declaration = llvm.LLVMFuncOp.declare(name, types, llvm.void if result is None else result)
            declaration.location = self.emit.location
            self.declared[name] = declaration

    def string(self, text: str) -> SymbolRefAttr:
        """The symbol of a zero-terminated string of this function."""
        name = self.strings.setdefault(text, f"{self.func.sym_name.value}_string_{len(self.strings)}")
        return SymbolRefAttr(name)

    # -- shared memory and barriers -----------------------------------------------------------------------------------

    def barrier(self, number: int = 0, threads: int | None = None) -> None:
        """All threads of the CTA arrive, or `threads` of them, and see all earlier writes to shared and global
        memory.  A CTA of one warp waits as an agent of one does, by `bar.warp.sync`."""
        emit = self.emit
        if threads is None and tileas.block_warps(self.func) == 1:
            threads = WARP_SIZE
        if threads is None:
            emit.insert(THREAD["barrier"]())
        else:
            emit.insert(THREAD["barrier"](emit.integer(number), emit.integer(threads)))

    def buffer(self, op: Any) -> Value:
        """The address of the buffer that `op` allocates."""
        if op.offset is None:
            raise VerifyError("has no place in shared memory: run 'tileas-optimize-alloc-tensor' first")
        return self._shared(op.offset.value)

    def area(self, op: Operation | None = None) -> Area:
        """The next scratch area of the operation that is being lowered, or the first one of `op`."""
        areas = self._areas if op is None else list(tileas.scratch_areas(op))
        if not areas:
            raise VerifyError("has no scratch memory: run 'tileas-optimize-alloc-tensor' first")
        scratch = areas.pop(0)
        if scratch.barrier is None:
            raise VerifyError("has scratch memory without a barrier: run 'tileas-insert-barriers' first")
        return Area(self._shared(scratch.offset), scratch)

    def _shared(self, offset: int) -> Value:
        """The address of a byte of the arena."""
        emit = self.emit

        def arena() -> Value:
            return emit.insert(llvm.AddressOfOp(global_name=SymbolRefAttr(SHARED_ARENA), res=llvm.LLVMPointerType(3)))

        base = emit.once("smem", arena)
        return emit.once(("smem", offset), lambda: emit.gep(base, offset))

    def before_stores(self, area: Area, number: int = 0) -> None:
        """Before the stores of round `number`."""
        if number or area.scratch.waits:
            self.barrier(area.scratch.barrier, area.scratch.threads)

    def before_loads(self, area: Area) -> None:
        """Between the stores and the loads of a round."""
        self.barrier(area.scratch.barrier, area.scratch.threads)

    # -- agents -------------------------------------------------------------------------------------------------------

    @property
    def num_warps(self) -> int:
        """The number of warps that execute the operations being lowered: those of the agent."""
        return self._agent.warps

    @property
    def thread_masks(self) -> tuple[int, int]:
        """The bits of lane and warp that are clear only in the agent's first thread."""
        return 31, (1 << (self.num_warps - 1).bit_length()) - 1

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Context: the emitted code is executed by one thread of the agent, the one that `elect.sync` elects in its
        first warp."""
        self.is_one_thread = True
        with self.emit.region():
            yield
        self.is_one_thread = False

    @contextmanager
    def agent(self, first: int, warps: int) -> Iterator[None]:
        """Context: the code emitted from the current block on is executed by `warps` warps from warp `first` on."""
        outer, emit, head, block = self._agent, self.emit, Block(), self.emit.block
        self._agent = Agent(first, warps)
        self._heads.append((head, block))
        emit.block = head
        thread = emit.register("tid.x")
        if first and first % warps == 0 and warps & warps - 1 == 0:
            thread = emit.and_(thread, 32 * warps - 1)
        elif first:
            thread = emit.value(emit.sub(thread, 32 * first))
        emit.block = block
        with emit.region():
            emit.from_here(head, thread)
            yield
        self._agent = outer

    def new_block(self, types: Sequence[Any] = (), dominator: Block | None = None) -> Block:
        """A block at the end of the function; all paths to it lead through `dominator`, by default the current
        block."""
        block = Block(types)
        self.result.body.append(block)
        self.emit.dominated(block, dominator or self.emit.block)
        return block
