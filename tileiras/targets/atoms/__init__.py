"""The instructions that move and multiply tiles: a row an instruction, a source a row.

| file | rows |
|---|---|
| `rows.py` | the fields of a row |
| `mma_sync.py` | dots of a warp, in registers |
| `wgmma.py` | dots of a warpgroup (sm_90a) |
| `tcgen05.py` | dots into tensor memory (sm_100 and its family) |
| `copies.py` | loads, stores, cp.async, matrices |
| `bulk_copies.py` | TMA, runs of bytes, tensor memory |
| `choice.py` | the row of a target for a dot |

Rows whose `is_selectable` is False are described, but no pass chooses them yet.
"""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
