import numpy as np
import pytest

from tileiras.sim.memory import Memory, MemoryAccessError


def lanes(address, count, size=4):
    return address + size * np.arange(count, dtype=np.int64)


def test_array_is_updated_in_place():
    memory = Memory.scratch()
    array = np.arange(8, dtype=np.float32)
    address = memory.allocate(array)
    memory.store(lanes(address, 4), np.full(4, 9, np.float32))
    assert array.tolist() == [9, 9, 9, 9, 4, 5, 6, 7]
    assert memory.load(lanes(address, 8), np.float32).tolist() == array.tolist()


def test_views_of_one_base_share_an_allocation():
    memory = Memory.scratch()
    base = np.zeros((4, 4), np.int32)
    whole, tail = memory.allocate(base), memory.allocate(base[1:, 2:])
    assert tail - whole == (4 + 2) * 4
    assert len(memory.allocations) == 1


def test_strided_owner_is_addressed_by_its_bytes():
    memory = Memory.scratch()
    base = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    address = memory.allocate(base)
    assert memory.load(lanes(address, 6, 2), np.int16).tolist() == [0, 3, 1, 4, 2, 5]


def test_addresses_are_reproducible_and_far_apart():
    first, second = Memory.scratch(), Memory.scratch()
    a = [first.allocate(100), first.allocate(100)]
    assert a == [second.allocate(100), second.allocate(100)]
    assert a[1] - a[0] >= 1 << 32
    assert a[0] % 256 == 0


def test_out_of_bounds_names_element_and_distance():
    memory = Memory.scratch()
    address = memory.allocate(np.zeros(6, np.float32), name="x")
    with pytest.raises(MemoryAccessError, match=r"4 bytes past the end of x \(24 bytes\)") as caught:
        memory.load(lanes(address, 8), np.float32)
    assert caught.value.index == 6
    with pytest.raises(MemoryAccessError, match="8 bytes before the start of x"):
        memory.load(lanes(address - 8, 4), np.float32)


def test_masked_lanes_are_not_accessed_and_read_the_fill():
    memory = Memory.scratch()
    address = memory.allocate(np.arange(6, dtype=np.float32))
    mask = np.arange(8) < 6
    loaded = memory.load(lanes(address, 8), np.float32, mask=mask, fill=-1)
    assert loaded.tolist() == [0, 1, 2, 3, 4, 5, -1, -1]
    with pytest.raises(MemoryAccessError) as caught:
        memory.load(lanes(address, 8), np.float32, mask=np.arange(8) % 2 == 1)
    assert caught.value.index == 7


def test_failed_store_writes_nothing():
    memory = Memory.scratch()
    array = np.zeros(4, np.int32)
    address = memory.allocate(array)
    with pytest.raises(MemoryAccessError):
        memory.store(lanes(address, 5), np.ones(5, np.int32))
    assert not array.any()


def test_misaligned_and_read_only_accesses_are_errors():
    memory = Memory.scratch()
    array = np.zeros(4, np.int32)
    array.flags.writeable = False
    address = memory.allocate(array)
    with pytest.raises(MemoryAccessError, match="not aligned to 4 bytes"):
        memory.load(lanes(address + 2, 2), np.int32)
    assert memory.load(lanes(address + 2, 2), np.int32, alignment=1).tolist() == [0, 0]
    with pytest.raises(MemoryAccessError, match="read-only"):
        memory.store(lanes(address, 2), np.ones(2, np.int32))


def test_byte_aligned_elements_of_mixed_offsets():
    memory = Memory.scratch()
    array = np.arange(16, dtype=np.uint8)
    address = memory.allocate(array)
    loaded = memory.load(address + np.array([0, 3, 6]), np.uint16, alignment=1)
    assert loaded.tolist() == [0x0100, 0x0403, 0x0706]


def test_pointers_into_several_allocations():
    memory = Memory.scratch()
    a, b = memory.allocate(np.array([1, 2], np.int64)), memory.allocate(np.array([3, 4], np.int64))
    assert memory.load(np.array([b + 8, a, b, a + 8]), np.int64).tolist() == [4, 1, 3, 2]


def test_a_run_sees_live_memories_and_their_arrays():
    table = Memory()
    row = np.arange(4, dtype=np.float32)
    address = table.allocate(row)
    run = Memory.scratch()
    assert run.allocate(row[1:]) == address + 4
    own = run.allocate(np.array([7], np.float32))
    assert run.load(np.array([own, address + 8]), np.float32).tolist() == [7, 2]
    del table
    with pytest.raises(MemoryAccessError):
        run.load(np.array([address]), np.float32)


def test_released_memory_faults():
    memory = Memory.scratch()
    address = memory.allocate(16)
    assert memory.view(address, np.uint8).tolist() == [0xCD] * 16
    memory.release(address)
    with pytest.raises(MemoryAccessError):
        memory.view(address, np.uint8, 1)


def test_a_detached_memory_is_reached_only_while_it_is_attached():
    first, second = Memory.detached(), Memory.detached()
    data = np.arange(4, dtype=np.int32)
    address = first.allocate(data)
    assert second.allocate(np.zeros(4)) == address, "the same places in every run"
    scratch = Memory.scratch()
    assert scratch.find(address) is None
    with first.attached():
        assert (scratch.load(address + 4 * np.arange(4), np.int32) == data).all()
        assert scratch.find(1) is None and first.find(1) is None, "a wild pointer is in neither"
    assert scratch.find(address) is None
