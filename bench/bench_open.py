"""Open + check of a 29 x 4096 vector, and import time, against gguf-py and numpy in one run.

    python bench/bench_open.py [--runs 200]

Needs glpcore and gguf installed, and a C compiler for the C row (left out without one). Every row
is the least of many runs, in turns, so that all contenders see the same machine; `A/A` is one of
them against itself and shows how far the figures can be trusted.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

import glpcore

ROOT = Path(__file__).resolve().parent.parent
LAYERS = range(10, 39)
N_EMBD = 4096
HOOK = "ffn_out_pre_residual"


def make_vector(path: Path) -> bytes:
    """A file of unit directions; returns their bytes in order."""
    rows = np.random.default_rng(1).standard_normal((len(LAYERS), N_EMBD))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    directions = {layer: rows[i].astype(np.float32) for i, layer in enumerate(LAYERS)}
    glpcore.pack(path, directions, hook=HOOK, base="Bench 1B", alpha=1.0)
    return b"".join(directions[layer].tobytes() for layer in LAYERS)


def load(path: Path, *, verify_hash: bool) -> None:
    glpcore.load(path, hook=HOOK, n_embd=N_EMBD, n_layers=43, verify_hash=verify_hash)


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def import_ms() -> tuple[float, float]:
    """Milliseconds that a fresh interpreter takes for numpy, and then for glpcore."""
    program = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); "
        "import glpcore; print((b - a) * 1e3, (time.perf_counter() - b) * 1e3)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            check=True).stdout  # fmt: skip
    numpy_ms, glpcore_ms = map(float, output.split())
    return numpy_ms, glpcore_ms


def c_rows(path: Path, folder: Path, runs: int) -> dict[str, float]:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if compiler is None:
        return {}
    program = folder / "open_check"
    sources = [str(p) for p in sorted((ROOT / "csrc").glob("*.c"))]
    subprocess.run(
        [compiler, "-std=c99", "-O3", "-ffp-contract=off", f"-I{ROOT / 'csrc/include'}",
         str(ROOT / "bench/open_check.c"), *sources, "-lm", "-lpthread", "-o", str(program)],
        check=True,
    )  # fmt: skip
    output = subprocess.run([str(program), str(path), str(runs)], capture_output=True, text=True,
                            check=True).stdout  # fmt: skip
    return {name: float(us) for name, us in (line.split() for line in output.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "vector.gguf"
        payload = make_vector(path)
        contenders: dict[str, Callable[[], object]] = {
            "glpcore.load": lambda: load(path, verify_hash=True),
            "glpcore.load A/A": lambda: load(path, verify_hash=True),
            "glpcore.load before the hash": lambda: load(path, verify_hash=False),
            "hashlib.sha256 of the payload": lambda: hashlib.sha256(payload).digest(),
            "gguf.GGUFReader": lambda: gguf.GGUFReader(path),
        }
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(runs):
            for name_, run in contenders.items():
                times[name_].append(timed(run))
        print(f"open + check, {len(LAYERS)} x {N_EMBD}, {runs} runs, microseconds")
        print(f"{'':32}{'least':>10}{'median':>10}")
        for name_, values in times.items():
            print(f"{name_:32}{min(values):10.1f}{statistics.median(values):10.1f}")
        for name_, value in c_rows(path, folder, runs).items():
            print(f"{name_:32}{value:10.1f}")
        ratio = min(times["gguf.GGUFReader"]) / min(times["glpcore.load"])
        print(f"gguf-py / glpcore, all together: {ratio:.1f}x")
    imports = [import_ms() for _ in range(15)]
    print("\nimport, milliseconds, of 15 fresh interpreters")
    for column, name_ in enumerate(("numpy", "glpcore beyond numpy")):
        values = [pair[column] for pair in imports]
        print(f"{name_:32}{min(values):10.1f}{statistics.median(values):10.1f}")
    print(f"load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
