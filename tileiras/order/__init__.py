"""The order of floating-point sums.

A certificate of order states for each output of a kernel which sums it is computed from, in which order the code takes
each of them, whether the result is the same from run to run, and on which launch quantities it depends.

`flow` is a dataflow analysis of nv_tileaa, `addresses` relates the elements a kernel reads to the elements it writes,
`separation` proves that tile blocks write different elements. `outputs` derives the program's half of the certificate,
`lowered` adds the order of each sum from nv_tileas. `tracing` connects both halves in the stage `tileas`. `certificate`
is the data model, with a text form for attributes and a JSON form for NAME.json. The pass `verify-deterministic`
refuses kernels by the program's half.
"""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
