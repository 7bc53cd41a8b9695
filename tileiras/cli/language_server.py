"""tileiras language-server: the diagnostics of Tile IR text in an editor (Language Server Protocol, on standard input
and output).

A document is parsed and verified at each change.  With --gpu-name it is also compiled when it is opened or saved, so
that errors of later stages, warnings and remarks appear at their lines.  Needs the package pygls (extra `editor`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import tileiras
from tileiras import cli
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.options import CompileOptions
from tileiras.stages import units

if TYPE_CHECKING:
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

PROGRAM = "tileiras language-server"

_SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.REMARK: 3, Severity.NOTE: 4}
"""DiagnosticSeverity of the protocol; a remark is information, a note a hint."""


def build_parser() -> Any:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("--gpu-name", help="also compile for this target when a document is opened or saved")
    return parser


def main(words: Sequence[str]) -> int:
    """Serve until the editor ends the session; return the exit code."""
    result = build_parser().parse_args(list(words))
    options = CompileOptions({} if result.gpu_name is None else {"gpu-name": result.gpu_name, "emit-remarks": True})
    try:
        value = server(options)
    except ImportError:
        message = f"pygls is not installed: {tileiras.support.extras.install('pygls')}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION) from None
    # pygls closes its streams; those of the process stay open for its end.
    value.start_io(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    return ExitCode.SUCCESS


def server(options: CompileOptions) -> LanguageServer:
    """The server; documents are compiled if the options name a target.  Raises ImportError without pygls."""
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    language_server = LanguageServer("tileiras", tileiras.__version__)

    def publish(uri: str, complete: bool) -> None:
        document = language_server.workspace.get_text_document(uri)
        result = diagnose(document.source, _path(uri), options if complete and options["gpu-name"] else None)
        listed = [converted(each, document.lines) for each in result]
        language_server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, listed, document.version))

    @language_server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(event: types.DidOpenTextDocumentParams) -> None:
        publish(event.text_document.uri, True)

    @language_server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(event: types.DidChangeTextDocumentParams) -> None:
        publish(event.text_document.uri, False)

    @language_server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(event: types.DidSaveTextDocumentParams) -> None:
        publish(event.text_document.uri, True)

    return language_server


def diagnose(text: str, name: str, options: CompileOptions | None = None) -> list[Diagnostic]:
    """The diagnostics of a text: of its parse and verification, and with options of the compilation to PTX."""
    try:
        if options is None:
            tileiras.api.parse(text.encode(), source_name=name)
            return []
        source = units.Source(text.encode(), name, None, units.TEXT)
        return tileiras.build.library.compile_with(source, options, "ptx").diagnostics
    except CompileError as error:
        return error.diagnostics


def _path(uri: str) -> str:
    """The path of a document, as its diagnostics name it."""
    parsed = urlparse(uri)
    return os.path.normpath(unquote(parsed.path)) if parsed.scheme == "file" else uri


def converted(diagnostic: Diagnostic, lines: Sequence[str]) -> types.Diagnostic:
    """A diagnostic of the protocol, whose range is the word at its place; one without a place is at the first line."""
    from lsprotocol import types

    fields = diagnostic.fields()
    line, column = (fields.get("line") or 1) - 1, (fields.get("column") or 1) - 1
    row = lines[line] if line < len(lines) else ""
    end = column
    while end < len(row) and (row[end].isalnum() or row[end] in "_%@$."):
        end += 1
    notes = "".join(f"\nnote: {note.message}" for note in diagnostic.notes)
    return types.Diagnostic(
        types.Range(types.Position(line, column), types.Position(line, max(end, column + 1))),
        diagnostic.message + notes,
        severity=types.DiagnosticSeverity(_SEVERITIES[diagnostic.severity]),
        source="tileiras",
    )
