"""Modules, operations, blocks and values as MLIR's Python bindings name them: views of the operations of `tileiras.ir`.

Errors of the text are CompileError, which is called `MLIRError` here as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

import tileiras
from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.ir import Block as CoreBlock
from tileiras.ir import Operation as CoreOperation
from tileiras.ir import Region as CoreRegion
from tileiras.ir import Value as CoreValue

MLIRError = CompileError

Viewed = TypeVar("Viewed")


class WalkOrder(Enum):
    PRE_ORDER = 0
    POST_ORDER = 1


class WalkResult(Enum):
    ADVANCE = 0
    SKIP = 1
    INTERRUPT = 2


class Context:
    """The owner of a module.  Types and attributes of this IR belong to no context, so that it holds two properties
    only; one context is current within its `with`."""

    current: Context | None = None

    def __init__(self) -> None:
        self.allow_unregistered_dialects = False
        """Whether text may have operations of unknown dialects."""
        self._outer: list[Context | None] = []

    def __enter__(self) -> Context:
        self._outer.append(Context.current)
        Context.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        Context.current = self._outer.pop()


def _context(context: Context | None) -> Context:
    return context or Context.current or Context()


class _View(Generic[Viewed]):
    """A view of an object of the core."""

    __slots__ = ("_viewed", "context")

    def __init__(self, viewed: Viewed, context: Context) -> None:
        self._viewed = viewed
        self.context = context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _View) and self._viewed is other._viewed

    def __hash__(self) -> int:
        return hash(id(self._viewed))


class ViewList(Sequence[Any]):
    """Views of the elements that an operation, region or block has at the time."""

    __slots__ = ("_views",)

    def __init__(self, views: list[Any]) -> None:
        self._views = views

    def __len__(self) -> int:
        return len(self._views)

    def __getitem__(self, index: Any) -> Any:
        return self._views[index]


class Value(_View[CoreValue]):
    """A result or a block argument."""

    @property
    def type(self) -> Any:
        return self._viewed.type

    @property
    def owner(self) -> Operation | Block:
        owner = self._viewed.owner
        return Block(owner, self.context) if isinstance(owner, CoreBlock) else Operation(owner, self.context)

    @property
    def uses(self) -> Iterator[Operation]:
        """The operations that use the value, each once."""
        return (Operation(user, self.context) for user in self._viewed.users)


class Block(_View[CoreBlock]):
    @property
    def operations(self) -> ViewList:
        return ViewList([Operation(op, self.context) for op in self._viewed.operations])

    @property
    def arguments(self) -> ViewList:
        return ViewList([Value(each, self.context) for each in self._viewed.arguments])

    @property
    def owner(self) -> Operation | None:
        op = self._viewed.parent_op
        return None if op is None else Operation(op, self.context)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)


class Region(_View[CoreRegion]):
    @property
    def blocks(self) -> ViewList:
        return ViewList([Block(each, self.context) for each in self._viewed.blocks])

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)


class Operation(_View[CoreOperation]):
    @classmethod
    def parse(cls, source: str, *, source_name: str = "", context: Context | None = None) -> Operation:
        """The only operation of a text, verified.  Raises MLIRError."""
        where = _context(context)
        operations = tileiras.ir.parse_operations(
            source, source_name or "-", allow_unregistered=where.allow_unregistered_dialects
        )
        if len(operations) != 1:
            raise CompileError.at(None, f"expected one operation, got {len(operations)}", ExitCode.INVALID_INPUT)
        return _verify(cls(operations[0], where))

    @property
    def operation(self) -> Operation:
        return self

    @property
    def name(self) -> str:
        return self._viewed.name

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by name; changes of the dictionary are changes of the operation."""
        return self._viewed.attributes

    @property
    def location(self) -> Any:
        return self._viewed.location

    @property
    def operands(self) -> ViewList:
        return ViewList([Value(each, self.context) for each in self._viewed.operands])

    @property
    def results(self) -> ViewList:
        return ViewList([Value(each, self.context) for each in self._viewed.results])

    @property
    def regions(self) -> ViewList:
        return ViewList([Region(each, self.context) for each in self._viewed.regions])

    @property
    def parent(self) -> Operation | None:
        op = self._viewed.parent_op
        return None if op is None else Operation(op, self.context)

    def walk(
        self, callback: Callable[[Operation], WalkResult], walk_order: WalkOrder = WalkOrder.POST_ORDER
    ) -> WalkResult:
        """Call a function for the operation and all inside it, until it returns INTERRUPT; SKIP, in pre-order, leaves
        out the operations inside."""
        result = callback(self) if walk_order is WalkOrder.PRE_ORDER else WalkResult.ADVANCE
        if result is WalkResult.ADVANCE:
            for region in self.regions:
                for block in region:
                    for op in block:
                        if op.walk(callback, walk_order) is WalkResult.INTERRUPT:
                            return WalkResult.INTERRUPT
            if walk_order is WalkOrder.POST_ORDER:
                result = callback(self)
        return WalkResult.ADVANCE if result is WalkResult.SKIP else result

    def verify(self) -> bool:
        """True.  Raises MLIRError for invalid operations."""
        _verify(self)
        return True

    def get_asm(
        self, *, enable_debug_info: bool = False, print_generic_op_form: bool = False, use_local_scope: bool = False
    ) -> str:
        return tileiras.ir.print_op(
            self._viewed, generic=print_generic_op_form, locations=enable_debug_info, aliases=not use_local_scope
        )

    def print(self, **options: bool) -> None:
        """Print the text of `get_asm`, which has the same options."""
        print(self.get_asm(**options), end="")

    def __str__(self) -> str:
        return self.get_asm()


class Module(Operation):
    """A builtin.module."""

    @classmethod
    def parse(cls, source: str, *, source_name: str = "", context: Context | None = None) -> Module:  # type: ignore[override]
        """The verified module of a text; operations without one are put into a builtin.module.  Raises MLIRError."""
        where = _context(context)
        module = tileiras.ir.parse_module(
            source, source_name or "-", allow_unregistered=where.allow_unregistered_dialects
        )
        return _verify(cls.of(module, where))

    @classmethod
    def parseFile(cls, path: str | os.PathLike, context: Context | None = None) -> Module:  # noqa: N802  MLIR's name
        with open(path, encoding="utf-8") as file:
            return cls.parse(file.read(), source_name=os.fspath(path), context=context)

    @classmethod
    def of(cls, operation: CoreOperation, context: Context | None = None) -> Module:
        """The view of a builtin.module of `tileiras.ir`; another operation (`tileiras.parse` returns a
        cuda_tile.module) is moved into a new one."""
        if operation.name != "builtin.module":
            block = CoreBlock()
            block.append(operation)
            module = tileiras.ir.lookup_operation("builtin.module")
            operation = module.create((), (), {}, [CoreRegion([block])], (), operation.location)
        return cls(operation, _context(context))

    @property
    def operation(self) -> Operation:
        return Operation(self._viewed, self.context)

    @property
    def body(self) -> Block:
        return Block(self._viewed.regions[0].block, self.context)

    def dump(self) -> None:
        self.print()


def _verify(view: Any) -> Any:
    engine = DiagnosticEngine()
    tileiras.ir.verify(view._viewed, engine)
    engine.raise_if_errors(ExitCode.INVALID_INPUT)
    return view


def unwrap(operation: Operation | CoreOperation) -> CoreOperation:
    """The operation of the core."""
    return operation._viewed if isinstance(operation, _View) else operation
