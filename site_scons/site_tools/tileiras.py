"""`Environment(tools=["tileiras"])`: a shim over `tileiras.build`.

SCons runs a tool's file as a module of the tool's own name, so this file takes the place of the installed package in
`sys.modules`, and its folder stands first on the path meanwhile.  Both are put right before the package is needed.
"""

import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _real_package():
    """The installed package, with the modules of it that are loaded already."""
    for module in list(sys.modules.values()):
        # A loaded module of the package knows where the package is, however the path looks now.
        if getattr(module, "__name__", "").startswith("tileiras.") and getattr(module, "__file__", None):
            depth = module.__name__.count(".") + (os.path.basename(module.__file__) == "__init__.py")
            root = os.path.abspath(module.__file__)
            for _ in range(depth + 1):
                root = os.path.dirname(root)
            search = [root]
            break
    else:
        search = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _here]
    for entry in search:
        init = os.path.join(entry or os.curdir, "tileiras", "__init__.py")
        if os.path.isfile(init):
            spec = importlib.util.spec_from_file_location(
                "tileiras", init, submodule_search_locations=[os.path.dirname(os.path.abspath(init))]
            )
            package = importlib.util.module_from_spec(spec)
            sys.modules["tileiras"] = package
            spec.loader.exec_module(package)
            for name, module in list(sys.modules.items()):
                if name.startswith("tileiras.") and name.count(".") == 1:
                    setattr(package, name.partition(".")[2], module)
            return
    # An editable installation finds the package through an import hook instead of a folder on the path.
    result, sys.path[:] = list(sys.path), [e for e in sys.path if os.path.abspath(e or os.curdir) != _here]
    sys.modules.pop("tileiras", None)
    try:
        importlib.import_module("tileiras")
    finally:
        sys.path[:] = result


_real_package()

from tileiras.build.scons import exists, generate  # noqa: E402, F401
