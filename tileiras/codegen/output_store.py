"""Outputs of ptxas and nvdisasm that later processes reuse, as rows of an artifact store.

Starting nvdisasm takes 0.15 to 0.3 seconds, more than the estimate of a small kernel.  An output depends on the
program, its arguments and its input only; the program is identified by the metadata of its file, which change when it
is replaced (`toolkit.state_of`), and rows are therefore of one machine.  `tileiras.build.library` provides the store;
without it, each process runs the programs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tileiras.codegen import toolkit

if TYPE_CHECKING:
    from tileiras.codegen.bitcode_library import ArtifactStore

PREFIX = "tool-output"
"""Of the keys of rows."""
_FAST = 1
"""Level of zlib: a listing shrinks to a tenth in a few milliseconds."""


def _no_store() -> ArtifactStore | None:
    return None


provider: Callable[[], ArtifactStore | None] = _no_store
"""Returns the store of the present command; set by `tileiras.build.library`."""


def output(path: str, arguments: Sequence[str], data: bytes, run: Callable[[], bytes]) -> bytes:
    """The output of the program at a path for an input: the stored one, else that of `run`, which is stored.

    Errors of `run` pass and are not stored.
    """
    state = toolkit.state_of(path)
    store = provider() if state is not None else None
    if store is None:
        return run()
    import xxhash

    digest = xxhash.xxh3_128("\0".join([str(state), *arguments, ""]).encode())
    digest.update(data)
    key = f"{PREFIX}:{digest.hexdigest()}"
    row = store.get(key)
    if row is not None:
        return zlib.decompress(row)
    result = run()
    # If the program was replaced meanwhile, the output may be that of the new one.
    if toolkit.state_of(path) == state:
        store.put(key, zlib.compress(result, _FAST))
    return result
