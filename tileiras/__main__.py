"""python -m tileiras IN ...: the command `tileiras`."""

import sys

from tileiras.processes.service.client import run

if __name__ == "__main__":
    sys.exit(run("tileiras"))
