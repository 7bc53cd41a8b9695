"""A certificate of order: what is known of the floating-point sums of a kernel.

It travels as lines of words, an attribute of the function (`nv_tileas.order`), and is JSON in NAME.json:

    sum op=41 kind=dot of=f32 in_loop key=9c2a51e0 : K by 16 in ascending order, wgmma_m64n128k16_f32_f16_f16_ss
    output argument=10 ops=52 sums=0 repeatable=yes order=p2
    cause output=0 op=50 says=no : float additions come in the order in which tile blocks arrive

Operations are numbers in NAME.tileaa.mlir, whose places are in NAME.tileaa.loc: no line of a source is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tileiras.named_tuple import NamedTuple

YES, NO, UNKNOWN = "yes", "no", "unknown"

GRID = ("grid.x", "grid.y", "grid.z")
"""Quantities of a launch: how many tile blocks there are along an axis."""
BLOCK = ("block.x", "block.y", "block.z")
"""The number of a tile block.  `pN` is argument N."""

CLASSES = ("order", "value", "reads", "unsure")
"""How a quantity enters an element of an output: `order`, it decides which terms its sums have, and so their order;
`value`, it is computed with; `reads`, it decides which data are read; `unsure`, it decides between codes of which it
is not known whether they compute alike."""


class Sum(NamedTuple):
    """One sum of the program: a reduction, a scan, a product of matrices, values that a loop carries, an atomic
    addition."""

    op: int
    kind: str
    """`reduce`, `scan`, `dot`, `loop` or `atomic`."""
    of: str
    """The type of its elements."""
    length: int = 0
    """Of what one operation sums, where that is known."""
    in_loop: bool = False
    """Whether a loop carries its accumulator."""
    key: str = ""
    """The same for sums that are taken in the same order; empty where the order is not known."""
    order: str = ""
    """The order in words."""


class Cause(NamedTuple):
    """Why an output may differ from run to run."""

    output: int
    op: int
    says: str
    """`no` or `unknown`."""
    why: str


class Output(NamedTuple):
    """The memory that an argument leads to, as far as the kernel writes it."""

    argument: int
    """-1 for memory whose address no argument is."""
    ops: tuple[int, ...]
    """What writes it."""
    sums: tuple[int, ...]
    repeatable: str
    order: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    def depends(self) -> dict[str, str]:
        """Quantities of a launch that an element depends on, and how: the first of `CLASSES` that says so."""
        return {quantity: name for name in reversed(CLASSES) for quantity in getattr(self, name)}


class Certificate(NamedTuple):
    sums: tuple[Sum, ...] = ()
    outputs: tuple[Output, ...] = ()
    causes: tuple[Cause, ...] = ()
    scalars: tuple[str, ...] = ()
    """The arguments that are numbers, as quantities."""

    def invariant(self, output: Output) -> tuple[str, ...]:
        """Quantities that an element of the output does not depend on: all axes of a grid as one word."""
        depends = output.depends()
        free = [quantity for quantity in (*GRID, *BLOCK, *self.scalars) if quantity not in depends]
        for axes in (GRID, BLOCK):
            if all(axis in free for axis in axes):
                free = [axes[0].partition(".")[0], *(each for each in free if each not in axes)]
        return tuple(free)

    # -- as words ------------------------------------------------------------------------------------------------------

    def words(self) -> list[str]:
        """The lines that a function carries."""
        lines = []
        for each in self.sums:
            given = {"op": each.op, "kind": each.kind, "of": each.of, "length": each.length, "key": each.key}
            lines.append(_line("sum", given, each.order, ("in_loop",) if each.in_loop else ()))
        for out in self.outputs:
            given = {"argument": out.argument, "ops": out.ops, "sums": out.sums, "repeatable": out.repeatable}
            lines.append(_line("output", {**given, **{name: getattr(out, name) for name in CLASSES}}))
        for cause in self.causes:
            lines.append(_line("cause", {"output": cause.output, "op": cause.op, "says": cause.says}, cause.why))
        return [*lines, _line("scalars", {"are": self.scalars})] if self.scalars else lines

    @classmethod
    def from_words(cls, lines: Iterable[str]) -> Certificate:
        """Raises ValueError for lines of another form."""
        sums, outputs, causes, scalars = [], [], [], ()
        for line in lines:
            head, _, text = line.partition(" : ")
            kind, *pairs = head.split(" ")
            given = dict(pair.partition("=")[::2] for pair in pairs)
            try:
                if kind == "sum":
                    numbers = int(given["op"]), given["kind"], given["of"], int(given.get("length", 0))
                    sums.append(Sum(*numbers, "in_loop" in given, given.get("key", ""), text))
                elif kind == "output":
                    ops, of = (_numbers(given.get(name, "")) for name in ("ops", "sums"))
                    classes = (_split(given.get(name, "")) for name in CLASSES)
                    outputs.append(Output(int(given["argument"]), ops, of, given["repeatable"], *classes))
                elif kind == "cause":
                    causes.append(Cause(int(given["output"]), int(given["op"]), given["says"], text))
                elif kind == "scalars":
                    scalars = _split(given["are"])
                else:
                    raise ValueError(f"no line of a certificate of order: {line}")
            except KeyError as missing:
                raise ValueError(f"no line of a certificate of order, without {missing}: {line}") from None
        return cls(tuple(sums), tuple(outputs), tuple(causes), scalars)

    # -- as data -------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What NAME.json has, and verdicts."""
        sums = [{name: value for name, value in each._asdict().items() if value or name == "op"} for each in self.sums]
        outputs = []
        for number, out in enumerate(self.outputs):
            causes = [{"op": c.op, "says": c.says, "why": c.why} for c in self.causes if c.output == number]
            outputs.append({
                "argument": out.argument, "ops": list(out.ops), "sums": list(out.sums), "repeatable": out.repeatable,
                **({"causes": causes} if causes else {}),
                "depends": out.depends(), "invariant": list(self.invariant(out)),
            })  # fmt: skip
        return {"sums": sums, "outputs": outputs}

    @classmethod
    def from_json(cls, data: Any) -> Certificate:
        """The inverse of `to_json`.  Raises ValueError for what is none of this form."""
        try:
            sums = tuple(Sum(**each) for each in data["sums"])
            outputs, causes, scalars = [], [], set()
            for number, out in enumerate(data["outputs"]):
                classes = [tuple(q for q, how in out["depends"].items() if how == name) for name in CLASSES]
                made = Output(out["argument"], tuple(out["ops"]), tuple(out["sums"]), out["repeatable"], *classes)
                outputs.append(made)
                causes += [Cause(number, each["op"], each["says"], each["why"]) for each in out.get("causes", ())]
                scalars.update(q for q in (*out["depends"], *out["invariant"]) if q[:1] == "p")
            return cls(sums, tuple(outputs), tuple(causes), tuple(sorted(scalars, key=lambda q: int(q[1:]))))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no certificate of order: {error}") from None


def _line(kind: str, given: dict[str, Any], text: str = "", flags: Sequence[str] = ()) -> str:
    pairs = [
        f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in given.items() if value not in ("", (), 0) or name in ("op", "argument", "output")
    ]  # fmt: skip
    return " ".join((kind, *pairs, *flags)) + (f" : {text}" if text else "")


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _split(text)))
