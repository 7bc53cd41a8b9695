"""Coverage by language: the operations, attribute values, types and views of cuda_tile that drawn kernels have.

    python tests/generator/language.py COUNT [--seed FIRST] [--forms product,...]

Names each word of the dialect that no kernel of these numbers has.  Nothing is compiled: a case takes the front end's
time.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TILEIRAS_CACHE_DIR", "off")

import tileiras  # noqa: E402
from tests.generator.forms import FORMS  # noqa: E402
from tests.generator.judge import draw  # noqa: E402
from tileiras.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr, OptimizationHintsAttr  # noqa: E402
from tileiras.dialects.cuda_tile.types import (  # noqa: E402
    FLOAT_KEYWORDS,
    INTEGER_WIDTHS,
    TensorViewType,
    TileType,
)
from tileiras.ir import DYNAMIC, EnumAttr, Operation, Type, UnitAttr, registry  # noqa: E402

PREFIX = "cuda_tile."
RANKS = range(5)


def vocabulary() -> set[str]:
    """Operations, cases of enums by the operations that have them, element types, ranks of tiles, kinds of views."""
    registry.load_dialect("cuda_tile")
    words = set()
    for name, cls in registry.OPERATIONS.items():
        if not name.startswith(PREFIX) or cls.name != name or cls.__module__.endswith(".testing"):
            continue
        words.add(_short(name))
        for field in cls.attribute_fields:
            kind = field.constraint
            if isinstance(kind, type) and issubclass(kind, EnumAttr):
                words |= {f"{_short(name)} {field.name}={case}" for case in kind.cases}
    words |= {f"element {each}" for each in (*FLOAT_KEYWORDS, *(f"i{width}" for width in (*INTEGER_WIDTHS, 4)))}
    words |= {f"rank {rank}" for rank in RANKS}
    return words


def words(module: Operation) -> Iterator[str]:
    """Those of one module, each as often as it occurs; more than `vocabulary` knows: elements by operation, views."""
    for op in module.walk():
        name = _short(op.name)
        yield name
        for key, value in op.attributes.items():
            yield from _attribute(name, key, value)
        for result in (*op.results, *op.operands):
            yield from _type(name, result.type)


def _attribute(name: str, key: str, value: object) -> Iterator[str]:
    if isinstance(value, EnumAttr):
        yield f"{name} {key}={value.value}"
    elif isinstance(value, UnitAttr):
        yield f"{name} {key}"
    elif isinstance(value, DivByAttr | BoundedAttr):
        yield f"assume {type(value).__name__}"
    elif isinstance(value, OptimizationHintsAttr):
        for target, hints in value.value.items:
            for hint, given in hints.items:
                yield f"hint {name} {hint}={given}"
                yield f"hint target {target}"


def _type(name: str, type_: Type) -> Iterator[str]:
    if isinstance(type_, TileType):
        yield f"rank {len(type_.shape)}"
        element = getattr(type_.element_type, "pointee", type_.element_type)
        yield f"element {element}"
        yield f"{name} of {element}"
    elif isinstance(type_, TensorViewType):
        yield f"tensor rank {len(type_.shape)}"
        yield f"strides innermost {'?' if type_.strides[-1:] == (DYNAMIC,) else 'known'}"
    elif "view" in type_.name:
        kind = _short(type_.name)
        yield f"{kind} of rank {len(type_.tile_shape)}"
        yield f"{kind} padding {type_.padding_value}"
        order = getattr(type_, "dim_map", None)
        if order is not None and list(order) != sorted(order):
            yield f"{kind} permuted"


def _short(name: str) -> str:
    return name.removeprefix(PREFIX)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--all", action="store_true", help="also how often each word occurs")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for number in range(options.seed, options.seed + options.count):
        case = draw(number, tuple(options.forms.split(",")))
        counts.update(set(words(tileiras.parse(case.kernel.source(case.build.decorator)))))
    known = vocabulary()
    missing = sorted(known - set(counts))
    if options.all:
        print(*(f"{count} {word}" for word, count in sorted(counts.items())), sep="\n")
    print(*missing, sep="\n")
    print(f"{len(known) - len(missing)} of {len(known)} words of the dialect, {len(counts)} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
