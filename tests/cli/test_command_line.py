"""Command lines that are read without the compiler.  `invocations.py` has the comparison with the vendor's tool."""

import pytest

from tileiras.cli.command_line import FLAG, STOP, CommandLine, Spec, Stop
from tileiras.cli.process import UsageError

LINE = CommandLine(
    "tool",
    [
        Spec("level", int, "", prefix=True),
        Spec("debug", FLAG, ""),
        Spec("w", FLAG, "", hidden=True),
        Spec("output", str, ""),
        Spec("kind", ("one", "two"), ""),
        Spec("with", str, "", features=("this", "that")),
        Spec("l", str, "", repeated=True),
        Spec("help", STOP, ""),
        Spec("list", FLAG, "", stops=True),
    ],
    {"O": "level", "g": "debug", "o": "output", "h": "help"},
)


@pytest.mark.parametrize("words, inputs, values", [
    ("in", ["in"], {}),
    ("-gwO0x10 in", ["in"], {"debug": True, "w": True, "level": 16}),
    ("-O010 --level=-0b11", [], {"level": -3}),
    ("--debug=0 -o -g", [], {"debug": False, "output": "-g"}),
    ("-kind=one --kind two", [], {"kind": "two"}),
    ("-l a -l=b", [], {"l": ["a", "b"]}),
    ("--with=that,this", [], {"with": ("that", "this")}),
    ("-- -g", ["-g"], {}),
    ("-", ["-"], {}),
])  # fmt: skip
def test_words_are_read(words, inputs, values):
    assert LINE.parse(words.split()) == (inputs, values)


def test_every_mistake_is_reported():
    with pytest.raises(UsageError) as caught:
        LINE.parse(["--kind=three", "a", "-O", "--with=those", "b", "--kidn=x", "--help=1", "--level=2147483648"])
    assert str(caught.value).split("\n") == [
        "tool: for the --kind option: Cannot find option named 'three'!",
        "tool: for the -O option: requires a value!",
        "tool: for the --with option: unknown with feature 'those'; supported features: this, that",
        "tool: Unknown command line argument '--kidn=x'.  Try: 'tool --help'",
        "tool: Did you mean '--kind'?",
        "tool: for the --help option: does not allow a value! '1' specified.",
        "tool: for the --level option: '2147483648' value invalid for integer argument!",
        "tool: Too many positional arguments specified!",
        "Can specify at most 1 positional arguments: See: tool --help",
    ]


@pytest.mark.parametrize("words, name", [
    ("--bad -gh", "help"), ("--bad --list", "list"), ("--bad --list=1 --", "list"),
])  # fmt: skip
def test_a_program_stops_at_its_limit(words, name):
    with pytest.raises(Stop) as caught:
        LINE.parse(words.split())
    assert caught.value.name == name and len(caught.value.errors) == 1
    assert LINE.parse(["--list=false"])[1] == {"list": False}


def test_files_of_words_stand_for_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("-g @more '-o' \"a b\"\n")
    (tmp_path / "more").write_text("in -w")
    assert LINE.parse(["@words"]) == (["in"], {"debug": True, "w": True, "output": "a b"})
    assert LINE.parse(["@absent"]) == (["@absent"], {})
    (tmp_path / "more").write_text("@words")
    with pytest.raises(UsageError, match=f"^recursive expansion of: '{tmp_path}/words'$"):
        LINE.parse(["@words"])
    with pytest.raises(UsageError, match=f"^cannot not open file '{tmp_path}': Is a directory$"):
        LINE.parse(["-g", "@", "--bad"])


@pytest.mark.parametrize("text, word", [
    ("it's", "its"), ("'a b", "a b"), (r"a\ b", "a b"), (r"'a\'b'", "a'b"), ("a'b'\"c\"", "abc"), ("'' a", "a"),
    ("\ufeffa", "a"), ("a\\", "a\\"),
])  # fmt: skip
def test_words_of_a_file_are_quoted_as_for_llvm(tmp_path, text, word):
    (tmp_path / "words").write_text(text, encoding="utf-8")
    assert LINE.parse([f"@{tmp_path}/words"]) == ([word], {})
