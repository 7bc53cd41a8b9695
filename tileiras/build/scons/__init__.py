"""The SCons tool: builders, the command line, and the patches inside of SCons.  No other folder imports SCons."""

from __future__ import annotations

from tileiras.support.lazy import lazy_dir, lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tool import command_line, exists, generate

_LAZY = {"command_line": "tool", "exists": "tool", "generate": "tool"}

__getattr__ = lazy_names(__name__, globals(), _LAZY)
__dir__ = lazy_dir(globals(), _LAZY)
