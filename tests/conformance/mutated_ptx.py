"""PTX with mutated synchronization: the emulator gives the right result or an error.

    python tests/conformance/mutated_ptx.py COUNT [--seed FIRST] [--kernels NAME,...] [--jobs N] [--limit SECONDS]
                                            [--figures FILE]

Takes hand-written kernels whose threads depend on each other, and changes one to three places of each: a barrier, a
fence, a wait, a commit or an arrival is deleted, doubled or moved; a count, a phase or a number of bytes is changed; a
scope, an order or a state space is weakened.  A mutant has to end with the right result or with an error of the
emulator: a wrong result, a Python exception or an endless run is a mistake.  Mutant N is the same on every machine.
Prints the mistakes and a table; exits with 1 if there is one.  With `--figures`, FILE keeps the outcomes, and an
interrupted run resumes.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "sim" / "emulator")]

import handwritten_matmul  # noqa: E402
import numpy as np  # noqa: E402
import tensor_specialised  # noqa: E402
import warp_specialised  # noqa: E402

from tileiras.sim import emulate  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402

#: Instructions of warps; the kernels issue 100 to 1,200.
STEP_LIMIT = 20_000
#: Outcomes that are mistakes.
MISTAKES = ("wrong result", "exception", "goes on")
#: Mutants between two lines of progress, after which the figures are written.
_STRIDE = 1_000

#: Statements that order threads or proxies, or wait.
_ORDERING = re.compile(
    r"\b(bar(rier)?\.|membar|fence|mbarrier|cp\.async\.(bulk\.)?(commit|wait)|wgmma\.(fence|commit|wait)|setmaxnreg"
    r"|tcgen05\.(fence|wait|commit|alloc|relinquish|dealloc)"
    r"|cp\.async\.mbarrier)"
)
#: Modifiers -> weaker ones.
_WEAKER = [
    (".acquire", ".relaxed"), (".release", ".relaxed"), (".cluster", ".cta"), (".wait_group ", ".wait_group.read "),
    (".parity.", ".parity.relaxed.cta."), ("fence.proxy.async.shared::cta", "fence.proxy.async.global"),
    ("fence.proxy.async", "fence.acq_rel.cta"), ("try_wait", "test_wait"),
    ("arrive.expect_tx", "expect_tx.relaxed.cta"),
    ("st.", "st.volatile."), ("arrive", "arrive_drop"), ("before_thread_sync", "after_thread_sync"),
    ("after_thread_sync", "before_thread_sync"), ("cta_group::2", "cta_group::1"),
]  # fmt: skip


class Subject(NamedTuple):
    """A kernel: ``run(ptx, seed)`` returns whether its result is right; ``phase``: the register that holds the phases
    its threads wait for, or None."""

    name: str
    ptx: str
    run: Callable[[str, int | None], bool]
    phase: str | None = None


_specialised_arguments = functools.cache(warp_specialised.arguments)
_tensor_arguments = functools.cache(tensor_specialised.arguments)


def _specialised(ptx: str, seed: int | None) -> bool:
    result, product, _memory = _specialised_arguments()
    result[2].fill(0)
    emulate(ptx, "k", 1, result, seed=seed, step_limit=STEP_LIMIT)
    return bool((result[2] == product).all())


def _tensor(blocks: int, ptx: str, seed: int | None) -> bool:
    result, product, _memory = _tensor_arguments(blocks)
    result[2].fill(0)
    emulate(ptx, "k", blocks, result, cluster=(blocks, 1, 1), seed=seed, step_limit=STEP_LIMIT)
    return bool((result[2] == product).all())


def _buffered(ptx: str, seed: int | None) -> bool:
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-3, 4, (64, 96)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    emulate(ptx, "k", 1, [a, b, c], seed=seed, step_limit=STEP_LIMIT)
    return bool((c == a.astype(np.float32) @ b.astype(np.float32).T).all())


def _summed(ptx: str, seed: int | None) -> bool:
    data, out = np.random.default_rng(0).integers(0, 1000, 1024).astype(np.uint32), np.zeros(1, np.uint32)
    emulate(ptx, "k", 1, [data, out], seed=seed, step_limit=STEP_LIMIT)
    return bool(out[0] == data.sum(dtype=np.uint32))


def _exchanged(ptx: str, seed: int | None) -> bool:
    out = np.zeros((2, 64), np.uint32)
    emulate(ptx, "k", 2, [out], cluster=(2, 1, 1), seed=seed, step_limit=STEP_LIMIT)
    return bool((out == np.arange(64) + np.array([[1100], [1000]])).all())


_HEAD = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k({parameters})
.reqntid {threads}
{{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %q<12>;
"""

