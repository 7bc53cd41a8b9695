"""tileiras operators FILE.toml -o FILE.py: operators of PyTorch that launch the kernels of a declaration, as source.

With --jax=FILE.cc those of JAX: the source of a library libFILE.so, and the Python module that loads it.
docs/operators.md describes declarations.  Exit codes are those of `tileiras`; 2 for a declaration that is not well
formed or does not fit its kernels.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras import cli
from tileiras.cli import depfiles, process
from tileiras.cli.outputs import Outputs
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.support.files import stem

PROGRAM = "tileiras operators"


def build_parser() -> Any:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("declaration", help="the declaration, in TOML")
    parser.add_argument("-o", "--output", required=True, help="the Python module to write")
    parser.add_argument("--jax", metavar="FILE.cc", help="the C++ source of the handlers for JAX, to write")
    parser.add_argument("--depfile", help="write the inputs as a rule for make")
    return parser


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    options = build_parser().parse_args(list(words))
    outputs = Outputs()
    outputs.reads(options.declaration, "the declaration")
    product = outputs.writes(options.output, "the output")
    handlers = outputs.writes(options.jax, "--jax") if options.jax else None
    depfile = outputs.writes(options.depfile, "--depfile") if options.depfile else None
    try:
        text = process.read_input(options.declaration)
        try:
            declaration = tileiras.operators.declaration.read(text.decode("utf-8"))
        except UnicodeDecodeError:
            raise tileiras.operators.expressions.refuse("not TOML: not UTF-8") from None
        result = tileiras.operators.kernels.compiled(declaration, os.path.dirname(options.declaration))
        contents = []
        if handlers is not None:
            source = tileiras.operators.jax_source.source(declaration, result.images)
            contents.append((handlers, source.encode()))
            module = tileiras.operators.jax_source.module(declaration, f"lib{stem(options.jax)}.so")
        else:
            module = tileiras.operators.torch_source.module(declaration, result.images)
    except CompileError as error:
        process.complain(error.render())
        return error.code
    for path in result.dependencies:
        outputs.reads(path, "a file that the declaration names")
    for diagnostic in result.diagnostics:
        process.complain(diagnostic.render())
    contents.append((product, module.encode()))
    if depfile is not None:
        products = [output.path for output, _ in contents]
        contents.append((depfile, depfiles.rule(products, [options.declaration, *result.dependencies])))
    try:
        outputs.publish(contents)
    except CompileError as error:
        process.complain(error.render())
        return error.code
    return ExitCode.SUCCESS
