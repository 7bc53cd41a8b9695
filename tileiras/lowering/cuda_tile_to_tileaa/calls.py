"""Calls of functions that the libraries of a compilation define (`--device-libraries`, `-l`).

A front end passes tokens first, and behind the arguments a tile for each result, which a function could fill; without
tokens a call has arguments only.  A call of scalars is executed by each thread of the tile block; with a tile among the
operands, the function is called for each element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import CompileError, Diagnostic
from tileiras.dialects import nv_tileaa
from tileiras.ir import Operation, SymbolRefAttr, TensorType, Type, element_type_of

from .entry import kernel_spec
from .rules import Table

if TYPE_CHECKING:
    from tileiras.codegen.device_code import Library
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def _preview_call(op: cuda_tile.PreviewCallOp, args: tuple, rewriter: ConversionRewriter) -> list[Any]:
    tokens = [value for value in op.operands if _is_token(value)]
    results = [result.type for result in op.results if not _is_token(result)]
    data = [rewriter.value(value) for value in op.operands if not _is_token(value)]
    if tokens:
        data = _without_destinations(op, data, [rewriter.convert_type(type) for type in results])
    if len(results) > 1:
        raise CompileError.at_operation(op, f"calls '@{op.callee.root}', and expects at most one result of it")
    result = rewriter.convert_type(results[0]) if results else None
    library = _library(op, rewriter)
    _check_types(op, library, [value.type for value in data], result)
    types = [value.type for value in data] + ([result] if results else [])
    callee = SymbolRefAttr(op.callee.root)
    if any(isinstance(type, TensorType) for type in types):
        _check_shapes(op, types[: len(data)], result)
        value = rewriter.insert(nv_tileaa.ExternElementwiseOp(data, callee=callee, result=result)).results[0]
        token = _join(tokens, rewriter) if len(op.results) > 1 else None
    else:
        if _kernel_ctas(op, rewriter) > 1:
            raise CompileError.at_operation(op, "calls a function of scalars, which requires one CTA per tile block")
        before = _join(tokens, rewriter)
        call = nv_tileaa.ExternCallOp(
            before, data, callee=callee, result_token=nv_tileaa.MemTokenType(), value=result
        )  # fmt: skip
        token, value = [*rewriter.insert(call).results, None][:2]
    return [token if _is_token(each) else value for each in op.results]


def _is_token(value: Any) -> bool:
    return value.type.name == "cuda_tile.token"


def _kernel_ctas(op: Operation, rewriter: ConversionRewriter) -> int:
    """The CTAs of a tile block of the kernel around an operation."""
    entry: Any = op
    while entry.parent_op is not None and entry.name != "cuda_tile.entry":
        entry = entry.parent_op
    return kernel_spec(entry, rewriter.data).num_ctas if entry.name == "cuda_tile.entry" else 1


def _join(tokens: list[Any], rewriter: ConversionRewriter) -> Any:
    """One token behind all tokens of a call."""
    values = list(dict.fromkeys(rewriter.value(token) for token in tokens))
    if len(values) == 1:
        return values[0]
    kind = nv_tileaa.MemTokenType()
    result = nv_tileaa.JoinMemTokenOp(values, result=kind) if values else nv_tileaa.CreateMemTokenOp(result=kind)
    return rewriter.insert(result).results[0]


def _without_destinations(op: Operation, data: list[Any], results: list[Type]) -> list[Any]:
    """The arguments of a call with tokens: the last operands, of the types of the results, are not read."""
    arguments = len(data) - len(results)
    if arguments < 0 or [value.type for value in data[arguments:]] != results:
        raise CompileError.at_operation(op, "has tokens, and expects an operand of its type for each result")
    return data[:arguments]


def _library(op: cuda_tile.PreviewCallOp, rewriter: ConversionRewriter) -> Library:
    name, code = op.callee.root, rewriter.data.device_code
    if code is None:
        note = Diagnostic.note(None, "-l FILE --preview=simt links PTX, bitcode, cubins and archives of objects")
        message = f"calls '@{name}', a function of a tile library, whose code is not linked here"
        raise CompileError.at_operation(op, message, notes=[note])
    library = code.find(name, op.location)
    if library is None:
        paths = ", ".join(code.paths)
        raise CompileError.at_operation(op, f"calls '@{name}', which no library defines: {paths}")
    return library


def _check_types(op: cuda_tile.PreviewCallOp, library: Library, types: list[Type], result: Type | None) -> None:
    """Raise CompileError where the types of a call are not those of the function."""
    from tileiras.codegen.device_code import SPELLINGS, TYPES

    words = [_word(type) for type in types]
    returned = None if result is None else _word(result)
    for word in (*words, *([] if returned is None else [returned])):
        if word not in TYPES:
            raise CompileError.at_operation(op, f"passes elements of type '{word}', which no function takes")
    signature = library.signature(op.callee.root)
    if signature is None:
        return
    accepted = SPELLINGS[library.kind]

    def fits(word: str | None, spelled: str | None) -> bool:
        return word == spelled if word is None or spelled is None else spelled in accepted.get(word, "").split()

    pairs = zip(words, signature.parameters)
    if (
        len(words) != len(signature.parameters)
        or not fits(returned, signature.result)
        or not all(fits(word, spelled) for word, spelled in pairs)
    ):
        called = f"({', '.join(words)}) -> {returned or 'void'}"
        defined = f"({', '.join(signature.parameters)}) -> {signature.result or 'void'}"
        message = f"calls '@{op.callee.root}' as {called}, but '{library.path}' defines it as {defined}"
        raise CompileError.at_operation(op, message)


def _word(type: Type) -> str:
    element = element_type_of(type)
    return "ptr" if isinstance(element, nv_tileaa.PtrType) else str(element)


def _check_shapes(op: Operation, types: list[Type], result: Type | None) -> None:
    shapes = {type.shape for type in (*types, result) if isinstance(type, TensorType)}
    if len(shapes) > 1 or not isinstance(result, TensorType):
        message = "calls a function for each element, and expects operands and a result of one shape, or scalars"
        raise CompileError.at_operation(op, message)
    if not any(isinstance(type, TensorType) for type in types):
        raise CompileError.at_operation(op, "calls a function for each element, and expects an operand with elements")


def patterns() -> Table:
    return {"preview$call": _preview_call}
