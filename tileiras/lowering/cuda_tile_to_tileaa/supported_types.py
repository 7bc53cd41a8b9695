"""Refuses element types that the target has no instructions for, as the reference compiler does.

All conversions of narrow floats can be computed with integer instructions, and are when the option `legalize-types`
asks for it; a kernel that does so without knowing it would be many times slower than its author expects.
"""

from __future__ import annotations

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.ir import Operation, Type
from tileiras.targets.sm import Target


def check_supported_types(module: Operation, target: Target) -> None:
    """Raise CompileError at the first operation with a value of a type that the target does not have.

    Parameters of an entry that nothing uses are no values: launching such a kernel needs no instruction.
    """
    supported: set[Type] = set()
    for op in module.walk():
        types = {value.type: None for value in (*op.results, *op.operands)}
        for type in () if supported.issuperset(types) else types:
            refused = target.unsupported(type)
            if refused is not None:
                message = f"Incompatibility with architecture '{target.name}': unsupported type '{refused}'"
                note = Diagnostic.note(None, "--legalize-types computes with it by conversion, slowly")
                raise CompileError(
                    [Diagnostic(Severity.ERROR, op.location, message, [note])], ExitCode.COMPILE_FAILURE
                )
            supported.add(type)
