"""Certificates of order for readers: with places in the source, in words, and for two builds of one program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tileiras import pipeline
from tileiras.diagnostics import CompileError
from tileiras.ir import Operation
from tileiras.options import CompileOptions
from tileiras.order.certificate import BLOCK, GRID, NO, YES, Certificate, Sum
from tileiras.stages import StageContext, units
from tileiras.support.named_tuple import NamedTuple

from .coverage import place

SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"

_NAMES = {
    "reduce": ("reduce",), "scan": ("scan",), "dot": ("dot", "block_scaled_mma"), "loop": ("for", "while"),
    "atomic": ("atomic_rmw", "tiled_atomic_rmw"),
}  # fmt: skip
"""Kind of a sum -> names of its operation."""


def of_kernel(metadata: Mapping[str, Any] | None, entry: str) -> dict[str, Any] | None:
    """The certificate of an entry in NAME.json; None if it is absent."""
    rows = metadata["kernels"] if metadata is not None else ()
    return next((row["order"] for row in rows if row["name"] == entry and "order" in row), None)


def locate(order: dict[str, Any] | None, module: Operation, entry: str, gpu_name: str) -> dict[str, Any] | None:
    """The certificate with places in the module instead of operation numbers."""
    if order is None:
        return None
    places = _places(order, module, entry, gpu_name)

    def with_place(row: Mapping[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in row.items() if name != "op"}
        if "causes" in row:
            fields["causes"] = [with_place(each) for each in row["causes"]]
        return {"location": places.get(row["op"], ""), **fields} if "op" in row else fields

    return {name: [with_place(each) for each in order[name]] for name in ("sums", "outputs")}


def _places(order: Mapping[str, Any], module: Operation, entry: str, gpu_name: str) -> dict[int, str]:
    """Operation number -> place.  The module is lowered to nv_tileaa once more; a result that does not match the
    certificate, as for a sanitized kernel, has no places."""
    unit = dict(units.entry_modules(module.clone({}), entry))[entry]
    try:
        options = CompileOptions({"gpu-name": gpu_name, "legalize-types": True})
        lowered = pipeline.run_stage(pipeline.stage("tileaa"), unit, options, StageContext()).output
    except CompileError:
        return {}
    ops = list(lowered.walk())  # type: ignore[union-attr]
    for each in order["sums"]:
        name = ops[each["op"]].name if each["op"] < len(ops) else ""
        if name.rpartition(".")[2] not in _NAMES[each["kind"]]:
            return {}
    return {number: place(op) for number, op in enumerate(ops)}


# -- words -------------------------------------------------------------------------------------------------------------

_REPEATABLE = {
    YES: "is the same from run to run", NO: "may differ from run to run",
    UNKNOWN: "is not known to be the same from run to run",
}  # fmt: skip
_HOW = {"order": "order", "value": "value", "reads": "data that are read", "unsure": "choice of the kernel"}
_NO_ORDER = "in an unknown order"


def quantity(name: str) -> str:
    """The name of a launch quantity in words."""
    if name[0] == "p":
        return f"argument {name[1:]}"
    kind, _, axis = name.partition(".")
    return {"grid": "the grid's size", "block": "the tile block's number"}[kind] + (f" along {axis}" if axis else "")


def _in_words(depends: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Quantities in words with their classes; three axes of the same class are one."""
    joined = [axes for axes in (GRID, BLOCK) if axes[0] in depends and len({depends.get(axis) for axis in axes}) == 1]
    for name, how in depends.items():
        axes = next((axes for axes in joined if name in axes), None)
        if axes is None:
            yield quantity(name), how
        elif name == axes[0]:
            yield quantity(name.partition(".")[0]), how


class Statement(NamedTuple):
    """One line of a certificate."""

    kind: str
    """`output`, `cause`, or the kind of a sum."""
    row: Mapping[str, Any]
    text: str


def statements(order: Mapping[str, Any]) -> Iterator[Statement]:
    """Each output with its causes and sums."""
    for out in order["outputs"]:
        memory = f"argument {out['argument']}" if out["argument"] >= 0 else "other memory"
        depends = [f"{name} ({_HOW[how]})" for name, how in _in_words(out["depends"])]
        on = f"depends on {', '.join(depends)}, and on nothing else" if depends else "depends on nothing"
        yield Statement("output", out, f"{memory} {_REPEATABLE[out['repeatable']]}; {on} of a launch but its data")
        for cause in out.get("causes", ()):
            yield Statement("cause", cause, cause["why"])
        for number in out["sums"]:
            row = order["sums"][number]
            length = f"{row['length']} " if row.get("length") else ""
            loop = ", carried by a loop" if row.get("in_loop") else ""
            yield Statement(row["kind"], row, f"{length}{row['of']}{loop}: {row.get('order') or _NO_ORDER}")


