"""Random typed tile programs with control flow and memory, interpreted and emulated: results are equal to the bit.

    python tests/conformance/random_programs.py COUNT [--seed FIRST] [--steps STEPS] [--formats] [--target cpu]
                                                  [--vendor sm_80] [--num-ctas N]

Program N is the same on every machine; targets rotate with N.  Prints the number of every program that differs or does
not compile, and figures.  Exits with 1 if there is one.  `--vendor`: the vendor's code for one target is emulated
instead of ours.  With `--num-ctas` programs consist of operations that CTAs can share; the figures count the programs
with shared tiles.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import numpy as np  # noqa: E402

import tileiras  # noqa: E402
from tests.kernels.random_tiles import DTYPES, INTEGERS, MAX_ELEMENTS, RandomKernel  # noqa: E402
from tests.kernels.reasons import stated  # noqa: E402
from tests.kernels.tiles import Tile, assert_same, run_both  # noqa: E402
from tests.kernels.views import tile_type  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim import InterpreterError  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


SCRATCH_PLACES = 64


class Program(RandomKernel):
    """Operations of random kernels, control flow that depends on data, and memory that is written and read again."""

    STEPS = 12

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.tokens: dict[str, str] = {}  # memory -> token of its last access

    def step(self) -> None:
        kind = self.random.random()
        if kind < 0.25:
            self.random.choice([self.conditional, self.until, self.nested, self.skipping])()
        elif kind < 0.45:
            self.random.choice([self.through_views, self.through_views, self.gather, self.updates])()
        elif kind < 0.6:
            self.random.choice([self.shift, self.divide, self.scan, self.narrow, self.promise])()
        else:
            super().step()

    # -- values --------------------------------------------------------------------------------------------------------

    def constant(self, value: int, shape: tuple[int, ...], element: str) -> str:
        name = f"k{self.count}_{len(self.lines)}"
        self.lines.append(f"%{name} = constant <{element}: {value}> : {tile_type(shape, element)}")
        return name

    def integers(self) -> tuple[str, tuple[int, ...], str] | None:
        values = [value for value in self.values[-8:] if value[2] in INTEGERS]
        return self.random.choice(values) if values else None

    def shift(self) -> None:
        """By less than the width; sometimes by an arbitrary value, which leaves some elements undefined."""
        picked = self.integers()
        if picked is None:
            return
        name, shape, element = picked
        t, amount = tile_type(shape, element), self.partner(shape, element)
        if self.random.random() < 0.9:
            most = self.constant(8 * DTYPES[element]().itemsize - 1, shape, element)
            self.lines.append(f"%w{self.count} = andi %{amount}, %{most} : {t}")
            amount = f"w{self.count}"
        operation, sign = self.random.choice([("shli", ""), ("shri", " signed"), ("shri", " unsigned")])
        self.emit(f"{operation} %{name}, %{amount}{sign} : {t}", shape, element)

    def divide(self) -> None:
        """By odd numbers, sometimes by zero."""
        picked = self.integers()
        if picked is None:
            return
        name, shape, element = picked
        t, divisor = tile_type(shape, element), self.partner(shape, element)
        if self.random.random() < 0.9:
            ones = self.constant(1, shape, element)
            self.lines.append(f"%w{self.count} = ori %{divisor}, %{ones} : {t}")
            divisor = f"w{self.count}"
        operation = self.random.choice(["divi", "remi"])
        self.emit(f"{operation} %{name}, %{divisor} {self.random.choice(['signed', 'unsigned'])} : {t}", shape, element)

    def promise(self) -> None:
        """Sums with no-wrap flags, which may wrap."""
        picked = self.integers()
        if picked is None:
            return
        name, shape, element = picked
        other, t = self.partner(shape, element), tile_type(shape, element)
        flag = self.random.choice(["no_signed_wrap", "no_unsigned_wrap", "no_wrap"])
        operation = self.random.choice(["addi", "subi", "muli"])
        self.emit(f"{operation} %{name}, %{other} overflow<{flag}> : {t}", shape, element)

    def scan(self) -> None:
        name, shape, element = self.pick()
        axis, reverse = self.random.randrange(len(shape)), self.random.choice(["false", "true"])
        if element in INTEGERS:
            operation, identity = self.random.choice([("addi %x, %y", "0"), ("xori %x, %y", "0")])
        else:
            least = {"f16": "0xFC00", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
            operation, identity = "maxf %x, %y", least[element]
        t, scalar = tile_type(shape, element), tile_type((), element)
        body = f"(%x: {scalar}, %y: {scalar}) {{\n%z = {operation} : {scalar}\nyield %z : {scalar}\n}}"
        text = f"dim={axis} reverse={reverse} identities=[{identity} : {element}]"
        self.emit(f"scan %{name} {text} : {t} -> {t} {body}", shape, element)

    def narrow(self) -> None:
        """Through a narrower format and back."""
        name, shape, element = self.pick()
        if element in INTEGERS:
            return
        formats = {"f16": ["bf16", "f8E4M3FN"], "f32": ["bf16", "f16", "tf32", "f8E5M2"], "f64": ["bf16", "f32"]}
        t, between = tile_type(shape, element), tile_type(shape, self.random.choice(formats[element]))
        self.lines.append(f"%w{self.count} = ftof %{name} : {t} -> {between}")
        self.emit(f"ftof %w{self.count} : {between} -> {t}", shape, element)

    # -- memory --------------------------------------------------------------------------------------------------------

    def memory(self, element: str, size: int = MAX_ELEMENTS) -> str:
        """The name of memory of this type: a parameter without other uses."""
        name = f"m{size}_{element}"
        if all(tile.name != name for tile in self.inputs):
            self.inputs.append(Tile(name, element, np.arange(size).astype(DTYPES[element])))
        return name

    def view(self, memory: str, shape: tuple[int, ...], order: list[int], element: str) -> tuple[str, str]:
        """A view of the first elements as one tile of `shape`, whose dimensions lie in memory in this order."""
        sizes = [shape[dim] for dim in order]
        strides = [int(np.prod(sizes[place + 1 :])) for place in range(len(sizes))]
        n = f"{self.count}_{len(self.lines)}"
        tensor = f"tensor_view<{'x'.join(map(str, sizes))}x{element}, strides=[{','.join(map(str, strides))}]>"
        # Dimension d of the tile runs along tensor dimension dim_map[d].
        places = [order.index(dim) for dim in range(len(shape))]
        mapped = "" if places == sorted(places) else f", dim_map={places}"
        view = f"partition_view<tile=({'x'.join(map(str, shape))}), {tensor}{mapped}>"
        self.lines += [
            f"%t{n} = make_tensor_view %p_{memory}, shape = {sizes}, strides = {strides} : {tensor}",
            f"%p{n} = make_partition_view %t{n} : {view}",
        ]
        return f"%p{n}", view

    def store(self, memory: str, name: str, shape: tuple[int, ...], element: str) -> None:
        order = self.random.sample(range(len(shape)), len(shape))
        view, type_ = self.view(memory, shape, order, element)
        after = f" token = {self.tokens[memory]}" if memory in self.tokens else ""
        token, zeros = f"%st{len(self.lines)}", ", ".join(["%zero"] * len(shape))
        self.lines.append(
            f"{token} = store_view_tko weak %{name}, {view}[{zeros}]{after}"
            f" : {tile_type(shape, element)}, {type_}, tile<i32> -> token"
        )
        self.tokens[memory] = token

    def after_load(self, memory: str, token: str) -> None:
        self.lines.append(f"%jo{len(self.lines)} = join_tokens {self.tokens[memory]}, {token} : token")
        self.tokens[memory] = f"%jo{len(self.lines) - 1}"

    def through_views(self) -> None:
        """Store in one order of the dimensions, load in another, sometimes in another shape."""
        name, shape, element = self.pick()
        memory = self.memory(element)
        self.store(memory, name, shape, element)
        if self.random.random() < 0.5:
            half = int(np.prod(shape))
            rows = 2 ** self.random.randrange(half.bit_length())
            shape = (rows, half // rows)
        view, type_ = self.view(memory, shape, self.random.sample(range(len(shape)), len(shape)), element)
        n, zeros, t = self.count, ", ".join(["%zero"] * len(shape)), tile_type(shape, element)
        self.count += 1
        self.lines.append(
            f"%v{n}, %g{n} = load_view_tko weak {view}[{zeros}] token = {self.tokens[memory]}"
            f" : {type_}, tile<i32> -> {t}, token"
        )
        self.values.append((f"v{n}", shape, element))
        self.after_load(memory, f"%g{n}")

    def places(self, shape: tuple[int, ...], memory: str, element: str) -> str:
        """Pointers into the first elements of memory, at offsets that depend on data."""
        picked = [name for name, s, e in self.values if s == shape and e == "i32"]
        n = f"{self.count}_{len(self.lines)}"
        whole, pointers = tile_type(shape, "i32"), tile_type(shape, f"ptr<{element}>")
        ones = tile_type([1] * len(shape), f"ptr<{element}>")
        most = self.constant(SCRATCH_PLACES - 1, shape, "i32")
        if picked:
            source = self.random.choice(picked)
        else:
            flat = int(np.prod(shape))
            self.lines += [f"%i{n} = iota : {tile_type((flat,), 'i32')}",
                           f"%w{n} = reshape %i{n} : {tile_type((flat,), 'i32')} -> {whole}"]  # fmt: skip
            source = f"w{n}"
        self.lines += [
            f"%n{n} = andi %{source}, %{most} : {whole}",
            f"%b{n} = reshape %p_{memory} : tile<ptr<{element}>> -> {ones}",
            f"%d{n} = broadcast %b{n} : {ones} -> {pointers}",
            f"%q{n} = offset %d{n}, %n{n} : {pointers}, {whole} -> {pointers}",
        ]
        return f"%q{n}"

    def gather(self) -> None:
        """Elements at offsets that depend on data; some masked off, with or without a padding value."""
        name, shape, element = self.pick()
        memory = self.memory(element)
        self.store(memory, name, shape, element)
        pointers = self.places(shape, memory, element)
        n, t, truth = self.count, tile_type(shape, element), tile_type(shape, "i1")
        p = tile_type(shape, f"ptr<{element}>")
        less = "cmpi less_than %{}, %{}, signed" if element in INTEGERS else "cmpf less_than ordered %{}, %{}"
        self.lines.append(f"%c{n} = {less.format(name, self.partner(shape, element))} : {t} -> {truth}")
        masked, types = f", %c{n}", f"{p}, {truth}"
        if self.random.random() < 0.8:
            masked, types = f"{masked}, %{name}", f"{types}, {t}"
        self.count += 1
        self.lines.append(
            f"%v{n}, %g{n} = load_ptr_tko weak {pointers}{masked} token={self.tokens[memory]} : {types} -> {t}, token"
        )
        self.values.append((f"v{n}", shape, element))
        self.after_load(memory, f"%g{n}")

    def updates(self) -> None:
        """Commutative atomic updates of locations that several elements share."""
        values = [value for value in self.values[-8:] if value[2] in ("i32", "i64")]
        if not values:
            return
        name, shape, element = self.random.choice(values)
        memory = self.memory(element, SCRATCH_PLACES)
        pointers, n, t = self.places(shape, memory, element), self.count, tile_type(shape, element)
        mode = self.random.choice(["add", "and", "or", "xor", "max", "min", "umax", "umin"])
        after = f" token={self.tokens[memory]}" if memory in self.tokens else ""
        token, p = f"%st{len(self.lines)}", tile_type(shape, f"ptr<{element}>")
        self.lines.append(
            f"%o{n}, {token} = atomic_rmw_tko relaxed device {pointers}, {mode}, %{name}{after}"
            f" : {p}, {t} -> {t}, token"
        )
        self.tokens[memory] = token
        view, type_ = self.view(memory, (SCRATCH_PLACES,), [0], element)
        result = tile_type((SCRATCH_PLACES,), element)
        self.count += 1
        self.lines.append(
            f"%v{n}, %g{n} = load_view_tko weak {view}[%zero] token = {token} : {type_}, tile<i32> -> {result}, token"
        )
        self.values.append((f"v{n}", (SCRATCH_PLACES,), element))
        self.after_load(memory, f"%g{n}")

    # -- control flow --------------------------------------------------------------------------------------------------

    def skipping(self) -> None:
        """A `for` with a `continue` in some rounds, around a `loop`."""
        name, shape, element = self.pick()
        other, t, n = self.partner(shape, element), tile_type(shape, element), self.count
        upper, rounds = self.random.randrange(6), self.random.randrange(1, 3)
        self.lines += [
            f"%n{n} = constant <i32: {upper}> : tile<i32>",
            f"%d{n} = constant <i32: {rounds}> : tile<i32>",
        ]
        self.emit(
            f"for {self.random.choice(['', 'unsigned '])}%i{n} in (%zero to %n{n}, step %one) : tile<i32>"
            f" iter_values(%s{n} = %{name}) -> ({t}) {{\n"
            f"%b{n} = andi %i{n}, %one : tile<i32>\n"
            f"%o{n} = cmpi equal %b{n}, %one, signed : tile<i32> -> tile<i1>\n"
            f"if %o{n} {{\ncontinue %s{n} : {t}\n}}\n"
            f"%w{n} = loop iter_values(%u{n} = %s{n}, %r{n} = %zero) : {t}, tile<i32> -> {t} {{\n"
            f"%y{n} = {self.operation(element)} %u{n}, %{other} : {t}\n"
            f"%j{n} = addi %r{n}, %one : tile<i32>\n"
            f"%e{n} = cmpi greater_than_or_equal %j{n}, %d{n}, signed : tile<i32> -> tile<i1>\n"
            f"if %e{n} {{\nbreak %y{n} : {t}\n}}\n"
            f"continue %y{n}, %j{n} : {t}, tile<i32>\n}}\n"
            f"continue %w{n} : {t}\n}}",
            shape, element,
        )  # fmt: skip

    def truth(self, name: str, shape: tuple[int, ...], element: str) -> str:
        """The name of a scalar: whether the first element of a tile is negative."""
        n, scalar, one = self.count, tile_type((), element), tile_type([1] * len(shape), element)
        integer = element in INTEGERS
        less = f"cmpi less_than %f{n}, %z{n}, signed" if integer else f"cmpf less_than ordered %f{n}, %z{n}"
        zeros = ", ".join(["%zero"] * len(shape))
        self.lines += [
            f"%e{n} = extract %{name}[{zeros}] : {tile_type(shape, element)} -> {one}",
            f"%f{n} = reshape %e{n} : {one} -> {scalar}",
            f"%z{n} = constant <{element}: {0 if integer else 0.0}> : {scalar}",
            f"%p{n} = {less} : {scalar} -> tile<i1>",
        ]
        return f"%p{n}"

    def operation(self, element: str) -> str:
        return self.random.choice(["addi", "subi", "muli", "xori"] if element in INTEGERS else ["addf", "subf", "mulf"])

    def conditional(self) -> None:
        name, shape, element = self.pick()
        other, t = self.partner(shape, element), tile_type(shape, element)
        condition, n = self.truth(*self.pick()), self.count
        self.emit(
            f"if {condition} -> ({t}) {{\n"
            f"%t{n} = {self.operation(element)} %{name}, %{other} : {t}\nyield %t{n} : {t}\n}} else {{\n"
            f"%u{n} = {self.operation(element)} %{other}, %{name} : {t}\nyield %u{n} : {t}\n}}",
            shape, element,
        )  # fmt: skip

    def until(self) -> None:
        """A `loop` left by a `break` in an `if`, after a number of rounds that depends on data."""
        name, shape, element = self.pick()
        other, t = self.partner(shape, element), tile_type(shape, element)
        condition, n = self.truth(*self.pick()), self.count
        few, many = self.random.randrange(3), self.random.randrange(5)
        self.lines += [
            f"%few{n} = constant <i32: {few}> : tile<i32>",
            f"%many{n} = constant <i32: {many}> : tile<i32>",
            f"%rounds{n} = select {condition}, %few{n}, %many{n} : tile<i1>, tile<i32>",
        ]
        self.emit(
            f"loop iter_values(%s{n} = %{name}, %i{n} = %zero) : {t}, tile<i32> -> {t} {{\n"
            f"%done{n} = cmpi greater_than_or_equal %i{n}, %rounds{n}, signed : tile<i32> -> tile<i1>\n"
            f"if %done{n} {{\nbreak %s{n} : {t}\n}}\n"
            f"%w{n} = {self.operation(element)} %s{n}, %{other} : {t}\n"
            f"%j{n} = addi %i{n}, %one : tile<i32>\n"
            f"continue %w{n}, %j{n} : {t}, tile<i32>\n}}",
            shape, element,
        )  # fmt: skip

    def nested(self) -> None:
        """An `if` on the counter, in a `for` that carries a tile from one round to the next."""
        name, shape, element = self.pick()
        other, t, n = self.partner(shape, element), tile_type(shape, element), self.count
        start, upper, step = self.random.randrange(-3, 3), self.random.randrange(6), self.random.randrange(1, 4)
        self.lines += [
            f"%l{n} = constant <i32: {start}> : tile<i32>",
            f"%n{n} = constant <i32: {upper}> : tile<i32>",
            f"%d{n} = constant <i32: {step}> : tile<i32>",
        ]
        self.emit(
            f"for %i{n} in (%l{n} to %n{n}, step %d{n}) : tile<i32> iter_values(%s{n} = %{name}) -> ({t}) {{\n"
            f"%b{n} = andi %i{n}, %one : tile<i32>\n"
            f"%o{n} = cmpi equal %b{n}, %one, signed : tile<i32> -> tile<i1>\n"
            f"%w{n} = if %o{n} -> ({t}) {{\n"
            f"%t{n} = {self.operation(element)} %s{n}, %{other} : {t}\nyield %t{n} : {t}\n}} else {{\n"
            f"%u{n} = {self.operation(element)} %{other}, %s{n} : {t}\nyield %u{n} : {t}\n}}\n"
            f"continue %w{n} : {t}\n}}",
            shape, element,
        )  # fmt: skip


NARROW = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "tf32", "bf16")
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")


class Formats(Program):
    """A program's operations, and numbers that are converted to narrow formats, to bytes and in every rounding mode."""

    def step(self) -> None:
        if self.random.random() < 0.4:
            self.random.choice([self.moved_in_narrow, self.moved_in_narrow, self.rounded, self.saturated, self.bytes])()
        else:
            super().step()

    def moved_in_narrow(self) -> None:
        """Convert to a format of few bits, rearrange, and convert back."""
        name, shape, element = self.pick()
        n = self.count
        if element in INTEGERS:
            narrow, into, back = "i4", "trunci", self.random.choice([" signed", " unsigned"])
            back = f"exti %m{n}{back}"
        else:
            narrow, back = self.random.choice(NARROW), f"ftof %m{n}"
            into = "ftof"
        if narrow == "f4E2M1FN" and np.prod(shape) % 2:
            return
        mode = f" rounding<{self.random.choice(['zero', 'positive_inf'])}>" if narrow == "f8E8M0FNU" else ""
        order = list(range(len(shape)))
        self.random.shuffle(order)
        moved = tuple(shape[dim] for dim in order) if len(shape) > 1 else (1, *shape)
        move = f"permute %k{n} {order}" if len(shape) > 1 else f"reshape %k{n}"
        before, after = tile_type(shape, narrow), tile_type(moved, narrow)
        self.lines += [
            f"%k{n} = {into} %{name}{mode} : {tile_type(shape, element)} -> {before}",
            f"%m{n} = {move} : {before} -> {after}",
        ]
        self.emit(f"{back} : {after} -> {tile_type(moved, element)}", moved, element)

    def rounded(self) -> None:
        name, shape, element = self.pick()
        if element in INTEGERS:
            return
        other, t = self.partner(shape, element), tile_type(shape, element)
        flags = f" rounding<{self.random.choice(MODES)}>"
        if element == "f32" and self.random.random() < 0.3:
            flags += " flush_to_zero"
        operation = self.random.choice(["addf", "subf", "mulf", "divf", "fma", "sqrt"])
        operands = {"fma": f"%{name}, %{other}, %{name}", "sqrt": f"%{name}"}.get(operation, f"%{name}, %{other}")
        self.emit(f"{operation} {operands}{flags} : {t}", shape, element)

    def saturated(self) -> None:
        name, shape, element = self.pick()
        if element in INTEGERS:
            return
        target, sign = self.random.choice(INTEGERS), self.random.choice(["signed", "unsigned"])
        types = f"{tile_type(shape, element)} -> {tile_type(shape, target)}"
        self.emit(f"ftoi %{name} {sign} saturating : {types}", shape, target)

    def bytes(self) -> None:
        """Bitcast integers to floats; the reverse would expose the bits of a NaN, which are not defined."""
        name, shape, element = self.pick()
        size, n, count = DTYPES[element]().itemsize, self.count, int(np.prod(shape))
        floats = [e for e in DTYPES if e not in INTEGERS and DTYPES[e]().itemsize == size]
        if element not in INTEGERS or not floats:
            return
        flat, data = tile_type((count,), element), tile_type((count * size,), "i8")
        self.lines += [
            f"%g{n} = reshape %{name} : {tile_type(shape, element)} -> {flat}",
            f"%h{n} = pack %g{n} : {flat} -> {data}",
        ]
        self.emit(f"unpack %h{n} : {data} -> {tile_type((count,), floats[0])}", (count,), floats[0])


