import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
sys.path.insert(0, str(Path(__file__).parents[1] / "bytecode"))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
