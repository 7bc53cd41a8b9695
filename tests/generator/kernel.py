"""A generated kernel: cuTile Python text, the arguments of one launch, and the results that NumPy computes for it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tileiras
from tests.generator.choices import Choices
from tests.kernels.views import DTYPES

CUTILE = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i1": "bool_",
    **{f"i{width}": f"int{width}" for width in (8, 16, 32, 64)},
    **{f"u{width}": f"uint{width}" for width in (8, 16, 32, 64)},
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2",
}  # fmt: skip
"""The front end's names of element types."""
ELEMENTS = {**DTYPES, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
"""NumPy's types of elements, also of unsigned ones, which Tile IR does not know."""
RAW = {1: np.uint8, 2: np.uint16}
"""Types under which the simulators take elements that NumPy has no type of its own for, by size."""


ANY_STRIDES = ("stride_constant=(None,) * {rank}, stride_lower_bound_incl=(0,) * {rank}, "
               "stride_divisible_by=(1,) * {rank}")  # fmt: skip
WEAKER = ("base_addr_divisible_by=1", "may_alias_internally=True", "shape_divisible_by=(1,) * {rank}",
          "stride_divisible_by=(1,) * {rank}", ANY_STRIDES)  # fmt: skip
"""Fields of an ArrayConstraint that say less than a short form."""


class Argument(NamedTuple):
    """One argument of the kernel: an array in memory or a scalar, and the declaration of the parameter.

    `pitch` is the distance in elements between the rows of an array, before `step` elements of memory are reserved for
    each.  `weaker` are fields of the front end's ArrayConstraint that promise less than the short form.
    """

    name: str
    value: Any
    signature: str
    pitch: int = 0
    weaker: str = ""
    step: int = 1

    def exported(self) -> str:
        """The parameter in TILEIRAS_EXPORT."""
        if not self.weaker:
            return repr(self.signature)
        return f"dataclasses.replace(array({self.signature!r}), {self.weaker})"

    def memory(self) -> np.ndarray:
        """A fresh copy of the array whose rows are `pitch` elements apart."""
        padded = np.zeros((*self.value.shape[:-1], self.pitch * self.step), self.value.dtype)
        rows = padded[..., : self.value.shape[-1] * self.step : self.step]
        rows[...] = self.value
        return rows

    def strides(self) -> list[int]:
        """In elements, also of dimensions of one element, for which NumPy may state any stride."""
        strides, step = [self.step], self.pitch * self.step
        for size in reversed(self.value.shape[1:-1] if self.value.ndim > 1 else ()):
            strides.append(step)
            step *= size
        return [*([step] if self.value.ndim > 1 else []), *reversed(strides)]


class Expected(NamedTuple):
    """The result in one array; floats may differ by `absolute + relative * |values|`."""

    values: np.ndarray
    relative: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True)
class Generated:
    """`body` is the text of function `kernel`; `constants` follow its array and scalar parameters.

    `needs` is the oldest target that has the element types.
    """

    form: str
    body: str
    arguments: tuple[Argument, ...]
    constants: tuple[Any, ...]
    grid: tuple[int, int, int]
    expected: dict[str, Expected]
    needs: int = 75
    helper: str = ""
    """A function that the kernel calls."""
    warps: tuple[int, ...] = ()
    """Numbers of warps of which a build has one; empty for those of any kernel."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that each build has."""

    def text(self, hints: str = "", entries: int = 1) -> str:
        """The file that exports the kernel under several names; `hints` are the decorator's arguments."""
        exported = ", ".join([*(each.exported() for each in self.arguments), *map(repr, self.constants)])
        helper = f"{self.helper}\n\n\n" if self.helper else ""
        names = ["kernel", *(f"kernel_{number}" for number in range(1, entries))]
        imports = "import cuda.tile as ct\n"
        if any(each.weaker for each in self.arguments):
            imports = f"import dataclasses\n\n{imports}from tileiras.stages.export.signatures import array\n"
        rows = ", ".join(f"{name!r}: (kernel, {exported})" for name in names)
        return (f"{imports}\n\n{helper}@ct.kernel({hints})\n{self.body.strip()}\n\n\n"
                f"TILEIRAS_EXPORT = {{{rows}}}\n")  # fmt: skip

    def source(self, hints: str = "", entries: int = 1) -> bytes:
        """Bytecode of the front end."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "generated.py")
            path.write_text(self.text(hints, entries), encoding="utf-8")
            return tileiras.compile(path, gpu_name="sm_120", emit="bytecode").data

    def slots(self) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Fresh parameters of the entry in order, and the outputs among them by name."""
        slots: list[Any] = []
        outputs: dict[str, np.ndarray] = {}
        for argument in self.arguments:
            if not isinstance(argument.value, np.ndarray):
                slots.append(argument.value)
                continue
            array = argument.memory()
            if argument.name in self.expected:
                outputs[argument.name] = array
            raw = array.view(RAW[array.itemsize]) if array.dtype.kind == "V" else array
            slots += [raw, *array.shape, *argument.strides()]
        return slots, outputs

    def memory_slots(self) -> list[Any]:
        """The parameters of the entry with whole allocations in the place of arrays with padded rows."""
        slots, _ = self.slots()
        return [slot if getattr(slot, "base", None) is None else slot.base for slot in slots]

    def check(self, outputs: dict[str, np.ndarray]) -> str:
        """A sentence about the first output that differs, or nothing."""
        for name, (wanted, relative, absolute) in self.expected.items():
            result = outputs[name].astype(wanted.dtype)
            wrong = ~np.isclose(result, wanted, rtol=relative, atol=absolute, equal_nan=True)
            if wrong.any():
                at = tuple(map(int, np.argwhere(wrong)[0]))
                return f"{name}{list(at)}: {result[at]}, expected {wanted[at]}; {wrong.sum()} of {wrong.size} differ"
        return ""


