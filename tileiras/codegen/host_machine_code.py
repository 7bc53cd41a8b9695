"""Machine code of the callbacks in `.nv.host`, for each platform that launches.

All of it was compiled from `tests/codegen/host_code.ll`, as a test does again; layout, section names and relocations
are those of LLVM's large code model on x86-64 and of its small one on AArch64.
"""

from __future__ import annotations

from collections.abc import Callable

from tileiras.support.named_tuple import NamedTuple

CALLBACKS = "__CUDA_TILEIR_CALLBACKS"
COPY = "__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD"
GLOBAL_OFFSETS = "_GLOBAL_OFFSET_TABLE_"

# Types of relocations: System V ABI for AMD64, table 4.9; ELF for the Arm 64-bit Architecture, "Relocation types".
R_X86_64_64, R_X86_64_GOTOFF64, R_X86_64_GOT64, R_X86_64_GOTPC64 = 1, 25, 27, 29
R_AARCH64_ABS64, R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADD_ABS_LO12_NC = 257, 275, 277
R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC = 311, 312


class HostCode(NamedTuple):
    """The code of one platform.

    `pre_load` is on_pre_load, whose `relocations` are (offset, type, symbol, addend); `nothing` is on_arguments_change
    of a kernel without tensor maps, and `fill` that of one with them.  `table`, given the distance to the kernel's
    table, makes the instruction before `fill`, which loads the table's address as the otherwise unused first argument.
    `prefix` and `flags` are added to the usual names and flags of sections; `address` is the type of a
    relocation of eight bytes by a symbol.
    """

    machine: int
    prefix: str
    flags: int
    address: int
    pre_load: str
    relocations: tuple[tuple[int, int, str, int], ...]
    nothing: str
    table: Callable[[int], bytes]
    fill: str


_LARGE = 0x10000000
"""SHF_X86_64_LARGE: the section may be further away than 2 GB."""


def _lea(register: bytes) -> Callable[[int], bytes]:
    """`lea REGISTER, [rip + ...]`, by the distance from its start."""

    def encoded(distance: int) -> bytes:
        return b"\x48\x8d" + register + (distance - 7).to_bytes(4, "little", signed=True)

    return encoded


def _adr(distance: int) -> bytes:
    """`adr x0, ...`, by the distance from itself, below 1 MB."""
    if not 0 <= distance < 1 << 20:
        raise ValueError(f"too far away for adr: {distance}")
    return (0x10000000 | (distance & 3) << 29 | distance >> 2 << 5).to_bytes(4, "little")


