"""Where a value of a program comes from: copies, and constants."""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.ir import Operation, Value

_SAME = {
    "cuda_tile.assume", "cuda_tile.reshape", "cuda_tile.broadcast", "cuda_tile.exti", "cuda_tile.trunci",
    "cuda_tile.ptr_to_ptr", "cuda_tile.int_to_ptr",
}  # fmt: skip
"""Operations whose result is their operand's number."""


def source(value: Value) -> Value:
    """The value that `value` is a copy of."""
    while value.defining_op is not None and value.defining_op.name in _SAME:
        value = value.defining_op.operands[0]
    return value


def constant_of(value: Value) -> int | None:
    """The number that `value` is in each execution; None for any other value."""
    op = source(value).defining_op
    if op is None or op.name != "cuda_tile.constant":
        return None
    from tileiras.sim.interpreter.values import elements_of

    flat = elements_of(op.attributes["value"], ()) if op.attributes["value"].is_splat else None
    return int(flat) if flat is not None and flat.dtype.kind in "iub" else None


def users_of_copies(value: Value) -> Iterator[Operation]:
    """The operations that take `value` or a copy of it."""
    worklist = [value]
    while worklist:
        for user in worklist.pop().users:
            yield user
            if user.name in _SAME:
                worklist.append(user.results[0])


def is_copied_to(value: Value, name: str) -> bool:
    """Whether an operation of that name takes `value` or a copy of it."""
    return any(user.name == name for user in users_of_copies(value))
