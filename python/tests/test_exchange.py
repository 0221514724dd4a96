"""Orders and answers of calls go through memory that a process shares with its caller, as far as they fit."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator

import pytest

import exchange_calls as calls
import regrow


def files_in_memory() -> list[tuple[str, int]]:
    """The files in memory that this process has for calls: their names and sizes."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{number}"
        try:
            name = os.readlink(path)
        except FileNotFoundError:
            continue
        if name.startswith(("/memfd:regrow-call", "/memfd:regrow-order")):
            found.append((name.split(" ")[0], os.stat(path).st_size))
    return found


@pytest.fixture(params=["always", "never"], scope="module")
def executor(request: pytest.FixtureRequest) -> Iterator[regrow.Executor]:
    """An executor of one body, or of a new one for each call."""
    with regrow.Executor(1, reuse=request.param) as executor:
        future = executor.submit(calls.same, 1)
        assert future.result() == 1
        assert str(future.creation).endswith("warm"), future.creation
        yield executor


def test_a_call_and_its_value_need_no_file(executor: regrow.Executor) -> None:
    before = files_in_memory()
    for number in range(10):
        assert executor.submit(calls.same, number).result() == number
        # The file of an answer that would be too long is there, and nobody has written to it.
        assert all((name, size) == ("/memfd:regrow-call", 0) for name, size in files_in_memory())
    assert len(files_in_memory()) <= max(len(before), 1)
    assert executor.submit(calls.descriptors).result() == [0, 1, 2, 3, 62]


@pytest.mark.parametrize("size", [0, 1, 16_000, 32_700, 32_768, 40_000, 65_527, 65_536, 1_000_000])
def test_values_of_any_length_come_and_go(executor: regrow.Executor, size: int) -> None:
    value = os.urandom(size)
    for _ in range(2):
        assert executor.submit(calls.same, value).result() == value
        assert executor.submit(calls.is_empty).result()


def test_the_longest_answer_and_one_that_is_longer(executor: regrow.Executor) -> None:
    beside = len(pickle.dumps(bytes(32_000), 5)) - 32_000
    for size in range(32 * 1024 - 16 - 9 - beside - 2, 32 * 1024 - 16 - 9 - beside + 3):
        assert executor.submit(bytes, size).result() == bytes(size)


def test_arrays_come_and_go(executor: regrow.Executor) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(100_000.0)
    assert (executor.submit(calls.same, array).result() == array).all()
    assert executor.submit(calls.same, array[:5]).result().tolist() == [0, 1, 2, 3, 4]


def test_exceptions_of_any_length_come(executor: regrow.Executor) -> None:
    for text in ("short", "long" * 50_000):
        error = executor.submit(calls.raise_with, text).exception()
        assert isinstance(error, ValueError)
        assert str(error) == text


def test_a_call_without_a_body_has_its_order_in_a_file(executor: regrow.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    # The front end itself carries such a call out, and the interpreter finalizes.
    monkeypatch.setenv("REGROW_PYTHON_FINALIZE", "1")
    for value in ("short", "long" * 50_000):
        assert executor.submit(calls.same, value).result() == value
    monkeypatch.delenv("REGROW_PYTHON_FINALIZE")
    assert executor.submit(calls.is_empty).result()


def test_a_killed_process_has_not_answered(executor: regrow.Executor) -> None:
    with pytest.raises(regrow.BrokenProcess):
        executor.submit(calls.kill_after, b"=" + (3).to_bytes(8, "little") + pickle.dumps(None)).result()
    assert executor.submit(calls.is_empty).result()


def answer(kind: bytes, data: bytes, length: int = -1) -> bytes:
    """An answer as the worker writes it, or with another length."""
    return kind + (len(data) if length < 0 else length).to_bytes(8, "little") + data


@pytest.mark.parametrize(
    ("answer_bytes", "is_answered", "content"),
    [
        (2**32 - 1, 1, answer(b"=", pickle.dumps(1))),
        (32 * 1024 - 15, 1, answer(b"=", pickle.dumps(1))),
        (0, 1, answer(b"=", pickle.dumps(1))),
        (5, 1, answer(b"=", pickle.dumps(1))),
        (14, 2, answer(b"=", pickle.dumps(1))),
        (14, 1, answer(b"=", b"12345", 2**64 - 1)),
        (14, 1, answer(b"x", pickle.dumps(1))),
        (11, 1, answer(b"!", b"no")),
        (11, 1, answer(b"?", b"no")),
    ],
)
def test_a_call_that_lies_is_broken(executor: regrow.Executor, answer_bytes: int, is_answered: int, content: bytes) -> None:
    with pytest.raises(regrow.BrokenProcess):
        executor.submit(calls.lie, answer_bytes, is_answered, content).result()
    assert executor.submit(calls.is_empty).result()


def test_a_call_that_lies_about_buffers_raises(executor: regrow.Executor) -> None:
    for sizes in ([], [2**20], [2**62], [2**64 - 1]):
        data = b"".join(number.to_bytes(8, "little") for number in (len(sizes), *sizes)) + pickle.dumps(1)
        content = answer(b"#", data)
        assert executor.submit(calls.lie, len(content), 1, content).exception() is not None
    assert executor.submit(calls.same, 1).result() == 1


def test_a_call_that_writes_everywhere_harms_nobody(executor: regrow.Executor) -> None:
    for byte in (1, 0x7F, 0xFF):
        with pytest.raises(regrow.BrokenProcess):
            executor.submit(calls.lie_everywhere, byte).result()
        assert executor.submit(calls.same, 1).result() == 1


def test_no_call_finds_what_another_one_was_told_or_has_said(executor: regrow.Executor) -> None:
    reversed_secret, secret = calls.SECRET, calls.SECRET[::-1]
    for times in (1, 100, 2_000):
        told = secret * times
        assert executor.submit(calls.same, told).result() == told
        assert executor.submit(calls.secret_found, reversed_secret).result() == []
        assert executor.submit(calls.is_empty).result()
        assert isinstance(executor.submit(calls.raise_with, told.decode()).exception(), ValueError)
        assert executor.submit(calls.secret_found, reversed_secret).result() == []
        with pytest.raises(regrow.BrokenProcess):
            executor.submit(calls.kill_after, told[:30_000]).result()
        assert executor.submit(calls.secret_found, reversed_secret).result() == []


def test_an_answer_counts_as_it_was_at_the_end(executor: regrow.Executor) -> None:
    for _ in range(3):
        assert executor.submit(calls.write_from_thread).result() == "as said"


def test_answers_that_nobody_has_asked_for_are_kept() -> None:
    with regrow.Executor(1) as executor:
        futures = [executor.submit(calls.same, number) for number in range(20)]
        assert [future.result() for future in reversed(futures)] == list(reversed(range(20)))