def whole(random_: Choices, shape: Sequence[int], element: str, most: int = 2) -> np.ndarray:
    """Whole numbers between -most and most: sums of their products are exact in any order."""
    generator = np.random.default_rng(random_.randrange(1 << 32))
    return generator.integers(-most, most + 1, shape).astype(ELEMENTS[element])


def normal(random_: Choices, shape: Sequence[int], element: str, scale: float = 1.0) -> np.ndarray:
    generator = np.random.default_rng(random_.randrange(1 << 32))
    return (scale * generator.standard_normal(shape)).astype(ELEMENTS[element])


def array(random_: Choices, name: str, values: np.ndarray, element: str, padded: bool = True) -> Argument:
    """An argument of these values: rows may be padded, and divisibility that holds may be promised.

    A declared divisor holds for the length of rows and for their distance.
    """
    rank, size = values.ndim, values.dtype.itemsize
    multiple = max(1, 16 // size)
    promised = values.shape[-1] % multiple == 0 and random_.chance(0.7)
    pitch = values.shape[-1]
    if padded and rank > 1 and random_.chance(0.2):
        pitch += multiple * random_.choice((1, 2)) if promised else random_.choice((1, 3, 8))
    lengths = ["?"] * (rank - 1) + [f"{multiple}*?" if promised and multiple > 1 else "?"]
    if padded and random_.chance(0.1):
        # The distance of rows is a multiple of a constant length; that of a dimension of length 1 counts as even.
        dims = [dim for dim in range(rank) if values.shape[dim] > 1 and (dim == 0 or pitch == values.shape[-1])]
        if dims:
            dim = random_.choice(dims)
            lengths[dim] = str(values.shape[dim])
    weaker = random_.choice(WEAKER) if padded and random_.chance(0.1) else ""
    step = random_.choice((1, 2, 3)) if weaker == ANY_STRIDES else 1
    declared = {"f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2", "f8E8M0FNU": "f8e8m0fnu"}.get(element, element)
    return Argument(name, values, f"{declared}[{', '.join(lengths)}]", pitch, weaker.format(rank=rank), step)


def result(random_: Choices, name: str, shape: Sequence[int], element: str) -> Argument:
    """An output whose elements are -7 before the launch."""
    return array(random_, name, np.full(shape, -7).astype(ELEMENTS[element]), element)


def scalar(name: str, value: int | float, element: str) -> Argument:
    return Argument(name, ELEMENTS[element](value), element)


def odd(random_: Choices, size: int) -> int:
    """Elements by which the last tile of `size` exceeds the array: often none."""
    return random_.choice((0, 0, 0, size // 2, min(8, size - 1), 1 % size, min(3, size - 1), size - 1))


def hinted(pick: Choices) -> str:
    """Advice of a load through a view, as further arguments: none in most of them."""
    return pick.choice(("", "", "", ", latency=1", ", latency=4", ", latency=10", ", allow_tma=False"))