#: Two warps: one copies four parts, the other sums them.
PIPELINE = _HEAD.format(parameters=".param .u64 k_0, .param .u64 k_1", threads=64) + """
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b8 full[8]; .shared .align 8 .b8 empty[8];
ld.param.u64 %q2, [k_0]; ld.param.u64 %q3, [k_1];
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full; mov.u32 %r4, empty; mov.u32 %r10, 0;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared.b64 [%r3], 1;
mbarrier.init.shared.b64 [%r4], 32;
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
shr.u32 %r5, %r1, 5; setp.ne.u32 %p2, %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; @%p2 bra CONSUME;
setp.ne.u32 %p3, %r1, 0; @%p3 bra DONE;
PRODUCE: xor.b32 %r8, %r7, 1;
P_WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], %r8;
@!%p4 bra P_WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%q2], 1024, [%r3];
add.u64 %q2, %q2, 1024; xor.b32 %r7, %r7, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p5, %r6, 4; @%p5 bra PRODUCE;
bra DONE;
CONSUME:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r3], %r7;
@!%p4 bra CONSUME;
and.b32 %r9, %r1, 31; mad.lo.u32 %r9, %r9, 32, %r2;
ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r9]; ld.shared.v4.u32 {%r24, %r25, %r26, %r27}, [%r9+16];
add.u32 %r20, %r20, %r21; add.u32 %r22, %r22, %r23; add.u32 %r24, %r24, %r25; add.u32 %r26, %r26, %r27;
add.u32 %r20, %r20, %r22; add.u32 %r24, %r24, %r26; add.u32 %r20, %r20, %r24; add.u32 %r10, %r10, %r20;
fence.proxy.async.shared::cta;
mbarrier.arrive.shared.b64 %q5, [%r4];
xor.b32 %r7, %r7, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p5, %r6, 4; @%p5 bra CONSUME;
redux.sync.add.u32 %r10, %r10, -1;
st.global.u32 [%q3], %r10;
DONE:
ret;
}
"""

#: Two blocks: each thread passes a value to its neighbour in the other block, in two ways.
EXCHANGE = _HEAD.format(parameters=".param .u64 k_0", threads=64) + """
.shared .align 16 .b8 box[256]; .shared .align 16 .b8 mail[256]; .shared .align 8 .b8 full[8];
ld.param.u64 %q1, [k_0];
mov.u32 %r1, %tid.x; mov.u32 %r2, box; mov.u32 %r3, full; mov.u32 %r4, mail; mov.u32 %r5, %cluster_ctarank;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared.b64 [%r3], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
fence.mbarrier_init.release.cluster;
READY:
shl.b32 %r6, %r1, 2; add.u32 %r7, %r2, %r6; add.u32 %r8, %r4, %r6; mad.lo.u32 %r9, %r5, 100, %r1;
st.shared.u32 [%r7], %r9;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
xor.b32 %r10, %r5, 1; mapa.shared::cluster.u32 %r11, %r7, %r10; mapa.shared::cluster.u32 %r12, %r8, %r10;
mapa.shared::cluster.u32 %r13, %r3, %r10;
ld.shared::cluster.u32 %r14, [%r11];
mov.u32 %r15, 1000;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r15, [%r13];
WAIT:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
ld.shared.u32 %r16, [%r8];
add.u32 %r16, %r16, %r14; mad.lo.u32 %r17, %r5, 64, %r1; mad.wide.u32 %q2, %r17, 4, %q1;
st.global.u32 [%q2], %r16;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ret;
}
"""


