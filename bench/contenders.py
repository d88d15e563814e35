"""Who is measured: functions that work on a case's rows in place, and how right each must be."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import glpcore
from glpcore._core import project_rows_k

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """Rows of one size: dtype "f32", "f16" or "bf16"; rank directions."""

    dtype: str
    n_rows: int
    n_embd: int
    rank: int = 1

    @property
    def n_bytes(self) -> int:
        return self.n_rows * self.n_embd * (4 if self.dtype == "f32" else 2)

    def __str__(self) -> str:
        rank = f" rank {self.rank}" if self.rank > 1 else ""
        return f"{self.dtype} {self.n_rows} x {self.n_embd}{rank}"


@dataclass(frozen=True)
class Contender:
    """run() once over the rows.

    tolerance: of its result against float64, or None for what does not project.
    """

    name: str
    run: Callable[[], object]
    tolerance: float | None


def build(folder: Path) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The two libraries of peers.c. -ffast-math only compiles: linked in, it would flush subnormals
    in this whole process."""
    cc = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-O3", "-march=native", "-fPIC", "-falign-functions=64", "-falign-loops=64"]
    libraries = []
    for name, more in (("passes", []), ("plain", ["-ffast-math", "-DPLAIN_LOOP"])):
        made, library = folder / f"{name}.o", folder / f"{name}.so"
        subprocess.run([*cc, *flags, *more, "-c", HERE / "peers.c", "-o", made], check=True)
        subprocess.run([*cc, "-shared", made, "-o", library], check=True)
        libraries.append(ctypes.CDLL(str(library)))
    return libraries[0], libraries[1]


class Bench:
    """One buffer per size and the peers that are installed; `missing` names the others."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        with tempfile.TemporaryDirectory() as folder:
            self.passes, self.plain = build(Path(folder))
        self.scipy = self._import("scipy.linalg.blas", "scipy")
        self.torch = self._import("torch", "torch")
        self.numba = self._import("numba", "numba")

    def _import(self, module: str, package: str) -> object:
        try:
            return __import__(module, fromlist=["_"])
        except ImportError:
            self.missing.append(package)
            return None

    def rows(self, case: Case) -> tuple[np.ndarray, np.ndarray]:
        """x with values that keep their size, and orthonormal directions."""
        random = np.random.default_rng(case.n_embd)
        x = random.standard_normal((case.n_rows, case.n_embd), "f4")
        basis = random.standard_normal((case.n_embd, case.rank))
        directions = np.linalg.qr(basis)[0].T.astype("f4").copy()
        if case.dtype == "f16":
            return x.astype("f2"), directions
        if case.dtype == "bf16":
            return (x.view("u4") >> 16).astype("u2"), directions
        return x, directions

    def contenders(
        self, case: Case, x: np.ndarray, directions: np.ndarray, threads: int
    ) -> list[Contender]:
        """glpcore twice (the A/A pair) and every peer that does this dtype and rank."""
        v = directions[0]
        kind = "bf16" if case.dtype == "bf16" else None
        exact = 1e-5 if case.dtype == "f32" else 1e-2
        if case.rank > 1:
            ones = [1.0] * case.rank
            mine = lambda: project_rows_k(x, directions, ones, threads=threads, dtype=kind)  # noqa: E731
        else:
            mine = lambda: glpcore.project_rows(x, v, 1.0, threads=threads, dtype=kind)  # noqa: E731
        found = [
            Contender("glpcore", mine, exact),
            Contender("glpcore again", mine, exact),
            Contender("in-place scale", self._scale(case, x), None),
        ]
        if case.rank > 1:
            found.append(
                Contender(
                    "rank 1",
                    lambda: glpcore.project_rows(x, v, 1.0, threads=threads, dtype=kind),
                    None,
                )
            )
        elif case.dtype == "f32":
            found += self._float32(case, x, v)
        return found

    def _scale(self, case: Case, x: np.ndarray) -> Callable[[], object]:
        function = getattr(self.passes, f"scale_{case.dtype}")
        function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float]
        factors = [2.0, 0.5]
        address = x.ctypes.data

        def scale() -> None:
            factors.reverse()  # an even number of calls leaves x as it was
            function(address, x.size, factors[0])

        return scale

    def _float32(self, case: Case, x: np.ndarray, v: np.ndarray) -> list[Contender]:
        read = self.passes.read_f32
        read.argtypes, read.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_float
        plain = self.plain.plain_loop
        plain.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2 + [ctypes.c_float]
        loose, one = 1e-3, np.float32(1)  # users write the scale

        def outer() -> None:
            np.subtract(x, one * np.outer(x @ v, v), out=x)

        def broadcast() -> None:
            np.subtract(x, one * (x @ v)[:, None] * v, out=x)

        def einsum() -> None:
            np.subtract(x, np.einsum("r,c->rc", np.einsum("rc,c->r", x, v), v), out=x)

        pointers = x.ctypes.data, v.ctypes.data, case.n_rows, case.n_embd
        found = [
            Contender("read", lambda: read(x.ctypes.data, x.size), None),
            Contender("plain C loop", lambda: plain(*pointers, 1.0), loose),
            Contender("numpy outer", outer, loose),
            Contender("numpy broadcast", broadcast, loose),
            Contender("numpy einsum", einsum, loose),
        ]
        if self.scipy:
            blas = self.scipy

            def sgemv_sger() -> None:
                blas.sger(-1.0, v, blas.sgemv(1.0, x.T, v, trans=1), a=x.T, overwrite_a=1)

            found.append(Contender("scipy sgemv + sger", sgemv_sger, loose))
        if self.torch:
            t, w = self.torch.from_numpy(x), self.torch.from_numpy(v)

            def expression() -> None:
                t.sub_(1.0 * (t @ w)[:, None] * w)

            found += [
                Contender("torch expression", expression, loose),
                Contender("torch addr_", lambda: t.addr_(t @ w, w, alpha=-1), loose),
            ]
        if self.numba:
            jit = self._numba_loop()
            found.append(Contender("numba fastmath", lambda: jit(x, v), loose))
        return found

    def _numba_loop(self) -> Callable[[np.ndarray, np.ndarray], None]:
        if not hasattr(self, "_jit"):

            @self.numba.njit(fastmath=True)
            def loop(x, v):
                for row in range(x.shape[0]):
                    dot = np.float32(0)
                    for i in range(x.shape[1]):
                        dot += x[row, i] * v[i]
                    for i in range(x.shape[1]):
                        x[row, i] -= dot * v[i]

            self._jit = loop
        return self._jit


def widened(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.uint16:
        return (x.astype("u4") << 16).view("f4").astype("f8")
    return x.astype("f8")


def error(x: np.ndarray, before: np.ndarray, directions: np.ndarray) -> float:
    """The largest difference from float64, against the row's largest element."""
    wide, basis = widened(before), directions.astype("f8")
    want = wide - (wide @ basis.T) @ basis
    return float((abs(widened(x) - want).max(axis=1) / abs(wide).max(axis=1)).max())