_LINUX_X86_64 = HostCode(
    62, "l", _LARGE, R_X86_64_64,
    "488d35f9ffffff48b800000000000000004801f085d2744c48ba0000000000000000488b1410488b724048bf00000000000000004889"
    "7438400f28020f284a100f2852200f285a300f295c38300f295438200f294c38100f2904384801f848890131c0c3b801000000c3",
    (
        (9, R_X86_64_GOTPC64, GLOBAL_OFFSETS, 9),
        (26, R_X86_64_GOT64, CALLBACKS, 0),
        (44, R_X86_64_GOTOFF64, COPY, 0),
    ),
    "31c0c3",
    _lea(b"\x3d"),  # rdi
    "554157415641554154534889c8488b0f48894c24f8488d77084883c7104531c941ba01000000eb420f1f8400000000008b4b6042894c"
    "180842c744181c00000000488b4b6889cac1e218428954183448c1e9084a894c183849ffc14883c7704c3b4c24f80f8397000000496b"
    "c970488d1c0e4c8b1c0e4c8b740e58488d480c4e8d3c194531e4eb150f1f8400000000004e892c1849ffc44983fc0a73934a8b2ce749"
    "89e849c1f80889ea4084edb900000000490f45c84c8b2c08c1e503b1404028e949d3e549d3fd84d24d0f44e84d85e474bd4983fc0477"
    "174d0fafee49c1ed0447896ca7fcebac0f1f8400000000004983fd02450f4cea41ffcd47892ca7eb9331c05b415c415d415e415f5dc3",
)  # fmt: skip
_WINDOWS_X86_64 = HostCode(
    62, "l", _LARGE, R_X86_64_64,
    "488d0df9ffffff48b800000000000000004801c84585c0744c48b90000000000000000488b514049b800000000000000004a89540040"
    "0f28010f2849100f2851200f285930420f295c0030420f29540020420f294c0010420f2904004c01c049890131c0c3b801000000c3",
    (
        (9, R_X86_64_GOTPC64, GLOBAL_OFFSETS, 9),
        (27, R_X86_64_64, CALLBACKS, 0),
        (41, R_X86_64_GOTOFF64, COPY, 0),
    ),
    "31c0c3",
    _lea(b"\x0d"),  # rcx
    "415741564155415456575553504889c8488b0948890c244c8d40084883c0104531dbbe01000000eb400f1f80000000008b4b6041894c"
    "390841c744391c00000000488b4b6889cac1e218418954393448c1e90849894c393849ffc34883c0704c3b1c240f8398000000496bcb"
    "70498d1c08498b3c084d8b740858498d490c4c8d3c394531e4eb16660f1f8400000000004d892c3949ffc44983fc0a73934a8b2ce049"
    "89ea49c1fa0889ea4084edb900000000490f45ca4d8b2c09c1e503b1404028e949d3e549d3fd84d24d0f44ea4d85e474bd4983fc0477"
    "174d0fafee49c1ed0447896ca7fcebac0f1f8400000000004983fd02440f4cee41ffcd47892ca7eb9331c04883c4085b5d5f5e415c41"
    "5d415e415fc3",
)  # fmt: skip
_LINUX_AARCH64 = HostCode(
    183, "", 0, R_AARCH64_ABS64,
    "c2010034080000900900009029010091080140f9e0031f2a000541ad0a2140f92a2100f9200501ad010140ad210100ad690000f9c003"
    "5fd620008052c0035fd6",
    (
        (4, R_AARCH64_ADR_GOT_PAGE, CALLBACKS, 0),
        (8, R_AARCH64_ADR_PREL_PG_HI21, COPY, 0),
        (12, R_AARCH64_ADD_ABS_LO12_NC, COPY, 0),
        (16, R_AARCH64_LD64_GOT_LO12_NC, CALLBACKS, 0),
    ),
    "e0031f2ac0035fd6",
    _adr,
    "092000910a0441f8e8031faa6b3000910c0e80520d0880520d000014f03140f9df1d00b9080500911f010aeb00c00191d00900b9ef35"
    "40f9f01d0853effd48d3d03500b9cf1d00f9620400540f250c9bf0031faaf20140f9f12d40f96e00128b7201128b06000014c10100f9"
    "10060091521200911f2a00f122fdff54017870f822fc48933f1c40f2a10d014be403829a21087d92646864f88420c19a8128c19a4100"
    "819a30feffb41f1200f1a8000054217c119b21fc44d341c21fb8ecffff173f0400f121c49f1a21040051410200b9e7ffff17e0031f2a"
    "c0035fd6",
)  # fmt: skip
_WINDOWS_AARCH64 = _LINUX_AARCH64._replace(
    # x18 is the system's.
    fill=(
        "092000910a0441f8e8031faa6b3000910c0e80520d0880520d000014f03140f9df1d00b9080500911f010aeb00c00191d00900b9ef35"
        "40f9f01d0853effd48d3d03500b9cf1d00f9620400540f250c9bf0031faae10140f9f12d40f96e00018b6101018b06000014c20100f9"
        "10060091211000911f2a00f122fdff54027870f844fc48935f1c40f2a20d024be503849a42087d92656865f8a520c29aa228c29a8200"
        "829a30feffb41f1200f1a8000054427c119b42fc44d322c01fb8ecffff175f0400f142c49f1a42040051220000b9e7ffff17e0031f2a"
        "c0035fd6"
    ),
)  # fmt: skip

CODE: dict[tuple[str, str], HostCode] = {
    ("x86_64", "linux"): _LINUX_X86_64,
    ("x86_64", "windows"): _WINDOWS_X86_64,
    ("aarch64", "linux"): _LINUX_AARCH64,
    ("aarch64", "windows"): _WINDOWS_AARCH64,
}