def subjects() -> list[Subject]:
    return [
        Subject("warp-specialised", warp_specialised.matmul_ptx(), _specialised, "%phase"),
        Subject("double-buffered", handwritten_matmul.matmul_ptx(96, 64), _buffered),
        Subject("pipeline", PIPELINE, _summed, "%r7"),
        Subject("exchange", EXCHANGE, _exchanged),
        Subject("tensor memory", tensor_specialised.matmul_ptx(), functools.partial(_tensor, 1), "%phase"),
        Subject("tensor memory of a pair", tensor_specialised.matmul_ptx(2), functools.partial(_tensor, 2), "%phase"),
    ]


# -- mutations -------------------------------------------------------------------------------------------------------


def _statements(ptx: str, phase: str | None) -> list[tuple[int, int]]:
    """(start, end) in the text of the statements that synchronize or set a phase, with their guards."""
    statements = []
    for match in re.finditer(r"[^;{}]*;", ptx):
        text = match.group()
        lead = re.match(r"\s*(?:[A-Z_]+:\s*)*", text).end()  # labels stay where they are
        sets_phase = phase is not None and re.search(rf"(mov|xor)\.\w+ {phase}\b", text)
        if "st.async" in text:
            continue  # the stored value has to be computed before it
        if (_ORDERING.search(text) or sets_phase) and not text.strip().startswith("."):
            statements.append((match.start() + lead, match.end()))
    return statements


