"""Checking: whether compiled code agrees with its source, on launches that are derived from the program.

`tileiras.check(source, gpu_name=...)` executes the source (`tileiras.sim.interpret`) and its PTX
(`tileiras.sim.emulate`) on the same launches.  `facts` derives the roles of the parameters from the entry, `launches`
draws sizes and values, `fitting` finds strides, grid and memory for them, `tracking` runs the interpreter with the
interval of every value (`bounds`, `bound_rules`, `sum_rules`), `judging` compares, `roundings` finds roundings that the
program does not specify, `judgement` runs all launches of an image, `verdict` is the result.  `order` prints and
compares certificates of order, `same_order` executes two builds.  `blame` searches for the pass at fault.  `stage` is
the check as a stage of builds, `junit` and `sarif` write verdicts for CI, `assemblers` compares two releases of ptxas.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from tileiras.support.lazy import lazy_dir, lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .checker import check
    from .verdict import Finding, LaunchReport, Verdict

_LAZY = {
    "check": "checker", "Verdict": "verdict", "Finding": "verdict", "LaunchReport": "verdict",
}  # fmt: skip
__getattr__ = lazy_names(__name__, globals(), _LAZY)
__dir__ = lazy_dir(globals(), _LAZY)


class _CallablePackage(types.ModuleType):
    """`tileiras.check(...)` is the function of that name, and its modules are in the package."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.check(*args, **keywords)


sys.modules[__name__].__class__ = _CallablePackage
