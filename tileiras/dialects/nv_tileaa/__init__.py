"""nv_tileaa: the alias-aware level.

Tiles are tensors (rank-0 tiles are scalars), views are spelled out as pointers, sizes, strides and tiling, memory
operations are ordered by tokens, and facts about values (`assume`) are kept beside them.  Nothing here knows how many
warps will run or who holds which element.
"""

from tileiras.support.lazy import lazy_names

from .accesses import *  # noqa: F403
from .attributes import *  # noqa: F403
from .calls import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .function import *  # noqa: F403
from .memory import *  # noqa: F403
from .tensor import *  # noqa: F403
from .types import *  # noqa: F403

__getattr__ = lazy_names(__name__, globals())