def words(order: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a certificate with places."""
    for each in statements(order):
        if each.kind == "output":
            yield f"order: {each.text}"
            continue
        lead = f"{each.row['location']}: " if each.row.get("location") else ""
        yield f"  {lead}{each.text if each.kind == 'cause' else f'{each.kind} of {each.text}'}"


# -- two builds --------------------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """A difference between two builds that may change result bits."""

    why: str
    location: str = ""
    first: str = ""
    second: str = ""

    def __str__(self) -> str:
        lead = f"{self.location}: " if self.location else ""
        both = f"\n      {self.first}\n      {self.second}" if self.first else ""
        return f"{lead}{self.why}{both}"


class Claim(NamedTuple):
    """The claim of two certificates on one output."""

    argument: int
    says: str
    differences: tuple[Difference, ...] = ()


EXACTNESS = ("ftz", "approx")
"""Options that change the rounding of single operations."""

LIBRARIES = ("libdevice", "blob_linked_lib")
"""Options that name the code of functions."""


def compare(
    first: dict[str, Any] | None, second: dict[str, Any] | None, options: Sequence[Mapping[str, Any]],
    places: Sequence[Mapping[str, Any]] = (),
) -> list[Claim]:  # fmt: skip
    """Compare the certificates of two builds of one program.

    options: the options of both builds, including `gpu_name`.
    places: the sums of the first certificate with places.
    """
    if first is None or second is None:
        return [Claim(-1, UNKNOWN, (Difference("a build has no certificate of order"),))]
    one, other = Certificate.from_json(first), Certificate.from_json(second)
    if _shape(one) != _shape(other):
        return [Claim(-1, UNKNOWN, (Difference("the builds have different sums"),))]
    general = list(_by_options(*options))
    claims = []
    for out, twin in zip(one.outputs, other.outputs):
        differences = list(general)
        for repeatable in dict.fromkeys(each.repeatable for each in (out, twin) if each.repeatable != YES):
            differences.append((DIFFERENT if repeatable == NO else UNKNOWN, Difference(_REPEATABLE[repeatable])))
        for number in out.sums:
            where = places[number].get("location", "") if places else ""
            differences += _of_sum(one.sums[number], other.sums[number], where)
        says = {each for each, _ in differences}
        status = DIFFERENT if DIFFERENT in says else UNKNOWN if says else SAME
        claims.append(Claim(out.argument, status, tuple(difference for _, difference in differences)))
    return claims


def _shape(certificate: Certificate) -> list[Any]:
    sums = [each._replace(op=0, key="", order="") for each in certificate.sums]
    return [sums, [(out.argument, out.sums) for out in certificate.outputs]]


def _by_options(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, Difference]]:
    for name in EXACTNESS:
        if bool(first.get(name)) != bool(second.get(name)):
            yield DIFFERENT, Difference(f"--{name} changes the rounding of single operations")
    for name in LIBRARIES:
        if (first.get(name) or None) != (second.get(name) or None):
            yield UNKNOWN, Difference(f"--{name.replace('_', '-')}: another library may compute functions otherwise")
    if first.get("gpu_name") != second.get("gpu_name"):
        yield UNKNOWN, Difference("functions and conversions may be other instructions on another GPU")


def _of_sum(first: Sum, second: Sum, where: str) -> Iterator[tuple[str, Difference]]:
    if first.key and first.key == second.key or first.kind == "atomic":
        return
    both = first.order or _NO_ORDER, second.order or _NO_ORDER
    subject = f"{first.kind} of {first.of}"
    if not (first.key and second.key):
        yield UNKNOWN, Difference(f"{subject}: the order is not known", where, *both)
    elif first.kind == "dot" and both[0].partition(",")[0] == both[1].partition(",")[0]:
        why = f"{subject}: other instructions with the same steps; the order within one is the hardware's"
        yield UNKNOWN, Difference(why, where, *both)
    else:
        yield DIFFERENT, Difference(f"{subject}: another order", where, *both)