class Meaningless(Exception):
    """A program whose control flow or addresses depend on undefined elements."""


def run(
    number: int, steps: int, kind: type[Program] = Program, num_ctas: int = 1, vendors_target: str | None = None,
    shared: list[int] | None = None, target: str | None = None,
) -> int:
    """Run program `number` both ways; the number of its operations.  Raises the failure, or Meaningless.

    `shared` collects the numbers of programs whose tiles CTAs share; short programs are shared more often than long
    ones.
    """
    program = kind(number)
    for _ in range(steps):
        program.step()
    outputs = [Tile(n, e, np.zeros(shape, DTYPES[e])) for n, shape, e in program.values if n[0] == "v"]
    # Later values depend on earlier ones; storing all of them would take longer than computing them.
    outputs = outputs[-6:] if num_ctas == 1 else outputs[-1:]
    targets = TARGETS if num_ctas == 1 else [target for target in TARGETS if target != "sm_80"]
    target = vendors_target or target or targets[number % len(targets)]
    options: dict[str, Any] = {"legalize_types": True, "num_ctas": num_ctas}
    if vendors_target is not None:
        from vendor_ptx import vendor_ptx

        options = {"code": lambda text, target: (vendor_ptx(text, target), None)}
    elif num_ctas > 1 and shared is not None:
        options["code"] = partial(_code_noting_shares, number, shared)
    # If few of the possible values of an undefined element change the result, it takes many runs to find one.
    for random_runs in (1, 60):
        try:
            expected, actual = run_both(
                program.inputs, "\n".join(program.lines), outputs, target, random_runs, **options
            )
            for tile, want, got in zip(outputs, expected, actual):
                assert_same(f"program {number}, {target}, %{tile.name}", got, want, [])
            break
        except InterpreterError as error:
            if "uses an undefined value" in error.diagnostic.message:
                raise Meaningless(error.diagnostic.message) from None
            raise
        except AssertionError:
            if random_runs > 1:
                raise
    return len(program.lines)


