"""The arguments of tileiras-run: scalars, arrays and their contents, as `tileiras-run --help` describes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tileiras.cli.process import UsageError
from tileiras.diagnostics import plural
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Argument(NamedTuple):
    """One ARG: the array to look at afterwards (None for a scalar) and the parameters it fills."""

    array: np.ndarray | None
    parameters: list[Any]

    def names(self, number: int) -> list[str]:
        """The names of its parameters in messages; `number` is the position of the ARG, as in `--print`."""
        if self.array is None or len(self.parameters) == 1:
            return [f"argument {number}"]
        dimensions = range(self.array.ndim)
        sizes = [f"size {dimension} of argument {number}" for dimension in dimensions]
        return [f"argument {number}", *sizes, *(f"stride {dimension} of argument {number}" for dimension in dimensions)]


def element_dtype(name: str) -> np.dtype:
    """The NumPy type of an MLIR element type's memory: bf16 and f8 from ml_dtypes, i1 a byte."""
    import ml_dtypes
    import numpy as np

    special = {
        "i1": np.bool_,
        "bf16": ml_dtypes.bfloat16,
        "tf32": np.float32,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    }
    plain = {f"i{w}": f"int{w}" for w in (8, 16, 32, 64)} | {f"f{w}": f"float{w}" for w in (16, 32, 64)}
    if name in special:
        return np.dtype(special[name])
    if name in plain:
        return np.dtype(plain[name])
    raise UsageError(f"unknown element type '{name}'; known are {', '.join([*plain, *special])}")


def _number(text: str) -> float:
    """An integer in any base, else a floating-point number; raises ValueError."""
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def _numbers(text: str, label: str, least: int, most: int) -> list[float]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        values = [_number(part) for part in parts]
    except ValueError:
        raise UsageError(f"{label} takes numbers, got '{text}'") from None
    if not least <= len(values) <= most:
        raise UsageError(f"{label} takes {least if least == most else f'{least} to {most}'} numbers, got {len(values)}")
    return values


def _fitting(value: float, dtype: np.dtype, type_name: str) -> float:
    """A number that a type can hold; a signless integer is one of either sign.  Raises UsageError."""
    if dtype.kind not in "bi":
        return value
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise UsageError(f"{type_name} takes integers, got {value}")
    width = 1 if dtype.kind == "b" else dtype.itemsize * 8
    if not (-(1 << width - 1) if width > 1 else 0) <= value < 1 << width:
        raise UsageError(f"{int(value)} does not fit {type_name}")
    return int(value)


def _convert(values: np.ndarray, dtype: np.dtype, type_name: str) -> np.ndarray:
    """Numbers as elements of a type; raises UsageError for the first extreme that it cannot hold."""
    import numpy as np

    if dtype.kind in "bi" and values.size:
        if values.dtype.kind == "f":
            for value in values[values != np.floor(values)][:1]:
                raise UsageError(f"{type_name} takes integers, got {value}")
        for extreme in (values.min(), values.max()):
            _fitting(extreme.item(), dtype, type_name)
        values = values.astype(np.int64)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _seed(seed: float) -> np.random.Generator:
    import numpy as np

    if seed < 0 or seed != int(seed):
        raise UsageError(f"a seed is an integer that is not negative, got {seed}")
    return np.random.default_rng(int(seed))


def _fill(shape: tuple[int, ...], type_name: str, how: str) -> np.ndarray:
    """An array of an element type with the contents that `how` describes; raises UsageError."""
    import math

    import numpy as np

    dtype = element_dtype(type_name)
    name, opened, rest = how.partition("(")
    if opened and not rest.endswith(")"):
        raise UsageError(f"missing ')' in '{how}'")
    inner = rest[:-1]
    if name in ("zeros", "ones") and not opened:
        number = dtype.type(float(name == "ones"))
        # The system maps zeros when they are touched.
        return np.full(shape, number, dtype) if number.tobytes().strip(b"\0") else np.zeros(shape, dtype)
    if name == "full":
        return np.full(shape, _scalar(_numbers(inner, "full", 1, 1)[0], dtype, type_name), dtype)
    if name == "arange":
        numbers = _numbers(inner, "arange", 0, 2)
        start, step = (*numbers, *(0, 1)[len(numbers) :])
        return _convert(start + step * np.arange(math.prod(shape)), dtype, type_name).reshape(shape)
    if name in ("random", "normal"):
        generator = _seed(_numbers(inner or "0", name, 1, 1)[0])
        draw = generator.random if name == "random" else generator.standard_normal
        return draw(shape).astype(dtype)
    if name == "integers":
        seed, *bounds = _numbers(inner, "integers", 3, 3)
        low, high = (_fitting(bound, np.dtype(np.int64), "i64") for bound in bounds)
        if low >= high:
            raise UsageError(f"'{how}' leaves no integer: LOW is less than HIGH")
        return _convert(_seed(seed).integers(low, high, shape), dtype, type_name)
    raise UsageError(f"unknown contents '{how}'; see --help for the contents of arrays")


