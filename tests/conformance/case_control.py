"""Kernels with control flow, pointers as integers, tokens, sizes of views, and assumptions.

Every loop-carried value is a tile of its own type and shape; conditions and bounds are loaded from memory, so that
nothing folds at compile time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from case_memory import pointers
from case_modules import Kernel, Operand, tile_type
from case_values import DTYPES, FLOATS, INTEGERS, NARROW, values

ELEMENTS = ("i1", *INTEGERS, *FLOATS, *NARROW, "tf32")
TILES = ((1,), (8,), (256,), (4, 32), (2, 4, 8), (64, 128))


class Flow(NamedTuple):
    """`text` computes %r of %a and %b (tiles {t}) and %n (a tile<i32>); `reference` does so on arrays and a number."""

    name: str
    text: str
    reference: Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def _loop(rounds: int) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    """Swap two loop-carried tiles in each of n + k rounds."""
    return lambda a, b, n: (a, b)[max(n + rounds, 0) % 2]


TEST = "%c = cmpi greater_than %n, %one, signed : tile<i32> -> tile<i1>"
CARRIED = ": tile<i32> iter_values(%x = %a, %y = %b) -> ({t}, {t})"
FLOWS = [
    Flow("if", f"""{TEST}
      %r = if %c -> ({{t}}) {{{{
        yield %a : {{t}}
      }}}} else {{{{
        yield %b : {{t}}
      }}}}""", lambda a, b, n: a if n > 1 else b),
    Flow("if in if", f"""{TEST}
      %r = if %c -> ({{t}}) {{{{
        %d = cmpi equal %n, %two, signed : tile<i32> -> tile<i1>
        %s = if %d -> ({{t}}) {{{{
          yield %b : {{t}}
        }}}} else {{{{
          yield %a : {{t}}
        }}}}
        yield %s : {{t}}
      }}}} else {{{{
        yield %b : {{t}}
      }}}}""", lambda a, b, n: a if n > 2 else b),
    Flow("for", f"""%r, %rest = for %i in (%zero to %n, step %one) {CARRIED} {{{{
        continue %y, %x : {{t}}, {{t}}
      }}}}""", _loop(0)),
    # As unsigned numbers, negative bounds are beyond all others.
    Flow("for unsigned", f"""%low = subi %zero, %n : tile<i32>
      %r, %rest = for unsigned %i in (%low to %minus, step %one) {CARRIED} {{{{
        continue %y, %x : {{t}}, {{t}}
      }}}}""", _loop(-1)),
    Flow("for with if", f"""%r, %rest = for %i in (%zero to %n, step %one) {CARRIED} {{{{
        %c = cmpi equal %i, %one, signed : tile<i32> -> tile<i1>
        if %c {{{{
          continue %x, %y : {{t}}, {{t}}
        }}}}
        continue %y, %x : {{t}}, {{t}}
      }}}}""", lambda a, b, n: (a, b)[max(n - (n > 1), 0) % 2]),
    Flow("loop", """%r, %last = loop iter_values(%x = %a, %y = %b, %i = %zero)
          : {t}, {t}, tile<i32> -> {t}, tile<i32> {{
        %c = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
        if %c {{
          break %x, %i : {t}, tile<i32>
        }}
        %j = addi %i, %one : tile<i32>
        continue %y, %x, %j : {t}, {t}, tile<i32>
      }}""", _loop(0)),
    Flow("loop in for", f"""%r, %rest = for %i in (%zero to %n, step %one) {CARRIED} {{{{
        %u, %v = loop iter_values(%p = %x, %q = %y, %k = %zero) : {{t}}, {{t}}, tile<i32> -> {{t}}, {{t}} {{{{
          %c = cmpi greater_than_or_equal %k, %i, signed : tile<i32> -> tile<i1>
          if %c {{{{
            break %p, %q : {{t}}, {{t}}
          }}}}
          %l = addi %k, %one : tile<i32>
          continue %q, %p, %l : {{t}}, {{t}}, tile<i32>
        }}}}
        continue %u, %v : {{t}}, {{t}}
      }}}}""", lambda a, b, n: (a, b)[max(n, 0) * max(n - 1, 0) // 2 % 2]),
]  # fmt: skip
COUNTS = (0, 1, 3, 4)


def flows() -> Iterator[Kernel]:
    counts = itertools.cycle(COUNTS)
    for flow, element, shape in itertools.product(FLOWS, ELEMENTS, TILES):
        n = next(counts)
        if flow.name == "for unsigned":
            n = max(n, 1)
        t = tile_type(shape, element)
        inputs = (
            *(Operand(name, element, shape, values("any", element, shape, f"flow {name}")) for name in "ab"),
            Operand("n", "i32", (), np.array([n], np.int32), "scalar"),
        )
        body = f"""%two = constant <i32: 2> : tile<i32>
          %minus = constant <i32: -1> : tile<i32>
          {flow.text.format(t=t)}"""
        output = Operand("r", element, shape, np.zeros(shape, DTYPES[element]))

        def reference(a: np.ndarray, b: np.ndarray, n: np.ndarray, flow: Flow = flow) -> list[np.ndarray]:
            return [flow.reference(a, b, int(n[0]))]

        yield Kernel("control", f"{flow.name} {element} {shape} {n}", inputs, body, (output,), reference=reference)


def returns() -> Iterator[Kernel]:
    """Blocks that return early store nothing; the others continue."""
    for element, shape in itertools.product(ELEMENTS, TILES):
        t, count = tile_type(shape, element), 3
        a = values("any", element, (count, *shape), "return")
        strides = [stride // a.itemsize for stride in a.strides]
        tensor = f"tensor_view<{'x'.join(map(str, a.shape))}x{element}, strides=[{', '.join(map(str, strides))}]>"
        view = f"partition_view<tile=({'x'.join(map(str, (1, *shape)))}), {tensor}>"
        place = ", ".join(["%bx", *["%zero"] * len(shape)])
        whole = tile_type((1, *shape), element)
        text = f"""%X_t = make_tensor_view %X_p, shape = {list(a.shape)}, strides = {strides} : {tensor}
          %X_v = make_partition_view %X_t : {view}"""
        body = f"""{text.replace("X", "m")}
          {text.replace("X", "r")}
          %c = cmpi equal %bx, %one, signed : tile<i32> -> tile<i1>
          if %c {{
            return
          }}
          %x, %k = load_view_tko weak %m_v[{place}] : {view}, tile<i32> -> {whole}, token
          %k1 = store_view_tko weak %x, %r_v[{place}] : {whole}, {view}, tile<i32> -> token"""
        inputs = (Operand("m", element, a.shape, a, "memory"),)
        output = Operand("r", element, a.shape, np.zeros_like(a), "memory")

        def kept(a: np.ndarray) -> list[np.ndarray]:
            result = a.copy()
            result[1] = np.zeros(a.shape[1:], a.dtype)
            return [result]

        yield Kernel("control", f"return {element} {t}", inputs, body, (output,), (count,), reference=kept)


def addresses() -> Iterator[Kernel]:
    """Convert pointers to integers, move them, and convert them to pointers of the same and of another type."""
    for element, count in itertools.product(ELEMENTS, (1, 16, 64, 512)):
        a = values("any", element, (count,), "address")
        size = a.itemsize
        p, t, i, w = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32", "i64"))
        bytes_ = tile_type((count,), "ptr<i8>")
        body = f"""%lane = iota : {i}
          {pointers("%m_p", "%lane", "mp", element, (count,))}
          %n = ptr_to_int %mp : {p} -> {w}
          %first = ptr_to_int %m_p : tile<ptr<{element}>> -> tile<i64>
          %one_ = reshape %first : tile<i64> -> tile<1xi64>
          %firsts = broadcast %one_ : tile<1xi64> -> {w}
          %last = constant <i64: {(count - 1) * size}> : {w}
          %to_end = addi %firsts, %last : {w}
          %behind = subi %n, %firsts : {w}
          %turned = subi %to_end, %behind : {w}
          %q = int_to_ptr %turned : {w} -> {p}
          %b = ptr_to_ptr %q : {p} -> {bytes_}
          %c = ptr_to_ptr %b : {bytes_} -> {p}
          %r, %k = load_ptr_tko weak %c : {p} -> {t}, token"""
        memory = Operand("m", element, (count,), a, "memory")
        output = Operand("r", element, (count,), np.zeros(count, DTYPES[element]))
        yield Kernel("control", f"addresses {element} {count}", (memory,), body, (output,),
                     reference=lambda a: [a[::-1]])  # fmt: skip


def tokens() -> Iterator[Kernel]:
    """Store through one view, load in reverse through another one; the tokens of both halves order the accesses."""
    for element, count in itertools.product(ELEMENTS, (2, 16, 512)):
        a, half = values("any", element, (count,), "token"), count // 2
        tensor = f"tensor_view<{count}x{element}, strides=[1]>"
        view = f"partition_view<tile=({half}), {tensor}>"
        p, i = (tile_type((count,), e) for e in (f"ptr<{element}>", "i32"))
        t, h = tile_type((count,), element), tile_type((half,), element)
        for fence in ("", "memory_fence_alias_tko"):
            joined = "%k3 = join_tokens %k0, %k1, %k2 : token"
            after = f"%k4 = {fence} %k3" if fence else "%k4 = join_tokens %k3, %k0 : token"
            body = f"""%k0 = make_token : token
              %t = make_tensor_view %m_p, shape = [{count}], strides = [1] : {tensor}
              %v = make_partition_view %t : {view}
              %low = extract %a[%zero] : {t} -> {h}
              %high = extract %a[%one] : {t} -> {h}
              %k1 = store_view_tko weak %low, %v[%zero] token=%k0 : {h}, {view}, tile<i32> -> token
              %k2 = store_view_tko weak %high, %v[%one] token=%k0 : {h}, {view}, tile<i32> -> token
              {joined}
              {after}
              %lane = iota : {i}
              %last = constant <i32: {count - 1}> : {i}
              %turned = subi %last, %lane : {i}
              {pointers("%m_p", "%turned", "mp", element, (count,))}
              %r, %k = load_ptr_tko weak %mp token=%k4 : {p} -> {t}, token"""
            memory = Operand("m", element, (count,), np.zeros(count, DTYPES[element]), "memory")
            output = Operand("r", element, (count,), np.zeros(count, DTYPES[element]))
            name = f"tokens {fence or 'join'} {element} {count}"
            yield Kernel("control", name, (Operand("a", element, (count,), a),), body, (memory, output),
                         reference=lambda a: [a, a[::-1]])  # fmt: skip


def sizes() -> Iterator[Kernel]:
    """Sizes of arrays and of grids of tiles, in every integer type that holds them; the shape of the launch."""
    for element, (shape, tile) in itertools.product(
        INTEGERS, [((70,), (32,)), ((9, 40), (4, 16)), ((3, 10, 12), (1, 8, 8)), ((1, 1), (1, 1))]
    ):
        rank = len(shape)
        known = f"tensor_view<{'x'.join(map(str, shape))}xf32, strides=[{', '.join(['1'] * rank)}]>"
        unknown = f"tensor_view<{'?x' * rank}f32, strides=[{', '.join(['1'] * rank)}]>"
        for kind, tensor in (("static", known), ("dynamic", unknown)):
            view = f"partition_view<tile=({'x'.join(map(str, tile))}), {tensor}>"
            text = ", ".join(f"%s{dim}" for dim in range(rank)) if kind == "dynamic" else ", ".join(map(str, shape))
            of = "tile<i32> -> " if kind == "dynamic" else ""
            shapes, spaces = (", ".join(f"%{letter}{dim}" for dim in range(rank)) for letter in "ng")
            blocks = "addi %gx, %zero : tile<i32>"
            if element != "i32":
                blocks = f"trunci %gx : tile<i32> -> tile<{element}>"
            if element == "i64":
                blocks = "exti %gx unsigned : tile<i32> -> tile<i64>"
            lines = [f"%s{dim} = addi %{'abc'[dim]}, %zero : tile<i32>" for dim in range(rank)]
            lines += [
                f"%t = make_tensor_view %m_p, shape = [{text}], strides = [{', '.join(['1'] * rank)}] : {of}{tensor}",
                f"%v = make_partition_view %t : {view}",
                f"{shapes} = get_tensor_shape %t : {tensor} -> tile<{element}>",
                f"{spaces} = get_index_space_shape %v : {view} -> tile<{element}>",
                "%gx, %gy, %gz = get_num_tile_blocks : tile<i32>",
                f"%r0 = {blocks}",
            ]
            names = [*(f"%n{dim}" for dim in range(rank)), *(f"%g{dim}" for dim in range(rank)), "%r0"]
            one, one_pointer = f"tile<{element}>", f"tile<ptr<{element}>>"
            for number, name in enumerate(names):
                lines += [
                    f"%o{number} = constant <i32: {number}> : tile<i32>",
                    f"%p{number} = offset %r_p, %o{number} : {one_pointer}, tile<i32> -> {one_pointer}",
                    f"%k{number} = store_ptr_tko weak %p{number}, {name} : {one_pointer}, {one} -> token",
                ]
            wanted = np.array([*shape, *(-(-n // s) for n, s in zip(shape, tile)), 2], DTYPES[element])
            inputs = (Operand("m", "f32", (1,), np.zeros(1, np.float32), "memory"),
                      *(Operand("abc"[dim], "i32", (), np.array([n], np.int32), "scalar")
                        for dim, n in enumerate(shape)))  # fmt: skip
            output = Operand("r", element, wanted.shape, np.zeros_like(wanted), "memory")

            def reference(*arrays: np.ndarray, wanted: np.ndarray = wanted) -> list[np.ndarray]:
                return [wanted]

            yield Kernel("control", f"sizes {kind} {element} {shape}", inputs, "\n".join(lines), (output,), (2,),
                         reference=reference)  # fmt: skip


PROMISES = {
    "div_by": "%b = assume div_by<2>, %a : {t}",
    "bounded": "%b = assume bounded<-4, 12>, %a : {t}",
    "same_elements": "%b = assume same_elements<[{ones}]>, %a : {t}",
    "assert": "%lowest = constant <{e}: -5> : {t}\n%c = cmpi greater_than %a, %lowest, signed : {t} -> {m}\n"
    'assert %c, "holds" : {m}\n%b = addi %a, %lowest : {t}',
}


def promises() -> Iterator[Kernel]:
    """Even numbers from -4 to 12, and an assumption about them that holds."""
    for (word, text), element, shape in itertools.product(PROMISES.items(), INTEGERS, TILES):
        t, m = tile_type(shape, element), tile_type(shape, "i1")
        generator = np.random.default_rng(7)
        a = (2 * generator.integers(-2, 7, shape)).astype(DTYPES[element])
        body = text.format(t=t, m=m, e=element, ones=", ".join(["1"] * len(shape)))
        body += f"\n%three = constant <{element}: 3> : {t}\n%r = muli %b, %three : {t}"
        shift = -5 if word == "assert" else 0
        output = Operand("r", element, shape, np.zeros_like(a))
        yield Kernel("control", f"{word} {element} {shape}", (Operand("a", element, shape, a),), body, (output,),
                     reference=lambda a, shift=shift: [(a + a.dtype.type(shift)) * a.dtype.type(3)])  # fmt: skip


def launches() -> Iterator[Kernel]:
    """Programmatic dependent launch: a kernel may wait for its predecessor and release its successor."""
    for element, count in itertools.product(("i32", "f16"), (1, 64, 1024)):
        a = values("any", element, (count,), "launch")
        p, t, i = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32"))
        body = f"""%k0 = gdc_wait_tko -> token
          %lane = iota : {i}
          {pointers("%m_p", "%lane", "mp", element, (count,))}
          %r, %k1 = load_ptr_tko weak %mp token=%k0 : {p} -> {t}, token
          %k2 = gdc_launch_dependents_tko token = %k1 -> token"""
        memory: Any = Operand("m", element, (count,), a, "memory")
        output = Operand("r", element, (count,), np.zeros(count, DTYPES[element]))
        yield Kernel("launch", f"launch {element} {count}", (memory,), body, (output,), reference=lambda a: [a])


def control_kernels() -> Iterator[Kernel]:
    for family in (flows, returns, addresses, tokens, sizes, promises, launches):
        yield from family()
