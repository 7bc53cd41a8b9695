"""The digest of the PTX of all examples together, as one process compiles it; as a program, writes `digest.txt`.

    python tests/build/digests.py [--each]

To be run after a change of the generated code; `tests/goldens` shows the effect of such a change.  `--each` prints a
digest for every kernel instead: the outputs in two checkouts tell which kernels differ.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from project import CHECKOUT

from tileiras import api, pipeline
from tileiras.build import discover
from tileiras.options import CompileOptions

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digest.txt")

LOWEST = 90

HEAD = "# sha256 of the PTX of all examples: python tests/build/digests.py\n"


def tools() -> dict[str, str]:
    """The tools, besides this package, that determine the bytes, by stage."""
    import importlib

    result = {}
    for name in ("export", "ptx"):
        row = pipeline.stage(name)
        for tool in row.tools:
            module, _, function = tool.partition(":")
            identity = getattr(importlib.import_module(module), function)(row.select(CompileOptions({})))
            result[name] = " ".join(identity.split())
    return result


def examples() -> dict[str, str]:
    """Path in `examples/` -> the target for which it is compiled."""
    result = {}
    for name in discover.kernel_files(os.path.join(CHECKOUT, "examples")):
        path = os.path.join(CHECKOUT, "examples", name)
        least = discover.required_target(path) if name.endswith(".py") else None
        result[name.replace(os.sep, "/")] = f"sm_{max(LOWEST, least or 0)}"
    return result


def digest(ptx: bytes) -> str:
    return hashlib.sha256(ptx).hexdigest()


def compiled(names: Iterable[str]) -> dict[str, str]:
    """`PATH ENTRY TARGET` -> digest, compiled in this process without a store."""
    targets = examples()
    result = {}
    for name in names:
        target = targets[name]
        path = os.path.join(CHECKOUT, "examples", *name.split("/"))
        for kernel in api.compile(path, gpu_name=target, source_name=name).kernels:
            result[f"{name} {kernel.name} {target}"] = digest(kernel.artifacts[".ptx"])
    return result


def whole(found: Mapping[str, str]) -> str:
    """The digest of all kernels, from those of each."""
    return digest("".join(f"{key} {value}\n" for key, value in sorted(found.items())).encode())


def read() -> tuple[dict[str, str], str]:
    """The tools and the digest in the file."""
    with open(PATH, encoding="utf-8") as file:
        *with_tools, last = [line.rstrip("\n") for line in file if not line.startswith("#")]
    return dict(line.removeprefix("with ").split(": ", 1) for line in with_tools), last


def main(arguments: Sequence[str] = ()) -> None:
    result = compiled(examples())
    if "--each" in arguments:
        print(*(f"{key} {value}" for key, value in sorted(result.items())), sep="\n")
        return
    rows = [f"with {name}: {identity}\n" for name, identity in tools().items()]
    with open(PATH, "w", encoding="utf-8") as file:
        file.writelines([HEAD, *rows, f"{whole(result)}\n"])
    print(f"{PATH}: {len(result)} kernels", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
