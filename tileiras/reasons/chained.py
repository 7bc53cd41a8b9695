"""Codes of dots with a computation between them, as of attention, which one warp could issue."""

from __future__ import annotations

from .row import Row

_ONE_LOOP = "keep both dots and the computation between them in one loop, without branches"
_OWN_RESULTS = "begin the first accumulator with zero, carry the second, and use each result after its dot only"
_PLAIN_OPERANDS = "load operands whole, once, in the loop or right before it, and use them for dots only"

ROWS: dict[str, Row] = {
    "chained.no-loop": Row("a dot is in no loop", _ONE_LOOP),
    "chained.columns": Row(
        "accumulators and operands take {taken} columns of tensor memory, of {most}",
        "smaller tiles, or a smaller occupancy hint, leave a CTA more columns",
    ),
    "chained.several-dots-in-group": Row("a commit group has more than one dot", _ONE_LOOP),
    "chained.wait-in-branch": Row("threads wait for a commit group in a branch", _ONE_LOOP),
    "chained.no-computation": Row("threads compute nothing between two dots of an iteration", _ONE_LOOP),
    "chained.carried-by-threads": Row("threads compute a value that the loop carries for its dots", _ONE_LOOP),
    "chained.single-stage": Row(
        "two dots of an iteration read an operand with one stage", "smaller tiles leave room for a second stage"
    ),
    "chained.pair-or-scales": Row(
        "its dots are those of a pair of CTAs, or have scales", "compile with num-ctas=1, or multiply without scales"
    ),
    "chained.used-at-once": Row("threads use the result of a dot in the same iteration", _OWN_RESULTS),
    "chained.accumulator-of-iteration": Row(
        "the accumulator of an operand that threads compute does not outlive its iteration", _OWN_RESULTS
    ),
    "chained.accumulator-outlives": Row("the accumulator of loaded operands outlives its iteration", _OWN_RESULTS),
    "chained.accumulator-written": Row("threads write the accumulator of loaded operands", _OWN_RESULTS),
    "chained.reads-result": Row("a dot reads the accumulator of another dot", _OWN_RESULTS),
    "chained.operand-in-branch": Row("an operand is computed in a branch", _PLAIN_OPERANDS),
    "chained.operand-by-threads": Row("threads write an operand to shared memory", _PLAIN_OPERANDS),
    "chained.invariant-in-parts": Row("an invariant operand is filled in several parts", _PLAIN_OPERANDS),
    "chained.invariant-read-by-threads": Row("threads read an invariant operand", _PLAIN_OPERANDS),
    "chained.invariant-filled-elsewhere": Row(
        "an invariant operand is not filled right before the loop", _PLAIN_OPERANDS
    ),
    "chained.invariant-read-elsewhere": Row("an invariant operand is read in several blocks", _PLAIN_OPERANDS),
    # ---- accumulators that threads rescale ---------------------------------------------------------------------------
    "chained.scaled-before-own-dots": Row(
        "the warps that rescale the accumulator issue the dots as well", "see the reason for which the dots stay"
    ),
    "chained.scaled-at-long-intervals": Row("an iteration computes {columns} columns, more than {most}"),
    "chained.scaled-beside-ctas": Row("an SM holds {ctas:CTA}, and others compute meanwhile"),
    "chained.scaled-beside-others": Row("threads also access the accumulator in its loop", _OWN_RESULTS),
    "chained.scaled-in-branch": Row("threads access the accumulator in a branch", _ONE_LOOP),
    "chained.scaled-by-carried": Row(
        "the loop carries the factor of its accumulator", "compute the factor in the iteration that multiplies by it"
    ),
}
