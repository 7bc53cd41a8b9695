"""The emulator's one exception."""

from __future__ import annotations

from ..errors import SimulationError

DEADLOCK = "deadlock: "
"""Begin of the message of a deadlock."""


class EmulationError(SimulationError):
    """The execution of a PTX program failed: a syntax error, an unknown instruction, an access outside memory, a
    deadlock, a trap.

    ``line`` is the 1-based line of the PTX text and ``text`` the instruction there; ``block`` and ``thread`` are the
    (x, y, z) ids of the first thread concerned and ``address`` the first byte of a faulting access. Fields that do not
    apply are None.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        text: str | None = None,
        thread: tuple[int, int, int] | None = None,
        block: tuple[int, int, int] | None = None,
        address: int | None = None,
    ) -> None:
        self.message = message
        self.line = line
        self.text = text
        self.thread = thread
        self.block = block
        self.address = address
        parts = [f"ptx:{line}: {message}" if line is not None else message]
        if thread is not None:
            parts.append(f"  in thread {thread} of block {block}")
        if text is not None:
            parts.append(f"  at: {text}")
        super().__init__("\n".join(parts))


class UnsupportedInstruction(EmulationError):
    """An instruction, or a form of one, that the emulator does not implement."""


class UndescribedParameters(EmulationError):
    """Hidden parameters, mostly tensor maps, that a launch cannot fill without their description."""
