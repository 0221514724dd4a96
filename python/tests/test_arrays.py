"""Large arrays on the way to calls and back: they are mapped, they arrive as they are, and nothing is left of them."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

import array_calls  # noqa: E402
import calls  # noqa: E402
import regrow  # noqa: E402
from regrow._call import buffers  # noqa: E402

MIB = 1 << 20


@pytest.fixture(scope="module", params=["Executor", "ProcessPoolExecutor"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with getattr(regrow, request.param)(2, preload=["numpy"]) as made:
        yield made


def maps_of_memory_files() -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count("/memfd:")


def own_memory_files() -> int:
    return sum("memfd:regrow-array" in target for target in array_calls.descriptors())


def test_a_large_argument_is_mapped_and_its_caller_sees_no_write(executor: Executor) -> None:
    array = np.ones(MIB)
    assert executor.submit(array_calls.written, array, 2.0).result() == (True, 2.0 * MIB)
    assert executor.submit(array_calls.written, array[:100], 2.0).result() == (False, 200.0)
    assert array.sum() == MIB


def test_a_large_result_is_mapped_and_can_be_written_to(executor: Executor) -> None:
    array = executor.submit(np.arange, MIB).result()
    assert array_calls.is_mapped(array)
    assert array.flags.writeable
    array += 1
    assert (array == np.arange(1, MIB + 1)).all()
    # What is written is this process's alone: a copy of it has its own.
    forked = array_calls.forked(array)
    assert (forked == np.arange(1, MIB + 1)).all()


def test_arrays_of_every_shape_go_and_come(executor: Executor) -> None:
    base = np.arange(MIB // 4, dtype="f8").reshape(512, -1)
    masked = np.ma.masked_greater(base, 7.0)
    arrays = [
        base,
        np.asfortranarray(base),
        base[::2, 1::3],
        base[::-1],
        base.T[5:],
        base.reshape(8, 64, -1).transpose(1, 0, 2),
        base.astype(">f4"),
        base.view([("left", "f8"), ("right", "f8")]),
        np.array([[str(number)] for number in range(20_000)], dtype=object),
        np.array(["2001-01-01"] * 20_000, dtype="datetime64[s]"),
        np.ones((0, 5)),
        np.float64(3.0),
        masked,
    ]
    for array, copy in zip(arrays, executor.map(array_calls.given, arrays)):
        assert type(copy) is type(array)
        assert (copy.dtype, copy.shape) == (array.dtype, array.shape)
        assert np.array_equal(np.asarray(copy), np.asarray(array))
    for array, copy in zip(arrays[:2], executor.map(array_calls.given, arrays[:2])):
        assert copy.flags.c_contiguous == array.flags.c_contiguous
        assert copy.flags.f_contiguous == array.flags.f_contiguous
    assert (executor.submit(array_calls.given, masked).result().mask == masked.mask).all()


@pytest.mark.parametrize("size", [buffers.LEAST_BYTES - 1, buffers.LEAST_BYTES, buffers.LEAST_BYTES + 1, 3 * MIB + 5])
def test_sizes_around_that_of_a_large_buffer(executor: Executor, size: int) -> None:
    array = np.arange(size).astype("u1")
    copy = executor.submit(array_calls.given, array).result()
    assert (copy == array).all()
    assert array_calls.is_mapped(copy) == (size >= buffers.LEAST_BYTES)


def test_what_cannot_be_written_to_cannot_be_there(executor: Executor) -> None:
    array = executor.submit(array_calls.read_only, MIB).result()
    assert array_calls.is_mapped(array)
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        executor.submit(array_calls.written, array, 1.0).result()


def test_an_array_that_stands_twice_is_one(executor: Executor) -> None:
    array = np.ones(MIB)
    assert executor.submit(array_calls.is_one, array, array).result()
    first, second, other = executor.submit(array_calls.twice, MIB).result()
    assert first is second
    assert (first == np.arange(MIB)).all()
    assert (other == 1).all()


def test_the_buffers_of_other_objects(executor: Executor) -> None:
    for size in (10, MIB):
        data = bytearray(b"x" * size)
        facts = False, size, size * ord("x")
        assert executor.submit(array_calls.kind_and_sum, data).result() == facts
        assert executor.submit(array_calls.kind_and_sum, pickle.PickleBuffer(data)).result() == facts
        assert executor.submit(array_calls.kind_and_sum, pickle.PickleBuffer(bytes(data))).result() == (True, *facts[1:])
        assert array_calls.kind_and_sum(executor.submit(array_calls.buffer_of, size).result()) == facts
        assert executor.submit(array_calls.given, data).result() == data
        assert executor.submit(array_calls.given, bytes(data)).result() == data
        with pytest.raises(TypeError, match="memoryview"):
            executor.submit(array_calls.given, memoryview(data)).result()


def test_a_buffer_in_several_pieces_is_left_to_the_pickler() -> None:
    # Not by a call: such a buffer in a cycle crashes CPython 3.11 at its next collection, whoever pickles it.
    found: list[memoryview] = []
    assert buffers.take(found, pickle.PickleBuffer(memoryview(bytes(MIB))[::2]))
    assert not buffers.take(found, pickle.PickleBuffer(bytes(MIB)))
    assert [len(buffer) for buffer in found] == [MIB]


def test_an_argument_is_as_it_was_when_it_was_submitted(executor: Executor, tmp_path: Path) -> None:
    blocking = [executor.submit(calls.wait_for, str(tmp_path / "end")) for _ in range(2)]
    array = np.ones(MIB)
    waiting = executor.submit(np.sum, array)
    array[:] = 5
    (tmp_path / "end").touch()
    assert waiting.result() == MIB
    assert [future.result() for future in blocking] == ["waited"] * 2


def test_many_calls_that_wait_hold_few_descriptors(executor: Executor) -> None:
    arrays = [np.full(buffers.LEAST_BYTES, number % 100, "u1") for number in range(300)]
    futures = [executor.submit(np.max, array) for array in arrays]
    assert own_memory_files() < 80
    assert [future.result() for future in futures] == [number % 100 for number in range(300)]


def test_what_fails_beside_an_array_fails_alone(executor: Executor) -> None:
    array = np.ones(MIB)
    with pytest.raises(ValueError, match="shy"):
        executor.submit(array_calls.half, MIB).result()
    with pytest.raises(ValueError, match="shy"):
        executor.submit(array_calls.given, [array, array_calls.Shy()]).result()
    with pytest.raises(ValueError, match=r"1\. 1\.") as caught:
        executor.submit(array_calls.fails, array).result()
    # Where the exception comes from begins with the function.
    assert "carry" not in str(caught.value.__cause__)
    assert (caught.value.args[0] == array).all()
    assert executor.submit(calls.add, 1).result() == 1


def test_a_process_has_no_descriptor_of_its_arrays(executor: Executor) -> None:
    array = np.ones(MIB)
    assert not executor.submit(array_calls.has_shared, array).result()
    assert "regrow-array" not in executor.submit(array_calls.inherited, array).result()


def test_a_process_that_a_call_forks_has_its_own_arrays(executor: Executor) -> None:
    assert (executor.submit(array_calls.forked, np.ones(MIB)).result() == 1).all()


def test_arrays_count_as_memory_of_a_call() -> None:
    with regrow.Executor(1, preload=["numpy"], memory_limit=256 * MIB) as limited:
        assert limited.submit(np.sum, np.ones(MIB)).result() == MIB
        with pytest.raises(MemoryError, match="to map"):
            limited.submit(np.sum, np.ones(40 * MIB)).result()


def test_arrays_go_beside_locks_of_an_initializer() -> None:
    with regrow.ProcessPoolExecutor(1, initializer=calls.initialize, initargs=(regrow.get_context().Lock(),)) as executor:
        assert executor.submit(array_calls.written, np.ones(MIB), 3.0).result() == (True, 3.0 * MIB)


def test_memory_that_is_not_used_again_gives_arrays_as_well() -> None:
    with regrow.Executor(1, preload=["numpy"], reuse="never") as executor:
        array = executor.submit(array_calls.given, np.arange(MIB)).result()
        assert array_calls.is_mapped(array)
        assert (array == np.arange(MIB)).all()


def test_nothing_is_left_of_a_thousand_calls(executor: Executor) -> None:
    array = np.ones(2 * buffers.LEAST_BYTES, "u1")
    assert executor.submit(array_calls.given, array).result().sum() == len(array)
    gc.collect()
    maps, files = maps_of_memory_files(), len(os.listdir("/proc/self/fd"))
    for _ in range(1000):
        assert executor.submit(array_calls.given, array).result()[-1] == 1
    gc.collect()
    assert own_memory_files() == 0
    assert maps_of_memory_files() - maps < 3
    assert len(os.listdir("/proc/self/fd")) - files < 20


def test_results_that_are_held_hold_no_descriptors(executor: Executor) -> None:
    before = len(os.listdir("/proc/self/fd"))
    held = [executor.submit(np.full, buffers.LEAST_BYTES, number, "f8").result() for number in range(200)]
    assert len(os.listdir("/proc/self/fd")) - before < 50
    assert [array[-1] for array in held] == list(range(200))
    assert all(map(array_calls.is_mapped, held))
