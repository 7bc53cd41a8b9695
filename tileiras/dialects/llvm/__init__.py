"""The llvm dialect, as far as the pipeline emits it: LLVM IR as operations, with MLIR's names and syntax.

The operations' own verifiers reject constructs that LLVM 22's NVPTX back end cannot compile, as far as they are known.
"""

from .arithmetic import *  # noqa: F403
from .attributes import *  # noqa: F403
from .constants import *  # noqa: F403
from .control import *  # noqa: F403
from .debug import *  # noqa: F403
from .function import *  # noqa: F403
from .intrinsic_ops import *  # noqa: F403
from .memory import *  # noqa: F403
from .types import *  # noqa: F403