def _scalar(value: float, dtype: np.dtype, type_name: str) -> Any:
    """A number as one of a type, an integer in two's complement where its sign says nothing."""
    import numpy as np

    value = _fitting(value, dtype, type_name)
    if dtype.kind == "i" and value >= 1 << dtype.itemsize * 8 - 1:
        value = int(value) - (1 << dtype.itemsize * 8)
    with np.errstate(over="ignore"):
        return dtype.type(value)


def _array(text: str, how: str) -> np.ndarray:
    """`f32[64,60:64]` and its contents; a size with a colon is the visible part of a larger one."""
    name, _, rest = text.partition("[")
    if not rest.endswith("]"):
        raise UsageError(f"missing ']' in '{text}'")
    visible, whole = [], []
    for size in rest[:-1].split(","):
        visible_size, _, full = size.partition(":")
        try:
            visible.append(int(visible_size))
            whole.append(int(full) if full else int(visible_size))
        except ValueError:
            raise UsageError(f"'{size}' is not a size in '{text}'") from None
        if min(visible[-1], whole[-1]) < 0:
            raise UsageError(f"size {min(visible[-1], whole[-1])} is negative in '{text}'")
        if visible[-1] > whole[-1]:
            raise UsageError(f"size {visible[-1]} exceeds {whole[-1]} in '{text}'")
    try:
        return _fill(tuple(whole), name, how)[tuple(slice(size) for size in visible)]
    except (MemoryError, OverflowError, ValueError):  # more bytes than there are, or than an address has
        raise UsageError(f"not enough memory for '{text}'") from None


def _load_file(type_name: str, path: str) -> np.ndarray:
    import numpy as np

    try:
        array = np.load(path)
    except OSError as problem:
        raise UsageError(f"cannot read '{path}': {problem.strerror or problem}") from None
    except MemoryError:
        raise UsageError(f"not enough memory for '{path}'") from None
    except Exception:  # noqa: BLE001  NumPy's exception depends on the damage
        array = None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufV" or array.dtype.fields is not None:
        raise UsageError(f"cannot read '{path}': it is no array of numbers as NumPy saves it (.npy)")
    if not type_name:
        return array
    dtype = element_dtype(type_name)
    if dtype.itemsize != array.dtype.itemsize:
        raise UsageError(f"'{path}' holds {array.dtype}, which has not the size of {type_name}")
    return array.view(dtype)


def parse_argument(text: str, earlier: list[Argument]) -> Argument:
    """One ARG of the command line; raises UsageError."""
    import numpy as np

    if text.startswith("&"):
        number, _, distance = text[1:].partition("+")
        try:
            if not all(re.fullmatch("[0-9]+", part) for part in (number, distance or "0")):
                raise ValueError
            array, skip = earlier[int(number)].array, int(distance or 0)
        except (ValueError, IndexError):
            raise UsageError(f"'{text}' names no earlier argument") from None
        if array is None:
            raise UsageError(f"argument {number} is not an array")
        if skip and skip >= array.size:
            raise UsageError(f"'{text}' is behind the {plural(array.size, 'element')} of argument {number}")
        shifted = array.reshape(-1)[skip:] if skip else array
        if not np.shares_memory(shifted, array) and shifted.size:
            raise UsageError(f"argument {number} is not contiguous, so '{text}' has no meaning")
        return Argument(shifted, [shifted])
    described = text.removeprefix("array:")
    type_name, at, path = described.partition("@")
    head, equals, how = described.partition("=")
    if at and not equals:
        array = _load_file(type_name, path)
    elif not equals:
        raise UsageError(f"'{text}' is not an argument; expected TYPE=VALUE, TYPE[SIZES]=CONTENTS, @FILE.npy or &N")
    elif "[" in head:
        array = _array(head, how)
    else:
        dtype = element_dtype(head)
        value = _fitting(_numbers(how, head, 1, 1)[0], dtype, head)
        return Argument(None, [value if dtype.kind in "bi" else _scalar(value, dtype, head)])
    if described == text:
        return Argument(array, [array])
    strides = [stride // array.itemsize for stride in array.strides]
    return Argument(array, [array, *array.shape, *strides])


def file_of(text: str) -> str | None:
    """The file that an ARG reads its array from."""
    _, at, path = text.partition("@")
    return path if at and "=" not in text else None
