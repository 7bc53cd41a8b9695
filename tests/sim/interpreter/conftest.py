"""`evaluate(body, "type", ...)`: run a few operations on arrays through the interpreter."""

import numpy as np
import pytest

from tileiras.sim import interpret


def _tile(shape, element):
    return f"tile<{'x'.join([*map(str, shape), element])}>"


def _view(shape, element):
    strides = [int(np.prod(shape[dim + 1 :])) for dim in range(len(shape))]
    return f"tensor_view<{'x'.join([*map(str, shape), element])}, strides={strides}>".replace(" ", ""), strides


def _transfer(shape, element, pointer):
    view, strides = _view(shape, element)
    partition = f"partition_view<tile=({'x'.join(map(str, shape))}), {view}>"
    lines = [
        f"{pointer}_t = make_tensor_view {pointer}, shape = {list(shape)}, strides = {strides} : {view}",
        f"{pointer}_v = make_partition_view {pointer}_t : {partition}",
    ]
    return lines, partition, ", ".join(["%zero"] * len(shape))


@pytest.fixture
def evaluate():
    def run(body: str, *inputs: tuple[str, np.ndarray], result: tuple[str, np.ndarray], grid=1, output=None):
        """`body` finds its inputs in %a, %b, ... and leaves %r, which is stored to the result array.

        Inputs and result are (element type, array); arrays have at least one dimension.  Returns the result array.
        """
        lines, names = ["%zero = constant <i32: 0> : tile<i32>"], "abcdef"
        parameters = []
        for name, (element, array) in zip(names, inputs):
            parameters.append(f"%{name}_p: tile<ptr<{element}>>")
            made, view, indices = _transfer(array.shape, element, f"%{name}_p")
            tile = _tile(array.shape, element)
            lines += made
            lines.append(f"%{name}, %{name}_k = load_view_tko weak %{name}_p_v[{indices}]"
                         f" : {view}, tile<i32> -> {tile}, token")  # fmt: skip
        element, array = result
        parameters.append(f"%r_p: tile<ptr<{element}>>")
        made, view, indices = _transfer(array.shape, element, "%r_p")
        tile = _tile(array.shape, element)
        store = f"%r_k = store_view_tko weak %r, %r_p_v[{indices}] : {tile}, {view}, tile<i32> -> token"
        text = "\n".join([
            "cuda_tile.module @m {",
            f"entry @k({', '.join(parameters)}) {{", *lines, body, *made, store, "return", "}", "}", "",
        ])  # fmt: skip
        interpret(text, "k", grid, [*(a for _, a in inputs), array], output=output)
        return array

    return run
