"""The debuginfo dialect: which variable of the source a value is, between the tile dialects and LLVM's debug records.

Scopes and files are cuda_tile's (`di_subprogram`, `di_file`).  `convert-debuginfo-to-llvm` turns the operations into
those of the llvm dialect, with `--device-debug` only.
"""

from .attributes import *  # noqa: F403
from .ops import *  # noqa: F403
