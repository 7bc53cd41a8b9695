"""The base of everything that a simulated kernel can do wrong; imports nothing, so that it can always be caught."""


class SimulationError(Exception):
    """A run that cannot start or go on: arguments that do not fit, an invalid access, a broken rule."""


class ArgumentMismatch(SimulationError, TypeError, ValueError):
    """Entry, grid or arguments of a run do not fit the kernel."""
