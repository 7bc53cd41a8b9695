"""Building on after an error (`scons -k`), which SCons 4.11 may end with "Found dependency cycle(s)".

A node that is looked at after one of its children has failed is marked as failed, but what waits for it is not told,
and stays in the list in which SCons looks for cycles at the end.  Which nodes come late depends on the order of the
targets: the default, the whole folder, is enough for a chain of three.
"""

from __future__ import annotations

import SCons.Script
import SCons.Taskmaster


class Taskmaster(SCons.Taskmaster.Taskmaster):
    def cleanup(self) -> None:
        if SCons.Script.GetOption("keep_going"):
            waiting = self.pending_children
            self.pending_children = {node for node in waiting if SCons.Taskmaster.find_cycle([node], set())}
        super().cleanup()


def install() -> None:
    """SCons makes its task master when it has read all files."""
    SCons.Taskmaster.Taskmaster = Taskmaster
