"""The nvvm dialect: instructions of the GPU that LLVM IR has no operation for.

Every operation names a row of the intrinsic table or an inline-assembly template (`NVVMOp.target`), which also says
from which GPU and PTX version on it exists.
"""

from .arithmetic import *  # noqa: F403
from .atomics import *  # noqa: F403
from .attributes import *  # noqa: F403
from .base import *  # noqa: F403
from .matrix import *  # noqa: F403
from .registers import *  # noqa: F403
from .synchronization import *  # noqa: F403
