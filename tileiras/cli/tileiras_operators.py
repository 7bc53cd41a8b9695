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
    """Returns the exit code."""
    given = build_parser().parse_args(list(words))
    outputs = Outputs()
    outputs.reads(given.declaration, "the declaration")
    product = outputs.writes(given.output, "the output")
    handlers = outputs.writes(given.jax, "--jax") if given.jax else None
    depfile = outputs.writes(given.depfile, "--depfile") if given.depfile else None
    try:
        text = process.read_input(given.declaration)
        try:
            declared = tileiras.operators.declaration.read(text.decode("utf-8"))
        except UnicodeDecodeError:
            raise tileiras.operators.expressions.refuse("not TOML: not UTF-8") from None
        made = tileiras.operators.kernels.compiled(declared, os.path.dirname(given.declaration))
        contents = []
        if handlers is not None:
            source = tileiras.operators.jax_source.source(declared, made.images)
            contents.append((handlers, source.encode()))
            module = tileiras.operators.jax_source.module(declared, f"lib{stem(given.jax)}.so")
        else:
            module = tileiras.operators.torch_source.module(declared, made.images)
    except CompileError as error:
        process.complain(error.render())
        return error.code
    for path in made.dependencies:
        outputs.reads(path, "a file that the declaration names")
    for diagnostic in made.diagnostics:
        process.complain(diagnostic.render())
    contents.append((product, module.encode()))
    if depfile is not None:
        products = [output.path for output, _ in contents]
        contents.append((depfile, depfiles.rule(products, [given.declaration, *made.dependencies])))
    try:
        outputs.publish(contents)
    except CompileError as error:
        process.complain(error.render())
        return error.code
    return ExitCode.SUCCESS
