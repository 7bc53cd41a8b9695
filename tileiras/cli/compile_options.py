"""The options of the compiler on command lines that argparse reads: those of `tileiras`, spelled as it has them."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from tileiras.options import OPTIONS, parse_value


def add(parser: argparse.ArgumentParser, without: Collection[str]) -> None:
    """Add every option except those in `without`, which the command spells in another way or sets itself."""
    for name, option in OPTIONS.items():
        if name in without:
            continue
        if option.kind is bool:
            parser.add_argument(f"--{name}", action="store_const", const="true", help=argparse.SUPPRESS,
                                dest=option.attribute)  # fmt: skip
        else:
            parser.add_argument(f"--{name}", metavar="VALUE", help=argparse.SUPPRESS, dest=option.attribute)


def values_of(parsed: argparse.Namespace, without: Collection[str]) -> dict[str, object]:
    """The options that a command line names, with their values.  Raises CompileError (code 2)."""
    result: dict[str, object] = {}
    for name, option in OPTIONS.items():
        value = getattr(parsed, option.attribute, None) if name not in without else None
        if value is not None:
            result[name] = parse_value(option, value)
    return result
