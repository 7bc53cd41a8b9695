"""Completion of the commands in bash, zsh and fish, from the tables of their options (`cli.manual`)."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.cli.manual import PROGRAMS, Manual, Row, manual_of


def completion(shell: str) -> str:
    """The script for one of SHELLS."""
    return SHELLS[shell]([manual_of(program) for program in PROGRAMS])


def _bash(manuals: Sequence[Manual]) -> str:
    lines = [
        '# eval "$(tileiras completion bash)"',
        "_tileiras() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" words="" verbs=""',
        "    # bash takes `=` for a word of its own.",
        '    if [ "$word" = "=" ]; then word=""',
        '    elif [ "$before" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi',
        '    case "${1##*/} $before" in',
    ]
    for manual in manuals:
        for row in manual.rows:
            if row.words:
                cases = "|".join(f'"{manual.program} {name}"' for name in row.names)
                lines.append(f'    {cases}) words="{" ".join(row.words)}" ;;')
    lines += ["    esac", '    case "${1##*/}" in']
    for manual in manuals:
        names = " ".join(name for row in manual.rows for name in row.names)
        verbs = f' verbs="{" ".join(verb.split()[0] for verb, _ in manual.verbs)}"' if manual.verbs else ""
        lines.append(f'    {manual.program}) options="{names}"{verbs} ;;')
    lines += [
        "    esac",
        '    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word"))',
        '    elif [ "${word#-}" != "$word" ]; then COMPREPLY=($(compgen -W "$options" -- "$word"))',
        '    else COMPREPLY=($([ "$COMP_CWORD" -gt 1 ] || compgen -W "$verbs" -- "$word"; compgen -f -- "$word")); fi',
        "}",
        f"complete -o filenames -F _tileiras {' '.join(manual.program for manual in manuals)}",
    ]
    return "\n".join(lines) + "\n"


def _zsh(manuals: Sequence[Manual]) -> str:
    lines = [f"#compdef {' '.join(manual.program for manual in manuals)}", 'case "$service" in']
    for manual in manuals:
        lines.append(f"{manual.program})")
        lines.append("    _arguments -s \\")
        for row in manual.rows:
            lines += [f"        {_zsh_row(row, name)} \\" for name in row.names]
        verbs = " ".join(verb.split()[0] for verb, _ in manual.verbs)
        lines.append(f"        '1:word:{{compadd -- {verbs}; _files}}' \\" if verbs else "        '1:file:_files' \\")
        lines.append("        '*:file:_files' ;;")
    return "\n".join([*lines, "esac"]) + "\n"


def _zsh_row(row: Row, name: str) -> str:
    doc = row.doc
    for character in "\\[]:":
        doc = doc.replace(character, "\\" + character)
    value = ""
    if row.value:
        action = f"({' '.join(row.words)})" if row.words else "_files" if row.is_file else ""
        value = f":{row.value.replace(':', ' ')}:{action}"
    equals = "=" if row.value and len(name) > 2 else ""
    return "'*" + f"{name}{equals}[{doc}]{value}".replace("'", "'\\''") + "'"


def _fish(manuals: Sequence[Manual]) -> str:
    lines = ["# tileiras completion fish | source"]
    for manual in manuals:
        for verb, doc in manual.verbs:
            word = verb.split()[0]
            lines.append(f"complete -c {manual.program} -n __fish_use_subcommand -a {word} -d {_fish_text(doc)}")
        for row in manual.rows:
            names = " ".join(f"-s {name[1:]}" if len(name) == 2 else f"-l {name[2:]}" for name in row.names)
            value = ""
            if row.words:
                value = f" -x -a {_fish_text(' '.join(row.words))}"
            elif row.value:
                value = " -r -F" if row.is_file else " -x"
            lines.append(f"complete -c {manual.program} {names}{value} -d {_fish_text(row.doc)}")
    return "\n".join(lines) + "\n"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
