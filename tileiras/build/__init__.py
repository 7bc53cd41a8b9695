"""Building kernels with SCons: every stage a node.

    from tileiras.build import command_line, tool
    env = Environment(tools=["default", tool], **command_line(ARGUMENTS))
    env.TileKernel("kernels/softmax.mlir", sm="sm_90,sm_100", opt=3)

The tool calls the library and holds no compiler logic.  `scons` is imported when the tool is used.
"""

from __future__ import annotations

from typing import Any

from tileiras import build
from tileiras.support.lazy import lazy_dir, lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .scons import command_line

NOTES = ".tileiras"
"""The folder of a build directory that holds the build's records: keys, manifest, lock."""


class _Tool:
    """A callable that SCons accepts as a tool; the implementation is imported on first use."""

    __name__ = "tileiras"

    def __call__(self, env: Any, **keywords: Any) -> None:
        build.scons.tool.generate(env, **keywords)

    def exists(self, env: Any) -> bool:
        return True


tool = _Tool()


_LAZY = {"command_line": "scons"}

__getattr__ = lazy_names(__name__, globals(), _LAZY)
__dir__ = lazy_dir(globals(), _LAZY)
