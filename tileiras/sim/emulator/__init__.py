"""A PTX emulator in NumPy: executes a launch of an entry of a module's text.

Its only input is PTX, and it imports no module of the compiler, so that the two can check each other. Threads in lock
step are computed together; the warp is the unit of progress, and the order in which warps advance is drawn from a seed.
"""

from __future__ import annotations

from .errors import EmulationError, UnsupportedInstruction
from .launch.emulation import EmulationResult, emulate

__all__ = ["EmulationError", "EmulationResult", "UnsupportedInstruction", "emulate"]
