"""The instructions that move and multiply tiles: a row an instruction, a source a row.

| file | rows |
|---|---|
| `rows.py` | what a row says |
| `mma_sync.py` | dots of a warp, in registers |
| `wgmma.py` | dots of a warpgroup (sm_90a) |
| `tcgen05.py` | dots into tensor memory (sm_100 and its family) |
| `copies.py` | loads, stores, cp.async, matrices |
| `bulk_copies.py` | TMA, runs of bytes, tensor memory |
| `choice.py` | which row a target has for a dot |

Rows whose `chosen` is False are described, and no pass chooses them yet.
"""
