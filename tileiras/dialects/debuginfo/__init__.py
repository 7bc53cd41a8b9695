"""The debuginfo dialect: which variable of the source a value is, between the tile dialects and LLVM's debug records.

Scopes and files are cuda_tile's (`di_subprogram`, `di_file`).  `convert-debuginfo-to-llvm` turns the operations into
those of the llvm dialect, with `--device-debug` only.
"""

from tileiras.support.lazy import lazy_names

from .attributes import *  # noqa: F403
from .ops import *  # noqa: F403

__getattr__ = lazy_names(__name__, globals())