def mutate(ptx: str, phase: str | None, draw: random.Random) -> str:
    """One change."""
    statements = _statements(ptx, phase)
    start, end = draw.choice(statements)
    text = ptx[start:end]
    kind = draw.choice(("drop", "double", "move", "number", "number", "number", "weaker", "unguard", "guard"))
    if kind == "drop":
        return ptx[:start] + ptx[end:]
    if kind == "double":
        return ptx[:end] + "\n" + text + ptx[end:]
    if kind == "move":
        # At the end of another line of the entry's body.
        rest = ptx[:start] + ptx[end:]
        lines = [match.end() for match in re.finditer(r";(?=\n)", rest)]
        at = draw.choice([place for place in lines if place > rest.index("{")] or lines)
        return rest[:at] + "\n" + text + rest[at:]
    if kind == "weaker":
        fitting = [(old, new) for old, new in _WEAKER if old in text]
        if not fitting:
            return ptx
        return ptx[:start] + text.replace(*draw.choice(fitting), 1) + ptx[end:]
    if kind in ("guard", "unguard"):
        guard = re.match(r"@!?%p\d+\s*", text)
        changed = text[guard.end() :] if guard else f"@{draw.choice(('', '!'))}%p{draw.randrange(1, 5)} {text}"
        return ptx[:start] + changed + ptx[end:]
    # A count, a phase or a number of bytes.
    numbers = [
        (start + match.start(), start + match.end())
        for start, end in statements
        for match in re.finditer(r"(?<![\w%.$:+])\d+(?![\w.:])", ptx[start:end])
    ]
    a, b = draw.choice(numbers)
    value = int(ptx[a:b])
    near = (value + 1, max(0, value - 1), 0, 1, value * 2, value // 2, value ^ 1, value + 16, value + 32)
    changed = draw.choice(near)
    return ptx[:a] + str(changed) + ptx[b:]


def mutant(number: int, chosen: list[Subject]) -> tuple[Subject, str, int | None]:
    """(kernel, its mutated text, the seed of the order of warps)."""
    draw = random.Random(number)
    subject = chosen[number % len(chosen)]
    ptx = subject.ptx
    for _ in range(draw.choice((1, 2, 2, 3))):
        before = ptx
        while ptx == before:
            ptx = mutate(ptx, subject.phase, draw)
    return subject, ptx, draw.choice((None, 0, 1, 2))


class _TooLong(BaseException):
    pass


def judge(number: int, chosen: list[Subject], limit: int = 60) -> tuple[str, str, str]:
    """(kernel, "right", "error" or a mistake, message)."""
    subject, ptx, seed = mutant(number, chosen)

    def stop(*_: object) -> None:
        raise _TooLong

    # CPU time of this process, independent of the machine's load.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return subject.name, "right" if subject.run(ptx, seed) else "wrong result", ""
    except SimulationError as error:
        return subject.name, "error", str(error)
    except _TooLong:
        return subject.name, "goes on", f"for {limit} s"
    except Exception as error:  # any exception is a mistake of the emulator
        return subject.name, "exception", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def distinct(numbers: range, chosen: list[Subject]) -> int:
    """The number of different texts of these mutants."""
    return len({hash(mutant(number, chosen)[1]) for number in numbers})


class Figures:
    """Outcomes of mutants, and the mistakes; kept in ``file`` if it is given."""

    def __init__(self, file: Path | None, options: dict[str, object]) -> None:
        self.file = file
        self.options = options
        self.done = 0
        self.counts: dict[str, Counter[str]] = {}
        self.mistakes: list[str] = []
        if file is not None and file.exists():
            data = json.loads(file.read_text())
            if data["options"] != options:
                raise SystemExit(f"{file} is of another run: {data['options']}")
            self.done, self.mistakes = data["done"], data["mistakes"]
            self.counts = {name: Counter(counter) for name, counter in data["counts"].items()}

    def add(self, number: int, name: str, outcome: str, said: str) -> None:
        self.done += 1
        self.counts.setdefault(name, Counter())[outcome] += 1
        if outcome in MISTAKES:
            self.mistakes.append(f"mutant {number} of {name}: {outcome} {said}"[:300])
            print(self.mistakes[-1], flush=True)

    def keep(self) -> None:
        if self.file is None:
            return
        # An interrupted write would otherwise lose all earlier results.
        half = self.file.with_name(self.file.name + ".new")
        result = {"options": self.options, "done": self.done, "counts": self.counts, "mistakes": self.mistakes}
        half.write_text(json.dumps(result, indent=1) + "\n")
        half.replace(self.file)

    def table(self) -> str:
        outcomes = ("right", "error", *MISTAKES)
        total = sum(self.counts.values(), Counter())
        rows = [f"| kernel | {' | '.join(outcomes)} |", f"|---|{'---|' * len(outcomes)}"]
        for name, counter in {**self.counts, "all": total}.items():
            rows.append(f"| {name} | {' | '.join(f'{counter[outcome]:,}' for outcome in outcomes)} |")
        return "\n".join(rows)


_chosen: list[Subject] = []
_limit = 60


def _numbered(number: int) -> tuple[int, tuple[str, str, str]]:
    return number, judge(number, _chosen, _limit)


def main() -> int:
    global _chosen, _limit
    parser = argparse.ArgumentParser(prog="mutated_ptx.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--kernels", default="", help="only these, separated by commas")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=60, help="seconds for a mutant")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="where what has been run is kept, to go on from")
    options = parser.parse_args()
    wanted = [name for name in options.kernels.split(",") if name]
    _chosen = [subject for subject in subjects() if not wanted or subject.name in wanted]
    _limit = options.limit
    figures = Figures(options.figures, {"seed": options.seed, "kernels": [subject.name for subject in _chosen]})
    begin, before = time.monotonic(), figures.done
    numbers = range(options.seed + figures.done, options.seed + options.count)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        # In order, so that the figures cover exactly the first `done` mutants.
        for number, outcome in pool.imap(_numbered, numbers, chunksize=50):
            figures.add(number, *outcome)
            if figures.done % _STRIDE == 0:
                figures.keep()
                each = (time.monotonic() - begin) / (figures.done - before)
                left = (options.count - figures.done) * each / 60
                print(f"{figures.done:,} of {options.count:,}: {each * 1000:.0f} ms each, {left:.0f} min left",
                      file=sys.stderr, flush=True)  # fmt: skip
    figures.keep()
    print(figures.table())
    print(f"{distinct(range(options.seed, options.seed + options.count), _chosen):,} different texts; "
          f"{time.monotonic() - begin:.0f} s")  # fmt: skip
    return int(bool(figures.mistakes))


if __name__ == "__main__":
    sys.exit(main())
