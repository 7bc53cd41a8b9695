"""Text as the vendor's disassembler prints it, compared with ours."""

from __future__ import annotations

import re

from tileiras.codegen import toolkit
from tileiras.ir import parse_module, print_op, verify


def disassembler():
    return toolkit.find_program("tileirdisasm")


def without_names(text):
    """Values numbered in order of appearance: their names follow from rules that are not part of the format."""
    names: dict[str, str] = {}
    return re.sub(r"%[\w$.]+", lambda found: names.setdefault(found[0], f"%{len(names)}"), text)


def lines(text):
    return [line.rstrip() for line in without_names(text).strip().splitlines()]


def reads_back(text, module, *, locations):
    """Output of the disassembler, without a module and prefixes, parses to the same module."""
    again = parse_module(text)
    verify(again)
    module = module.clone()
    module.attributes.pop("producer", None)  # not shown
    assert print_op(again) == print_op(module)
    if locations:
        # Terminators that the text leaves out have no place for a location.
        pairs = [pair for pair in zip(again.walk(), module.walk()) if pair[0].operands or pair[0].results]
        assert all(one.location == other.location for one, other in pairs)
