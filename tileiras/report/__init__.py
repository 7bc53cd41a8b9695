"""Reports: the compiler's output for kernels, side by side by line of the source, with its reasons.

`collect` makes the data of a report of a source (`of_source`) or of a build directory (`of_build`); `page`, `markdown`
and `model.as_json` render it. The entry points are `tileiras-report` and `env.TileReport`. Reports do not influence
code: their data comes from artifacts, build histories, machine code and estimates.
"""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
