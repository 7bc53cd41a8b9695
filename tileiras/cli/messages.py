"""Messages of the command during compilation: warnings, errors, and the requested remarks.

Diagnostics on bytecode have the vendor's form, which front ends parse:

    loc("kernel.py":12:8): error: Incompatibility with architecture 'sm_80': unsupported type 'f8E4M3FN'
        y = ct.load(x, ...)
            ^
    error: failed to compile Tile IR program

Text has `kernel.mlir:12:8: error: ...` instead (`tileiras.diagnostics`).  A place is a line of the user's program where
the bytecode has debug information; else a note has the byte that the operation starts at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import tileiras
from tileiras.cli import process
from tileiras.cli.outputs import Output, Outputs
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity, excerpt, render, to_json, unique
from tileiras.diagnostics.remarks import KINDS, Remark, RemarkFilter, remarks_of, render_command_line, to_yaml

UNCOMPILED = "failed to compile Tile IR program"
NO_BYTECODE = "input does not correspond to Tile IR bytecode"
UNVERIFIED = "verification failed for deserialized cuda_tile::ModuleOp"

CLOSING = frozenset((UNCOMPILED, NO_BYTECODE, UNVERIFIED))

DEFAULT_REMARKS = "tileir_remarks.yaml"


class Report:
    """Destinations of the command's messages, from its options `values`; `bytecode` is the input if it is bytecode."""

    def __init__(self, values: Mapping[str, Any], outputs: Outputs) -> None:
        self.bytecode: bytes | None = None
        self.json = values.get("diagnostics") == "json"
        result = [(kind, values.get(f"remarks-{kind}")) for kind in KINDS]
        self.remarks = RemarkFilter.parse((k, c) for k, c in [("", values.get("remarks")), *result] if c is not None)
        self._outputs = outputs
        self._sarif = outputs.writes(values["sarif"], "--sarif") if "sarif" in values else None
        self._told: list[Diagnostic] = []
        """Everything printed, for the file of `--sarif`."""
        self._remark_file: Output | None = None
        if self.remarks.any and values.get("remark-format") == "yaml":
            path = values.get("remarks-output-file") or DEFAULT_REMARKS
            self._remark_file = outputs.writes(path, "--remarks-output-file")

    def unwritable(self) -> CompileError | None:
        """The error to raise (code 3, as in the vendor's tool) if the file for remarks cannot be written."""
        file = self._remark_file
        problem = file.problem() if file is not None else None
        if file is None or problem is None:
            return None
        message = f"Error opening remark output file '{file.path}': {problem.strerror}"
        failed = CompileError.at(None, "failed to enable optimization remarks", ExitCode.INVALID_INPUT)
        if self.json:
            failed.diagnostics.insert(0, Diagnostic(Severity.ERROR, None, message))
        else:
            # The vendor's tool writes the first line without a severity.
            process.complain(message)
        return failed

    def failure(self, error: CompileError) -> None:
        """Print the error, and the line that names its kind."""
        damaged = isinstance(error, tileiras.bytecode.BytecodeError)
        closing: tuple[str, ...] = ()
        if error.code == ExitCode.COMPILE_FAILURE:
            closing = (UNCOMPILED,)
        elif error.code == ExitCode.INVALID_INPUT and self.bytecode is not None:
            closing = (NO_BYTECODE,) if damaged else (UNVERIFIED, NO_BYTECODE)
        word = ExitCode(error.code).word
        closing_lines = [Diagnostic(Severity.ERROR, None, line, word=word) for line in closing]
        self._print([*error.diagnostics, *closing_lines], damaged)
        if error.code == ExitCode.COMPILE_FAILURE:
            try:
                self.without_remarks()
            except CompileError as unwritten:  # the exit code stays that of the failure
                self._print(unwritten.diagnostics)
        # The closing lines are about the run, not about a line of the kernel.
        self._told = [diagnostic for diagnostic in self._told if diagnostic.message not in CLOSING]
        self.write_sarif()

    def write_sarif(self) -> None:
        """Write the file of `--sarif`, if it is requested."""
        if self._sarif is not None:
            data = tileiras.check.sarif.of_diagnostics(self._told, tileiras.__version__)
            self._outputs.publish([(self._sarif, data)])

    def without_remarks(self) -> None:
        """Write an empty file for remarks, for a compilation that ends before it has any."""
        self._write_remarks([])

    def success(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Print warnings and the requested remarks."""
        diagnostics = list(diagnostics)
        self._print([d for d in diagnostics if d.severity is Severity.WARNING])
        remarks = [d for d in remarks_of(diagnostics) if self.remarks.admits(d)]
        self._told += remarks
        if self._remark_file is not None:
            self._write_remarks(remarks)
        elif self.json:
            print(to_json(remarks), end="", file=sys.stderr)
        elif remarks:
            process.complain(render_command_line(remarks).removesuffix("\n"))

    def remark(self, remark: Remark | None) -> None:
        """Print a remark about the command line, if remarks are requested."""
        if remark is not None and self.remarks.any:
            self._print([remark])

    def _write_remarks(self, remarks: Iterable[Remark]) -> None:
        if self._remark_file is not None:
            self._outputs.publish([(self._remark_file, to_yaml(remarks).encode("utf-8", "surrogateescape"))])

    def _print(self, diagnostics: list[Diagnostic], damaged: bool = False) -> None:
        self._told += diagnostics
        if self.json:
            print(to_json(diagnostics), end="", file=sys.stderr)
        elif diagnostics:
            text = render(diagnostics) if self.bytecode is None else render_for_bytecode(
                diagnostics, damaged, self.bytecode
            )
            process.complain(text)


def _operation_at(offset: int, bytecode: bytes) -> str:
    """The names of the operation at a byte and of its kernel; empty if they cannot be determined."""
    try:
        module = tileiras.bytecode.read_module(bytecode)
    except CompileError:  # reading it again is for the message only
        return ""
    for op in module.walk():
        if isinstance(op.location, tileiras.ir.BytecodeLoc) and op.location.offset == offset:
            around = op
            while around is not None and "sym_name" not in around.attributes:
                around = around.parent_op
            within = f" of '@{around.attributes['sym_name'].value}'" if around not in (None, op) else ""
            return f", '{op.name}'{within}"
    return ""


def render_for_bytecode(diagnostics: Iterable[Diagnostic], damaged: bool = False, bytecode: bytes = b"") -> str:
    """Diagnostics about bytecode for a terminal; `damaged` says that they are about bytes that cannot be read."""
    lines: list[str] = []
    last = None
    pending = unique(diagnostics)[::-1]
    while pending:
        diagnostic = pending.pop()
        pending += diagnostic.notes[::-1]
        severity, location, position = diagnostic.severity.value, diagnostic.location, diagnostic.position
        in_bytecode = isinstance(location, tileiras.ir.BytecodeLoc)
        place = position[:3] if position is not None else location if in_bytecode else None
        if position is not None:
            # Front ends look for the column that they wrote, which cuTile Python counts from 0 as Python's ast does.
            column = place[2] - (place[2] > 0 and place[0].endswith(".py"))
            lines.append(f'loc("{place[0]}":{place[1]}:{column}): {severity}: {diagnostic.message}')
            lines += excerpt(position) if position.line > 0 and place != last else []
        elif damaged and place is not None:
            where = f" of the file, in the {place.section} section" if place.section else ""
            lines.append(f"{severity}: error at offset {place.offset}{where}: {diagnostic.message}")
        else:
            lines.append(f"{severity}: {diagnostic.message}")
            if place is not None and place != last:
                lines.append(f"note: in {place}{_operation_at(place.offset, bytecode)}")
        last = place or last
    return "\n".join(lines)
