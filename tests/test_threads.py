"""Worker threads, many callers at once, and fork."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gguf_writer as gw
import numpy as np
import pytest

import glpcore

N = 4096
ROWS = 256  # 4 MiB of float32: enough for several tasks


def direction(seed: int = 0) -> np.ndarray:
    v = np.random.default_rng(seed).standard_normal(N)
    return (v / np.linalg.norm(v)).astype("f4")


def states(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, N), dtype="f4")


@pytest.fixture(scope="module")
def want() -> np.ndarray:
    x = states()
    glpcore.project_rows(x, direction(), 1.0)
    return x


def n_threads() -> int:
    return len(os.listdir("/proc/self/task"))


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts in /proc")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
def test_same_bits(want, threads):
    x = states()
    glpcore.project_rows(x, direction(), 1.0, threads=threads)
    np.testing.assert_array_equal(x.view("u4"), want.view("u4"))


@needs_proc
def test_threads_are_kept_and_not_multiplied(want):
    """A pool serves all smaller counts; a larger one takes its place, and the old one ends."""
    x, v = states(), direction()
    glpcore.project_rows(x, v, 1.0, threads=70)
    before = n_threads()
    for threads in (2, 70, 33):
        glpcore.project_rows(x, v, 1.0, threads=threads)
        assert n_threads() == before
    glpcore.project_rows(x, v, 1.0, threads=75)
    assert n_threads() == before + 5


@needs_proc
def test_no_thread_unless_asked():
    import subprocess

    program = (
        "import os, numpy, glpcore\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "x = numpy.ones((512, 4096), 'f4')\n"
        "glpcore.project_rows(x, numpy.ones(4096, 'f4'), 1.0)\n"
        "assert len(os.listdir('/proc/self/task')) == before\n"
        "glpcore.project_rows(x, numpy.ones(4096, 'f4'), 1.0, threads=3)\n"
        "assert len(os.listdir('/proc/self/task')) == before + 2\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_interpreter_runs_meanwhile():
    """The GIL is released: this thread counts while another is in C."""
    x, v = np.zeros((1024, N), "f4"), direction()
    ticks = 0
    counted = []

    def work():
        for _ in range(500):
            before = ticks
            glpcore.project_rows(x, v, 1.0)
            counted.append(ticks - before)
            if counted[-1] > 100:
                break

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        ticks += 1
    assert counted[-1] > 100  # in C, the worker would not have let this thread run


def test_many_callers_of_one_pool(want):
    def one(_):
        x = states()
        glpcore.project_rows(x, direction(), 1.0, threads=2)
        return np.array_equal(x.view("u4"), want.view("u4"))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, range(12)))


def test_pools_replaced_under_use():
    """Callers with ever larger counts replace the pool that others are running on."""
    v = direction()

    def one(threads):
        x = states(threads)
        twice = x.copy()
        glpcore.project_rows(x, v, 1.0, threads=threads)
        glpcore.project_rows(twice, v, 1.0)
        return np.array_equal(x, twice)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(80, 104)))


def test_hammering_one_file(tmp_path):
    """Readers, views, judgements and closers on the same handles: errors, never a crash."""
    path = tmp_path / "vector.gguf"
    path.write_bytes(gw.sound(rank=2).build())
    want = np.array([gw.unit(8, 2, j) for j in range(2)], "f4")
    stop = threading.Event()
    shared = [glpcore.open(path)]
    failures = []

    def use(number):
        x = np.ones((3, 8), "f4")
        while not stop.is_set():
            file = shared[0]
            try:
                if number % 4 == 0:
                    vec = file.accept(hook=gw.FFN)
                    if not np.array_equal(vec[2], want):
                        failures.append("values")
                    vec.project(x, 2)
                    del vec
                elif number % 4 == 1:
                    if file.info.rank != 2 or file.metadata["glp.mode"] != "project":
                        failures.append("info")
                elif number % 4 == 2:
                    if file.findings or len(file.directions) != 6:
                        failures.append("findings")
                else:
                    file.close()
                    shared[0] = glpcore.open(path)
            except BufferError:
                pass  # somebody used it
            except ValueError as error:
                if "the file is closed" not in str(error):
                    failures.append(repr(error))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    file = shared.pop()
    gc.collect()
    file.close()


def test_counts_come_back_to_zero(tmp_path):
    """Views and vectors made and dropped by many threads leave the file closable."""
    path = tmp_path / "vector.gguf"
    path.write_bytes(gw.sound().build())
    file = glpcore.open(path)

    def one(_):
        for _ in range(200):
            vec = file.accept()
            views = [vec[layer] for layer in vec]
            del vec
            assert views[0].shape == (8,)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))
    gc.collect()
    file.close()


def child_status(task) -> int:
    """Runs `task` in a forked child, for at most a minute; its exit status."""
    child = os.fork()
    if child == 0:
        try:
            task()
        except BaseException:
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork(want, tmp_path):
    """The parent's threads do not exist in the child, which makes its own; files stay usable."""
    path = tmp_path / "vector.gguf"
    path.write_bytes(gw.sound().build())
    vec = glpcore.load(path)
    view = vec[2]
    glpcore.project_rows(states(), direction(), 1.0, threads=3)

    def task():
        x = states()
        glpcore.project_rows(x, direction(), 1.0, threads=3)
        assert np.array_equal(x, want)
        assert n_threads() == 3 or not os.path.isdir("/proc/self/task")
        assert np.array_equal(view, np.array(gw.unit(8, 2), "f4"))
        assert child_status(grandchild) == 0

    def grandchild():
        x = states()
        glpcore.project_rows(x, direction(), 1.0, threads=2)
        assert np.array_equal(x, want)
        gc.collect()

    assert child_status(task) == 0
    x = states()
    glpcore.project_rows(x, direction(), 1.0, threads=3)
    np.testing.assert_array_equal(x, want)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_the_pool_works(want):
    """A fork in the middle of another thread's call leaves no lock behind in the child."""
    stop = threading.Event()

    def work():
        x, v = states(), direction()
        while not stop.is_set():
            glpcore.project_rows(x, v, 0.0 if stop.is_set() else 1.0, threads=2)

    def task():
        x = states()
        glpcore.project_rows(x, direction(), 1.0, threads=2)
        assert np.array_equal(x, want)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert [child_status(task) for _ in range(5)] == [0] * 5
    finally:
        stop.set()
        worker.join()
