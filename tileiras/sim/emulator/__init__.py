"""A PTX emulator in NumPy: what the text of a module does when its entry is launched.

It reads PTX and nothing else, and imports nothing of the compiler, so that the two can check each other.  Threads that
move together are computed together; the warp is the unit of progress, and the order in which warps advance is drawn
from a seed.
"""

from __future__ import annotations

from .errors import EmulationError, UnsupportedInstruction
from .launch import EmulationResult, emulate

__all__ = ["EmulationError", "EmulationResult", "UnsupportedInstruction", "emulate"]
