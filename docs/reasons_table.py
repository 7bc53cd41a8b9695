"""The page of all codes of remarks, docs/reasons.md, from the tables in tileiras/reasons.

It is written by python docs/reasons_table.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from tileiras.reasons.row import GENERAL, Row
from tileiras.reasons.table import ROWS

HEADER = """\
# Codes of remarks

<!-- made by python docs/reasons_table.py -->

For users who act on a remark, and for programs that match remarks.

Every remark states a choice by a code with arguments; the reason behind the choice, usually the obstacle to a better
one, is a code with arguments as well, and may have a reason of its own:

    remark[passed]: Load instruction selected
      --> "saxpy.mlir":12:10
       |
       = name: RemarkMemoryLoadInstructionSelected
       = note: Instruction = ld.global
       = note: Width = 4 bytes
       = reason: nothing is known of the alignment of the base address
       = code: access.load bytes=4; access.base-unknown

Programs match codes and arguments; texts may change, except for documented ones
([diagnostics](diagnostics.md#texts)). `--remarks=CODE`, or `--remarks='SUBJECT.*'` for all codes of a subject, prints
the remarks that state such a code or have it as a reason; so do `--remarks-passed`, `-missed`, `-failed` and
`-analysis` for one kind. Other values are those of [the command](command-line.md).

The forms of a code:

- On a terminal, and by `tileiras-opt --remarks`, at the end: `CODE NAME=VALUE ...`, the reasons behind it after `; `.
- In YAML (`--remark-format=yaml`, LLVM's format of remarks) the last entry of `Args`, `Code`, in the same spelling;
  `Remark` and `Reason` are the texts.
- In JSON (`--diagnostics=json`, `NAME.STAGE.remarks.json`) `code` and `code_arguments`, and `causes`, outermost first,
  with the same two fields each.
- In the library `remark.code` and `remark.code_arguments`; `remark.cause`, a `tileiras.reasons.Reason` or None;
  `remark.codes`.
- In the IR (`nv_tileas.alone`) as on a terminal.

Values are numbers and names; values with other characters, and digits that are text, are quoted as in JSON. A report
shows the remedy, the change that removes the obstacle, of the outermost reason with one. A reason without a remedy is
no obstacle, or lies in the target.
"""

FOOTER = """
Next: [diagnostics](diagnostics.md) for the other messages; [reports](report.md) for remedies beside the code.
"""

SUBJECTS = {
    "access": "Accesses to memory", "agents": "Agents", "chained": "Chained dots", "copies": "Copies that run ahead",
    "dots": "Dots", "kernel": "Kernels", "loops": "Loops",
    "maps": "Tensor maps", "memory": "Shared memory and registers", "options": "Options",
    "pairs": "Pairs of CTAs and of tile blocks", "slices": "Slices and clusters", "turns": "Alternation",
}  # fmt: skip
"""Subject -> its heading."""


def page() -> str:
    parts = [HEADER]
    for subject, heading in SUBJECTS.items():
        rows = [(code, row) for code, row in ROWS.items() if code.startswith(f"{subject}.")]
        parts.append(f"\n## {heading}\n")
        stated = [_choice(code, row) for code, row in rows if row.is_choice]
        if stated:
            parts += ["\n| choice | meaning | arguments | remark |\n|---|---|---|---|\n", *stated]
        causes = [_cause(code, row) for code, row in rows if not row.is_choice]
        if causes:
            parts += ["\n| reason | meaning | arguments | remedy |\n|---|---|---|---|\n", *causes]
    return "".join([*parts, FOOTER])


def _choice(code: str, row: Row) -> str:
    name = "" if row.name == GENERAL else f"`{row.name}`, "
    return f"| `{code}` | {_filled(row.text)} | {_names(row)} | {name}{row.kind} |\n"


def _cause(code: str, row: Row) -> str:
    return f"| `{code}` | {_filled(row.text)} | {_names(row)} | {_filled(row.remedy)} |\n"


def _names(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row.arguments)


def _filled(text: str) -> str:
    """`{warps:warp}` as *warps*; angle brackets and bars escaped."""
    text = text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
    return re.sub(r"\{(\w+)(?::([^}]*))?\}", lambda m: f"*{m[1]}*" + (f" {m[2]}s" if m[2] else ""), text)


if __name__ == "__main__":
    (Path(__file__).parent / "reasons.md").write_text(page(), encoding="utf-8")