def _code_noting_shares(number: int, shared: list[int], text: str, target: str, **options: Any) -> tuple[str, Any]:
    artifact = tileiras.compile(text, gpu_name=target, source_name="kernel.mlir", **options)
    if number not in shared and stated(artifact.diagnostics, "slices.shared-by-ctas"):
        shared.append(number)
    return artifact.text, json.loads(artifact.kernels[0].artifacts[".json"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="random_programs.py")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first program's number")
    parser.add_argument("--steps", type=int, help="operations of a program, about")
    parser.add_argument("--formats", action="store_true", help="more of narrow formats, and every rounding mode")
    parser.add_argument("--target", help="the target of all programs, cpu as well")
    parser.add_argument("--vendor", metavar="TARGET", help="the vendor's code for this target")
    parser.add_argument("--num-ctas", type=int, default=1, help="CTAs of a tile block, on targets with clusters")
    options = parser.parse_args()
    begin, figures, shared = time.monotonic(), Counter(), []
    kind = Formats if options.formats else Program
    if options.num_ctas > 1 and not options.formats:
        from shared_programs import Shared

        kind = Shared
    for number in range(options.seed, options.seed + options.count):
        try:
            figures["operations"] += run(
                number, options.steps or kind.STEPS, kind, options.num_ctas, options.vendor, shared, options.target
            )
            figures["programs"] += 1
        except Meaningless:
            figures["meaningless"] += 1
        except (AssertionError, CompileError, SimulationError, RuntimeError) as error:
            figures["failed"] += 1
            print(f"program {number}: {type(error).__name__}: {error}"[:600], flush=True)
        if (number + 1 - options.seed) % 500 == 0:
            print(f"{number + 1 - options.seed} programs, {time.monotonic() - begin:.0f} s", flush=True)
    print(
        f"{options.count} programs from {options.seed}: {figures['programs']} equal, {figures['failed']} failed,"
        f" {figures['meaningless']} without a meaning,"
        f"{f' {len(shared)} shared by CTAs,' if options.num_ctas > 1 else ''}"
        f" {figures['operations']} operations, {time.monotonic() - begin:.0f} s"
    )
    return bool(figures["failed"])


if __name__ == "__main__":
    sys.exit(main())
