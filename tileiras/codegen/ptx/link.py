"""Several PTX modules of one target as one module: entries in order, declarations that they share once."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras import codegen
from tileiras.codegen import ptx
from tileiras.diagnostics import CompileError
from tileiras.targets.requirements import FORMS, split


def link(texts: Sequence[str]) -> str:
    """One module with the pieces of all modules.

    Declarations outside the entries that are equal (the shared memory array, a libdevice table) are kept once.  Of
    forms of one target (`sm_90` and `sm_90a`) the module gets the least portable one, which includes the features of
    the others.  Local functions are renamed if an earlier module has a different function of that name: LLVM
    specializes a library's function for the kernel.  Raises CompileError when the modules are for different
    targets, or when two define one name differently.
    """
    modules = [ptx.parse(text) for text in texts]
    debug = _take_debug(modules)
    first = modules[0]
    target = max((module.target for module in modules), key=lambda name: FORMS.index(split(name)[1]))
    pieces: list[str | ptx.PtxEntry] = []
    statements_by_name: dict[str, str] = {}
    for module in modules:
        if (split(module.target)[0], module.address_size) != (split(target)[0], first.address_size):
            raise CompileError.at(None, f"PTX modules for {first.target} and {module.target} cannot be one")
        renamed = _rename(module, statements_by_name)
        for piece in module.pieces:
            if isinstance(piece, ptx.PtxEntry):
                body = _with_names(piece.body, renamed)
                pieces.append(ptx.PtxEntry(piece.linkage, piece.name, piece.parameters, piece.directives, body))
                continue
            result = [text for text in statements(_with_names(piece, renamed)) if _is_new(text, statements_by_name)]
            if result:
                pieces.append("\n".join(result) + "\n\n")
            elif pieces:
                pieces.append("\n\n")
    if debug:
        pieces.append(debug)
    version = max(module.version for module in modules)
    return str(ptx.PtxModule(version, target, first.target_options, first.address_size, pieces))


def _take_debug(modules: Sequence[ptx.PtxModule]) -> str:
    """Renumber files and labels for one module; return the text that belongs at its end."""
    if not any(isinstance(piece, str) and ".file" in piece for module in modules for piece in module.pieces):
        return ""
    merge = codegen.ptx.debug_link.DebugMerge()
    for module in modules:
        pieces = module.pieces
        changed = merge.take([piece if isinstance(piece, str) else piece.body for piece in pieces])
        for number, (piece, text) in enumerate(zip(pieces, changed)):
            if isinstance(piece, ptx.PtxEntry):
                piece.body = text
            else:
                pieces[number] = text
    return merge.text


def statements(text: str) -> list[str]:
    """The declarations and functions of a piece of module scope, with the comments in front of them left out."""
    result: list[str] = []
    current: list[str] = []
    depth = 0
    for line in text.split("\n"):
        code = line.split("//")[0]
        if not current and not code.strip():
            continue
        current.append(line)
        depth += code.count("{") - code.count("}")
        ended = code.rstrip().endswith(";") or (code.rstrip().endswith("}") and len(current) > 1)
        if depth == 0 and ended:
            result.append("\n".join(current))
            current = []
    if any(line.split("//")[0].strip() for line in current):
        result.append("\n".join(current))
    return result


def _rename(module: ptx.PtxModule, statements_by_name: dict[str, str]) -> dict[str, str]:
    """New names for the local functions of a module that are something else in `statements_by_name`."""
    renamed: dict[str, str] = {}
    for piece in module.pieces:
        for statement in [] if isinstance(piece, ptx.PtxEntry) else statements(piece):
            if statement.lstrip().startswith(".func") and "{" in statement:
                name = _name_of(statement)
                new, number = name, 0
                while statements_by_name.get(new, text := _with_names(statement, {name: new})) != text:
                    number += 1
                    new = f"{name}_{number}"
                if new != name:
                    renamed[name] = new
    return renamed


def _with_names(text: str, renamed: dict[str, str]) -> str:
    import re

    if not renamed:
        return text
    names = "|".join(map(re.escape, renamed))
    return re.sub(rf"(?<![\w$%.])(?:{names})(?![\w$])", lambda match: renamed[match.group()], text)


def _is_new(statement: str, statements_by_name: dict[str, str]) -> bool:
    """Whether a statement has to be kept; raises for one that says something else about a known name."""
    name = _name_of(statement)
    earlier = statements_by_name.get(name)
    if earlier is None:
        statements_by_name[name] = statement
        return True
    if earlier != statement:
        name = name.rstrip(";")
        raise CompileError.at(None, f"two kernels define '{name}' differently; compile them one at a time with --entry")
    return False


def _name_of(statement: str) -> str:
    """The name that a statement declares; the statement itself when it declares none."""
    import re

    if statement.lstrip().startswith(".pragma"):
        return statement
    # The name stands before the array bounds, the initialiser, the parameter list or the end.
    head = re.split(r"[\[=;{]", statement, maxsplit=1)[0]
    match = re.search(r"\.func\s+(?:\([^)]*\)\s*)?([\w$%]+)", statement)
    if match is not None:
        # A function may be declared before it is defined.
        return match.group(1) if "{" in statement else f"{match.group(1)};"
    words = re.findall(r"[A-Za-z_$%][\w$]*", head.split("(")[0])
    return words[-1] if words else statement
