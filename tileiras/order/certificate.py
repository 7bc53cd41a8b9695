"""Certificates of order: the data model, with a text form and a JSON form.

The text form is an attribute of the function (`nv_tileas.order`) and metadata of LLVM IR; NAME.json has the JSON form.

    sum op=41 kind=dot of=f32 in_loop key=9c2a51e0 : K ascending by 16, wgmma_m64n128k16_f32_f16_f16_ss
    output argument=10 ops=52 sums=0 repeatable=yes order=p2
    cause output=0 op=50 says=no : float additions come in the order in which tile blocks arrive

Operations are numbers in NAME.tileaa.mlir, as in NAME.tileaa.loc.  Lines of the source do not appear, so that a comment
changes no artifact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tileiras.support.named_tuple import NamedTuple

YES, NO, UNKNOWN = "yes", "no", "unknown"

GRID = ("grid.x", "grid.y", "grid.z")
"""Launch quantities: the number of tile blocks along each axis."""
BLOCK = ("block.x", "block.y", "block.z")
"""The number of the tile block along each axis.  Scalar argument N is `pN`."""

CLASSES = ("order", "value", "reads", "unsure")
"""How an element depends on a quantity: it selects the terms of a sum (`order`), enters the computation (`value`),
selects the data that are read (`reads`), or selects between two codes that may compute differently (`unsure`)."""


class Sum(NamedTuple):
    """A reduction, scan, matrix multiplication, loop-carried float, or atomic float addition."""

    op: int
    kind: str
    """`reduce`, `scan`, `dot`, `loop` or `atomic`."""
    of: str
    """Element type."""
    length: int = 0
    """Elements along the summed dimension of one operation; 0 if unknown."""
    in_loop: bool = False
    """Whether a loop carries the accumulator."""
    key: str = ""
    """Equal for sums in the same order; empty for an unknown order."""
    order: str = ""
    """The order in words."""


class Cause(NamedTuple):
    """The reason why an output may differ from run to run."""

    output: int
    op: int
    says: str
    """`no` or `unknown`."""
    why: str


class Output(NamedTuple):
    """Memory that the kernel writes through one pointer argument."""

    argument: int
    """-1 for memory that no argument leads to."""
    ops: tuple[int, ...]
    """Stores and atomic updates."""
    sums: tuple[int, ...]
    repeatable: str
    order: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    def depends(self) -> dict[str, str]:
        """Launch quantity -> class of the dependence."""
        return {quantity: name for name in reversed(CLASSES) for quantity in getattr(self, name)}


class Certificate(NamedTuple):
    sums: tuple[Sum, ...] = ()
    outputs: tuple[Output, ...] = ()
    causes: tuple[Cause, ...] = ()
    scalars: tuple[str, ...] = ()
    """Quantities of the scalar arguments."""

    def invariant(self, output: Output) -> tuple[str, ...]:
        """Quantities that the elements of an output do not depend on; `grid` and `block` stand for all three axes."""
        depends = output.depends()
        free = [quantity for quantity in (*GRID, *BLOCK, *self.scalars) if quantity not in depends]
        for axes in (GRID, BLOCK):
            if all(axis in free for axis in axes):
                free = [axes[0].partition(".")[0], *(each for each in free if each not in axes)]
        return tuple(free)

    # -- text ----------------------------------------------------------------------------------------------------------

    def words(self) -> list[str]:
        """The lines of the text form."""
        lines = []
        for each in self.sums:
            fields = {"op": each.op, "kind": each.kind, "of": each.of, "length": each.length, "key": each.key}
            lines.append(_line("sum", fields, each.order, ("in_loop",) if each.in_loop else ()))
        for out in self.outputs:
            fields = {"argument": out.argument, "ops": out.ops, "sums": out.sums, "repeatable": out.repeatable}
            lines.append(_line("output", {**fields, **{name: getattr(out, name) for name in CLASSES}}))
        for cause in self.causes:
            lines.append(_line("cause", {"output": cause.output, "op": cause.op, "says": cause.says}, cause.why))
        return [*lines, _line("scalars", {"are": self.scalars})] if self.scalars else lines

    @classmethod
    def from_words(cls, lines: Iterable[str]) -> Certificate:
        """The inverse of `words`.  Raises ValueError for a malformed line."""
        rows: dict[str, list[Any]] = {"sum": [], "output": [], "cause": [], "scalars": []}
        for line in lines:
            head, _, text = line.partition(" : ")
            kind, *pairs = head.split(" ")
            fields = dict(pair.partition("=")[::2] for pair in pairs)
            try:
                rows[kind].append(_PARSED[kind](fields, text))
            except KeyError as missing:
                raise ValueError(f"malformed line of a certificate of order, {missing}: {line}") from None
        scalars = rows["scalars"][0] if rows["scalars"] else ()
        return cls(tuple(rows["sum"]), tuple(rows["output"]), tuple(rows["cause"]), scalars)

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The form of NAME.json and of verdicts."""
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
        """The inverse of `to_json`.  Raises ValueError for malformed data."""
        try:
            sums = tuple(Sum(**each) for each in data["sums"])
            outputs, causes = [], []
            scalars: set[str] = set()
            for number, out in enumerate(data["outputs"]):
                classes = [tuple(q for q, how in out["depends"].items() if how == name) for name in CLASSES]
                ops, of = tuple(out["ops"]), tuple(out["sums"])
                outputs.append(Output(out["argument"], ops, of, out["repeatable"], *classes))
                causes += [Cause(number, each["op"], each["says"], each["why"]) for each in out.get("causes", ())]
                scalars.update(q for q in (*out["depends"], *out["invariant"]) if q[:1] == "p")
            return cls(sums, tuple(outputs), tuple(causes), tuple(sorted(scalars, key=lambda q: int(q[1:]))))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"malformed certificate of order: {error}") from None


def _line(kind: str, fields: dict[str, Any], text: str = "", flags: Sequence[str] = ()) -> str:
    pairs = [
        f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in fields.items() if value not in ("", (), 0) or name in ("op", "argument", "output")
    ]  # fmt: skip
    return " ".join((kind, *pairs, *flags)) + (f" : {text}" if text else "")


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _split(text)))


def _sum(fields: dict[str, str], text: str) -> Sum:
    length, key = int(fields.get("length", 0)), fields.get("key", "")
    return Sum(int(fields["op"]), fields["kind"], fields["of"], length, "in_loop" in fields, key, text)


def _output(fields: dict[str, str], text: str) -> Output:
    ops, sums = (_numbers(fields.get(name, "")) for name in ("ops", "sums"))
    classes = (_split(fields.get(name, "")) for name in CLASSES)
    return Output(int(fields["argument"]), ops, sums, fields["repeatable"], *classes)


def _cause(fields: dict[str, str], text: str) -> Cause:
    return Cause(int(fields["output"]), int(fields["op"]), fields["says"], text)


_PARSED = {"sum": _sum, "output": _output, "cause": _cause, "scalars": lambda fields, text: _split(fields["are"])}
