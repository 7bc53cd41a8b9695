"""The command of `scons test`: pytest, whose two silent ends are explained."""

import importlib.util
import subprocess
import sys

NO_TESTS = 5
"""The exit code of pytest where it collects no test."""


def main(words: list[str]) -> int:
    """Run pytest with these words; return its exit code."""
    if importlib.util.find_spec("pytest") is None:
        print("pytest is not installed: the extra 'test' brings it (pip install -e '.[test]')", file=sys.stderr)
        return 1
    code = subprocess.run([sys.executable, "-m", "pytest", *words]).returncode
    if code == NO_TESTS:
        print(f"tests={words[-1]} holds no tests", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
