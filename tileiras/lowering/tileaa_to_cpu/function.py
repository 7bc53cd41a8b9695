"""A kernel as functions of LLVM: one tile block, and the entry, which runs a range of tile blocks.

    i32 NAME(ptr parameters, ptr grid, i64 first, i64 count, ptr scratch)

`parameters` are the arguments at the offsets of NAME.json, `grid` three i32, `first` and `count` numbers of tile
blocks, x fastest, `scratch` memory of the size in NAME.json, aligned to 64 bytes, for the calling thread alone.
Returns 0, or one more than the number of the assertion that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import Operation

from .elements import Kind, Lanes, kind_of
from .elementwise import literal
from .memory import over, quoted

if TYPE_CHECKING:
    from .lower import Lowering

COORDINATES = ("x", "y", "z", "gx", "gy", "gz")


def _of_axis(prefix: str) -> Any:
    def rule(low: Lowering, op: Any) -> None:
        low.require(op, op.attributes.get("neighbor") is None, "numbers of neighbours")
        kind, name = kind_of(op.results[0].type), f"%{prefix}{op.axis.value}"
        if kind.width != 32:
            name = low.code.value(f"{'sext' if kind.width > 32 else 'trunc'} i32 {name} to {kind.number}")
        low.values[op.results[0]] = Lanes(kind, 1, name)

    return rule


def assert_(low: Lowering, op: Any) -> None:
    code = low.code
    number = len(low.messages)
    low.messages.append({"assert": op.message.value})
    with over(low, op.condition, lanes=1) as at:
        holds = low.lanes(op.condition, at).number(code)
        fails = code.value(f"xor i1 {holds}, true")
        with code.when(fails):
            code.do(f"ret i32 {number + 1}")
            code.start(code.label("never"))


def parameters(function: Operation) -> list[dict[str, Any]]:
    """Names, types, offsets and sizes of the arguments, each aligned to its size, as on GPUs."""
    result: list[dict[str, Any]] = []
    name, offset = function.attributes["sym_name"].value, 0
    for number, argument in enumerate(function.regions[0].blocks[0].arguments):
        kind = kind_of(argument.type)
        pointee = getattr(argument.type, "pointee", None)
        offset = -(-offset // kind.size) * kind.size
        type = f"ptr<{pointee}>" if pointee is not None else str(argument.type)
        result.append({"name": f"{name}_param_{number}", "type": type, "offset": offset, "size": kind.size})
        offset += kind.size
    return result


def _arguments(kinds: Sequence[Kind]) -> list[str]:
    return [f"{kind.stored} %a{number}" for number, kind in enumerate(kinds)]


def block_function(low: Lowering, function: Operation) -> str:
    """The function of one tile block."""
    block = function.regions[0].blocks[0]
    kinds = [kind_of(argument.type) for argument in block.arguments]
    for number, (argument, kind) in enumerate(zip(block.arguments, kinds)):
        low.values[argument] = Lanes(kind, 1, bits=f"%a{number}")
        low.values[argument].number(low.code)
    low.run(block)
    low.finish()
    low.code.do("ret i32 0")
    items = [*_arguments(kinds), *(f"i32 %{name}" for name in COORDINATES), "ptr noalias %arena"]
    lines = [f"define internal i32 @{quoted(low.name + '.block')}({', '.join(items)}) #0 {{", "entry:"]
    return "\n".join([*lines, *low.prologue, *low.code.lines, "}"]) + "\n"


def entry_function(low: Lowering, function: Operation) -> str:
    """The function that a launch calls."""
    described = parameters(function)
    kinds = [kind_of(argument.type) for argument in function.regions[0].blocks[0].arguments]
    lines = [
        f"define i32 @{quoted(low.name)}(ptr %parameters, ptr %grid, i64 %first, i64 %count, ptr %arena)"
        " #0 {",
        "entry:",
    ]
    for number, (kind, parameter) in enumerate(zip(kinds, described)):
        lines.append(f"  %p{number} = getelementptr i8, ptr %parameters, i64 {parameter['offset']}")
        lines.append(f"  %a{number} = load {kind.stored}, ptr %p{number}")
    for number, name in enumerate(COORDINATES[3:]):
        lines.append(f"  %p{name} = getelementptr i32, ptr %grid, i64 {number}")
        lines.append(f"  %{name} = load i32, ptr %p{name}")
        lines.append(f"  %w{name} = zext i32 %{name} to i64")
    items = [*_arguments(kinds), *(f"i32 %{name}" for name in COORDINATES), "ptr %arena"]
    lines += [
        "  %last = add i64 %first, %count",
        "  br label %head",
        "head:",
        "  %number = phi i64 [ %first, %entry ], [ %next, %goes ]",
        "  %more = icmp ult i64 %number, %last",
        "  br i1 %more, label %body, label %end",
        "body:",
        "  %wx = urem i64 %number, %wgx",
        "  %rows = udiv i64 %number, %wgx",
        "  %wy = urem i64 %rows, %wgy",
        "  %wz = udiv i64 %rows, %wgy",
        *(f"  %{name} = trunc i64 %w{name} to i32" for name in "xyz"),
        f"  %status = call i32 @{quoted(low.name + '.block')}({', '.join(items)})",
        "  %failed = icmp ne i32 %status, 0",
        "  br i1 %failed, label %stop, label %goes",
        "goes:",
        "  %next = add i64 %number, 1",
        "  br label %head",
        "stop:",
        "  ret i32 %status",
        "end:",
        "  ret i32 0",
        "}",
    ]
    return "\n".join(lines) + "\n"


def global_definition(op: Any) -> str:
    """A global in memory, as `DenseElementsAttr` has its elements; 4-bit elements share a byte."""
    kind, value = kind_of(op.value.type.element_type), op.value
    bits = value.element_bits()
    if kind.format == "tf32":
        bits = [each << 13 for each in bits]
    if kind.width == 4:
        bits = [bits[i] & 15 | (bits[i + 1] & 15 if i + 1 < len(bits) else 0) << 4 for i in range(0, len(bits), 2)]
    elements = ", ".join(f"{kind.stored} {literal(kind, each)}" for each in bits)
    linkage = "internal " if op.is_private else ""
    word = "constant" if op.constant is not None else "global"
    alignment = max(64, op.alignment.value if op.alignment is not None else 0)
    name = quoted(op.sym_name.value)
    return f"@{name} = {linkage}{word} [{len(bits)} x {kind.stored}] [{elements}], align {alignment}"




FAMILY = {
    "nv_tileaa.get_program_id": _of_axis(""),
    "nv_tileaa.get_num_programs": _of_axis("g"),
    "nv_tileaa.assert": assert_,
}
