"""Bitcode attached to a module: the reference's `blobLinkedLib`, and files named on the command line.

The attribute stands on the module and holds bytes (an array of i8) or the path of a file; in LLVM IR it is
`!tileiras.blobs = !{!1, ...}` with nodes `!{!"path", !"FILE"}` and `!{!"inline", !"BYTES"}`.  Only the
functions of a blob that the kernel reaches are linked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from tileiras.codegen.bitcode_library import REFLECT_VALUES, ArtifactStore, BitcodeLibrary
from tileiras.codegen.ir_text import named_metadata, node
from tileiras.codegen.kernel_metadata import STRING_OPERAND, unescaped_bytes
from tileiras.codegen.llvm_pipeline import external_functions
from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.processes.helper import HelperDied
from tileiras.targets.nvptx import BLOBS_METADATA

MISSING = "blobLinkedLib: bitcode path does not exist or is not a file"
UNREADABLE = "blobLinkedLib: failed to parse embedded bitcode"


def libraries(
    ir: str, paths: Iterable[str] = (), store: ArtifactStore | None = None, location: Locatable | None = None
) -> list[BitcodeLibrary]:
    """The blobs of a module in order, then those of `paths`; raises CompileError for a path that is no file."""
    items = []
    for number in named_metadata(ir, BLOBS_METADATA):
        operands = [unescaped_bytes(text) for text in STRING_OPERAND.findall(node(ir, number) or "")]
        if len(operands) != 2:
            raise CompileError.at(location, UNREADABLE)
        kind, value = operands
        if kind == b"path":
            items.append(_file(os.fsdecode(value), store, location))
        else:
            items.append(BitcodeLibrary("the blob", None, value, store))
    return items + [_file(path, store, location) for path in paths]


def _file(path: str, store: ArtifactStore | None, location: Locatable | None) -> BitcodeLibrary:
    if not os.path.isfile(path):
        raise CompileError.at(location, MISSING, ExitCode.COMPILE_FAILURE)
    return BitcodeLibrary(path, path, store=store)


def closures(
    blobs: Sequence[BitcodeLibrary],
    names: Sequence[str],
    location: Locatable | None = None,
    reflection: Mapping[str, int] = REFLECT_VALUES,
) -> tuple[list[str], list[str]]:
    """Texts with the functions of `names` that the blobs define, and the names that no blob defines.

    A function that a blob calls and does not define comes from another one.  Of several definitions the first is used.
    Raises CompileError for a blob that is not bitcode.
    """
    own: list[list[str]] = [[] for _ in blobs]
    texts = [""] * len(blobs)
    missing: list[str] = []
    pending = list(names)
    while pending:
        changed = set()
        for name in pending:
            number = _definer(blobs, name, location)
            if number is None:
                missing.append(name)
            else:
                own[number].append(name)
                changed.add(number)
        defined = {*missing, *(name for names in own for name in names)}
        pending = []
        for number in sorted(changed):
            texts[number] = blobs[number].closure(own[number], location, reflection)
            pending += [name for name in external_functions(texts[number]) if name not in defined]
        pending = list(dict.fromkeys(pending))
    return [text for text in texts if text], missing


def _definer(blobs: Sequence[BitcodeLibrary], name: str, location: Locatable | None) -> int | None:
    """The first blob that defines a function."""
    try:
        return next((number for number, blob in enumerate(blobs) if blob.defines(name)), None)
    except (RuntimeError, HelperDied):
        raise CompileError.at(location, UNREADABLE) from None
