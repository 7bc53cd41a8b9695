"""The arith dialect, as far as the pipeline uses it: integer and float arithmetic on scalars and tensors.

Names, predicates and syntax are MLIR's.  Operations whose result depends on a rounding mode or on flushing subnormals
are not here but in nv_tileaa, which carries both.
"""

from .ops import *  # noqa: F403
