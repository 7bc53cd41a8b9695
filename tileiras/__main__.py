"""python -m tileiras IN ...: the command `tileiras`."""

import sys

from tileiras.server.client import program

if __name__ == "__main__":
    sys.exit(program())
