"""The stand-in for the CUDA driver, of the tests of launches."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from importlib.util import module_from_spec, spec_from_file_location  # noqa: E402

_spec = spec_from_file_location("runtime_conftest", Path(__file__).parents[1] / "runtime" / "conftest.py")
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)
stand_in, stand_in_library = _module.stand_in, _module.stand_in_library
