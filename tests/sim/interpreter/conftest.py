"""`evaluate(body, "type", ...)`: run a few operations on arrays through the interpreter."""

import numpy as np
import pytest

from tests.kernels.views import View, entry
from tileiras.sim import interpret


@pytest.fixture
def evaluate():
    def run(body: str, *inputs: tuple[str, np.ndarray], result: tuple[str, np.ndarray], grid=1, output=None):
        """`body` finds its inputs in %a, %b, ... and leaves %r, which is stored to the result array.

        Inputs and result are (element type, array); arrays have at least one dimension.  Returns the result array.
        """
        read = [View(name, array.shape, element, aligned=None) for name, (element, array) in zip("abcdef", inputs)]
        element, array = result
        written = View("r", array.shape, element, aligned=None)
        lines = [*(view.load(view.name) for view in read), body, written.store("r")]
        interpret(entry([*read, written], lines), "k", grid, [*(a for _, a in inputs), array], output=output)
        return array

    return run
