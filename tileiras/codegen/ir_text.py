"""Finding metadata and declarations in LLVM IR text without looking at every line of it, and places in its files."""

from __future__ import annotations

from tileiras.diagnostics import FilePosition, KnownPlace, Locatable


def named_metadata(ir: str, name: str) -> list[str]:
    """The operands of `!name = !{!1, !2}`, each as `!1`; none when the module has no such metadata."""
    content = node(ir, f"!{name}")
    return [operand.strip() for operand in content.split(",")] if content else []


def node(ir: str, name: str) -> str | None:
    """The text between the braces of the line `NAME = !{...}`."""
    head = f"{name} = !{{"
    start = 0 if ir.startswith(head) else ir.find("\n" + head) + 1
    if not start and not ir.startswith(head):
        return None
    end = ir.find("\n", start)
    line = ir[start : len(ir) if end < 0 else end].rstrip()
    return line[len(head) : -1] if line.endswith("}") else None


def declarations_start(ir: str) -> int:
    """Where the first line that declares a function begins, the text's end without one."""
    if ir.startswith("declare "):
        return 0
    result = ir.find("\ndeclare ")
    return len(ir) if result < 0 else result + 1


def line_of_file(location: Locatable | None, line: int, column: int) -> Locatable | None:
    """A place in the file of LLVM IR that a location is in, None when it is in another kind of file or in none."""
    position = location.resolve() if location is not None else None
    if position is None or not position.filename.endswith(".ll"):
        return None
    return KnownPlace(FilePosition(position.filename, line, column), f'loc("{position.filename}":{line}:{column})')
