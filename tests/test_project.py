"""project_rows and its kin: the bits against an oracle in numpy's float64, and every refusal."""

from __future__ import annotations

import array
import ctypes
import importlib.util
import itertools
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import glpcore
from glpcore import _core

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {"float32": np.dtype("f4"), "float16": np.dtype("f2"), "bfloat16": BF16}
BITS = {2: "u2", 4: "u4"}

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

# ---- The oracle: docs/numerics.md in numpy -------------------------------------------------------


def dot(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v . x of each row, in sixteen lanes."""
    width = -x.shape[1] % 16
    products = np.pad(x.astype("f8") * v.astype("f8"), ((0, 0), (0, width)))
    lanes = np.zeros((x.shape[0], 16))
    for start in range(0, products.shape[1], 16):
        lanes = lanes + products[:, start : start + 16]
    for half in (8, 4, 2, 1):
        lanes = lanes[:, :half] + lanes[:, half : 2 * half]
    return lanes[:, 0]


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of float32, rounded once: the exact sum is rounded to odd, then to float32."""
    product, c = a.astype("f8") * b.astype("f8"), c.astype("f8")
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = total.view("i8")
    toward = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits % 2 == 0), bits + toward, bits)
    return odd.view("f8").astype("f4")


def narrow(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rounded to nearest even; for bfloat16 on the bits rather than by ml_dtypes."""
    if dtype != BF16:
        return x.astype(dtype)
    bits = x.view("u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2").view(BF16)


def expected(x: np.ndarray, directions: np.ndarray, scales: list[float]) -> np.ndarray:
    """Rank k; k = 1 is project_rows."""
    wide = x.astype("f4")
    result = wide
    for d, scale in zip(directions, scales, strict=True):
        factor = -(np.float64(scale) * dot(wide, d)).astype("f4")
        result = fma(factor[:, None], d[None, :], result)
    return narrow(result, x.dtype)


def expected_add(x: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    return narrow(fma(np.full((1, 1), scale, "f4"), v[None, :], x.astype("f4")), x.dtype)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    kind = BITS[a.dtype.itemsize]
    np.testing.assert_array_equal(
        np.ascontiguousarray(a).view(kind), np.ascontiguousarray(b).view(kind)
    )


def sample(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Hidden states as models have them: of order 1, with a few channels of thousands."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    x[..., :: max(1, shape[-1] // 3)] *= 1000
    return x.astype("f4").astype(dtype)


def unit(n: int, seed: int = 1) -> np.ndarray:
    v = np.random.default_rng(seed).standard_normal(n)
    return (v / np.linalg.norm(v)).astype("f4")


# ---- The numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("scale", [1.0, -0.75, 2.5, 1e-3, 0.1])
@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 31, 33, 100, 896])
def test_bits(dtype, scale, n):
    x, v = sample((7, n), dtype), unit(n)
    want = expected(x, v[None], [scale])
    assert n == 1 or (want != x).any()
    assert glpcore.project_rows(x, v, scale) is None
    same_bits(x, want)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("n", [1, 5, 64, 300])
def test_bits_of_add(dtype, n):
    x, v = sample((5, n), dtype), unit(n)
    want = expected_add(x, v, 0.3)
    assert glpcore.add_rows(x, v, 0.3) is None
    same_bits(x, want)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_bits_of_rank_k(dtype, k):
    x = sample((6, 48), dtype)
    basis, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((48, k)))
    directions, scales = np.ascontiguousarray(basis.T.astype("f4")), [1.0, 0.5, 2.0, -1.0, 0.7][:k]
    want = expected(x, directions, scales)
    _core.project_rows_k(x, directions, scales)
    same_bits(x, want)


def test_the_oracle_by_fractions():
    """The oracle's own fma against exact arithmetic, and where rounding twice goes wrong."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(2000).astype("f4") for _ in range(3))
    a[0], b[0], c[0] = (1 + 2**-18) * 2**-12, (1 - 2**-18) * 2**-12, 1 + 2**-23
    got = fma(a, b, c)
    assert got[0] == np.float32(float.fromhex("0x1.000002p+0"))
    for i in range(len(a)):
        exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        near = (np.nextafter(got[i], np.float32(side)) for side in (-np.inf, np.inf))
        gap = abs(Fraction(float(got[i])) - exact)
        assert all(gap <= abs(Fraction(float(other)) - exact) for other in near)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_bound(dtype):
    """What docs/numerics.md promises, in the form that does not depend on the order of the sum."""
    x, v = sample((9, 512), dtype), unit(512)
    before, d = x.astype("f8"), v.astype("f8")
    s = before @ d
    glpcore.project_rows(x, v, 1.0)
    exact = before - s[:, None] * d
    u = 2.0**-24
    bound = 2 * u * (abs(before) + abs(s[:, None] * d))
    bound += 512 * 2.0**-53 * (abs(before) @ abs(d))[:, None] * abs(d)
    if dtype.itemsize == 2:
        bound += abs(exact) * (2.0**-11 if dtype == DTYPES["float16"] else 2.0**-8)
    assert (abs(x.astype("f8") - exact) <= bound).all()


@pytest.mark.parametrize("kind", ["ordinary", "massive", "cancelling"])
@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_bound_by_fractions(dtype, k, kind):
    """The same in exact arithmetic, for rank k. 16 bits: one rounding of something within it."""
    n, u, scales = 67, Fraction(1, 2**24), [1.0, -0.6, 0.1, 2.0, 1.0, 0.3, -1.5, 1.0][:k]
    rng = np.random.default_rng(11)
    x = rng.standard_normal((2, n)).astype("f4")
    d = np.stack([unit(n, 20 + j) for j in range(k)])
    if kind != "ordinary":
        x[:, 7] = 9000
    if kind == "cancelling":
        x[:, 40], d[:, 40] = -9000, d[:, 7]
    x = x.astype(dtype)
    exact_d = [[Fraction(float(w)) for w in row] for row in d]
    incoming = [[Fraction(float(w)) for w in row] for row in x]
    _core.project_rows_k(x, d, scales)
    for before, after in zip(incoming, x, strict=True):
        dots = [sum(map(operator.mul, row, before)) for row in exact_d]
        sums = [sum(abs(a * b) for a, b in zip(row, before, strict=True)) for row in exact_d]
        for i in range(n):
            terms = [Fraction(s) * c * row[i]
                     for s, c, row in zip(scales, dots, exact_d, strict=True)]  # fmt: skip
            exact = before[i] - sum(terms)
            bound = (k + 1) * u * (abs(before[i]) + sum(map(abs, terms)))
            bound += Fraction(n, 2**53) * sum(
                total * abs(Fraction(s) * row[i])
                for s, total, row in zip(scales, sums, exact_d, strict=True)
            )
            got = Fraction(float(after[i]))
            if dtype.itemsize == 4:
                assert abs(got - exact) <= bound
            else:
                # Of the two values beside it, neither is nearer to all that lies within the bound.
                near = neighbours(after[i : i + 1])
                assert (near[0] + got) / 2 <= exact + bound
                assert exact - bound <= (got + near[1]) / 2


def neighbours(value: np.ndarray) -> tuple[Fraction, Fraction]:
    """The next 16-bit values below and above."""
    bits = int(value.view("u2")[0])
    rank = -(bits & 0x7FFF) if bits & 0x8000 else bits
    around = (abs(r) | (0x8000 if r < 0 else 0) for r in (rank - 1, rank + 1))
    low, high = (Fraction(float(np.array([b], "u2").view(value.dtype)[0])) for b in around)
    return low, high


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_row_is_the_same_wherever_it_is(dtype):
    """Whatever the number of rows, its place, the stride, and the threads."""
    n = 4096
    row, v = sample((n,), dtype, 5), unit(n)
    alone = row.copy()
    glpcore.project_rows(alone, v, 0.9)
    for rows, stride, threads in itertools.product((1, 2, 3, 8, 65), (n, n + 7), (1, 2, 3)):
        base = np.tile(np.pad(row, (0, stride - n)), (rows, 1))
        x = base[:, :n]
        glpcore.project_rows(x, v, 0.9, threads=threads)
        for r in range(rows):
            same_bits(x[r], alone)
        assert (base[:, n:] == 0).all()


# ---- Nothing where nothing is due ----------------------------------------------------------------

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1e-42, -3.0], "f4")


@pytest.mark.parametrize("function", [glpcore.project_rows, glpcore.add_rows])
@pytest.mark.parametrize("scale", [0, 0.0, -0.0, np.float32(0)])
def test_scale_zero_touches_nothing(function, scale):
    """v is not even read: it may hold anything."""
    x = SPECIAL.copy()
    function(x, np.full(8, np.nan, "f4"), scale)
    same_bits(x, SPECIAL)


def test_zero_v_touches_nothing():
    for zero in (0.0, -0.0):
        x = SPECIAL.copy()
        glpcore.project_rows(x, np.full(8, zero, "f4"), 1.0)
        same_bits(x, SPECIAL)


def test_nan_stays_in_its_row():
    x, v = sample((3, 16), DTYPES["float32"]), unit(16)
    want = expected(x[[0, 2]], v[None], [1.0])
    x[1, 4] = np.nan
    glpcore.project_rows(x, v, 1.0)
    same_bits(x[[0, 2]], want)
    assert np.isnan(x[1]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("function", [glpcore.project_rows, glpcore.add_rows])
def test_v_must_be_finite(function, bad):
    x, v = np.ones((2, 9), "f4"), unit(9)
    for at in (0, 8):
        broken = v.copy()
        broken[at] = bad
        with pytest.raises(ValueError, match="v holds a NaN or an infinity; x is untouched"):
            function(x, broken, 1.0)
    assert (x == 1).all()


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 8), (0,), (5, 0)])
def test_empty(shape):
    glpcore.project_rows(np.empty(shape, "f4"), np.ones(shape[-1], "f4"), 1.0)


def test_empty_x_of_another_width():
    with pytest.raises(ValueError, match="v has 7 elements and the rows of x have 8"):
        glpcore.project_rows(np.empty((0, 8), "f4"), np.ones(7, "f4"), 1.0)


# ---- What x may be -------------------------------------------------------------------------------


def check_projected(x, want: np.ndarray) -> None:
    glpcore.project_rows(x, V8, 1.0)
    same_bits(np.asarray(x, "f4").reshape(want.shape), want)


V8 = unit(8)
X = sample((24, 8), DTYPES["float32"])
WANT = expected(X, V8[None], [1.0])


def test_one_row():
    check_projected(X[0].copy(), WANT[0])


def test_leading_dimensions():
    check_projected(X.copy().reshape(2, 3, 4, 8), WANT)
    check_projected(X.copy().reshape(1, 24, 1, 8), WANT)


def test_leading_dimensions_in_any_order():
    """A row stands alone, so transposed leading dimensions are no obstacle."""
    x = X.copy().reshape(2, 3, 4, 8)
    glpcore.project_rows(x.transpose(2, 0, 1, 3), V8, 1.0)
    same_bits(x.reshape(24, 8), WANT)


def test_every_second_row():
    x = X.copy()
    glpcore.project_rows(x[::2], V8, 1.0)
    same_bits(x[::2], WANT[::2])
    same_bits(x[1::2], X[1::2])


def test_column_slice():
    wide = np.zeros((24, 20), "f4")
    wide[:, 3:11] = X
    glpcore.project_rows(wide[:, 3:11], V8, 1.0)
    same_bits(wide[:, 3:11], WANT)
    wide[:, 3:11] = 0
    assert (wide == 0).all()


def test_one_column():
    """Rows of one element: any distance between elements is right."""
    x = np.arange(6, dtype="f4").reshape(6, 1).copy()
    glpcore.project_rows(x, np.ones(1, "f4"), 1.0)
    assert (x == 0).all()


def test_v_beside_the_rows():
    """In the gap between two rows v is no part of x."""
    wide = np.zeros((24, 16), "f4")
    wide[:, :8], wide[5, 8:] = X, V8
    glpcore.project_rows(wide[:, :8], wide[5, 8:], 1.0)
    same_bits(wide[:, :8], WANT)


def test_other_exporters():
    x = array.array("f", X[0])
    check_projected(x, WANT[0])
    x = bytearray(X.tobytes())
    check_projected(memoryview(x).cast("f", (24, 8)), WANT)
    x = (ctypes.c_float * 8)(*X[0])
    glpcore.project_rows(x, array.array("f", V8), 1.0)
    same_bits(np.array(list(x), "f4"), WANT[0])


def test_bfloat16_by_its_bits():
    x = sample((3, 8), BF16)
    want = expected(x, V8[None], [1.0])
    bits = x.view("u2").copy()
    glpcore.project_rows(bits, V8, 1.0, dtype="bf16")
    same_bits(bits.view(BF16), want)
    glpcore.project_rows(x, V8, 1.0, dtype="bf16")  # it says so itself; saying it too is fine
    same_bits(x, want)


def test_scale_is_any_real_number():
    class Quarter:
        def __float__(self):
            return 0.25

    for scale in (np.float32(0.25), np.float64(0.25), np.float16(0.25), Quarter()):
        x = X.copy()
        glpcore.project_rows(x, V8, scale)
        same_bits(x, expected(X, V8[None], [0.25]))
    x = X.copy()
    glpcore.project_rows(x, V8, 1)
    same_bits(x, WANT)


class Older:
    """An array from before DLPack had versions."""

    def __init__(self, data):
        self.data = data

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()

    def __dlpack__(self):
        return self.data.__dlpack__()


class Newer(Older):
    def __dlpack__(self, *, max_version=None):
        return self.data.__dlpack__(max_version=max_version)


@pytest.mark.parametrize("exporter", [Older, Newer])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_dlpack(exporter, dtype):
    x = X.astype(dtype)
    want = expected(x, V8[None], [1.0])
    glpcore.project_rows(exporter(x.reshape(2, 12, 8)), exporter(V8), 1.0)
    same_bits(x, want)


def test_dlpack_read_only():
    x = X.copy()
    x.setflags(write=False)
    with pytest.raises(ValueError, match="x is read-only"):
        glpcore.project_rows(Newer(x), V8, 1.0)


# ---- What is refused, and how it is named --------------------------------------------------------


def read_only():
    x = X.copy()
    x.setflags(write=False)
    return x


def unaligned():
    return np.frombuffer(bytearray(4 * 8 + 1), "u1")[1:].view("f4")


def overlapping_windows():
    return np.lib.stride_tricks.as_strided(np.zeros(64, "f4"), (4, 8), (16, 4))


def zero_stride():
    return np.lib.stride_tricks.as_strided(np.zeros(8, "f4"), (4, 8), (0, 4))


def odd_stride():
    return np.frombuffer(bytearray(34 * 3), np.dtype({"names": ["r"], "formats": ["8f4"],
                                                      "itemsize": 34}))["r"]  # fmt: skip


def overlapping_blocks():
    return np.lib.stride_tricks.as_strided(np.zeros(512, "f4"), (3, 4, 8), (64, 32, 4))


class OnGpu:
    def __dlpack_device__(self):
        return (2, 1)

    def __dlpack__(self, **options):
        raise AssertionError("must not be asked")


REFUSED_X = {
    "read-only": (read_only, ValueError, "x is read-only: pass a writable array"),
    "bytes": (lambda: memoryview(bytes(32)).cast("f"), ValueError, "x is read-only"),
    "broadcast": (lambda: np.broadcast_to(X[0], (3, 8)), ValueError, "x is read-only"),
    "float64": (lambda: X.astype("f8"), TypeError, "x is float64: convert it first, to float32"),
    "int32": (lambda: X.astype("i4"), TypeError, "x is int32"),
    "bool": (lambda: X > 0, TypeError, "x is bool"),
    "bytearray": (lambda: bytearray(32), TypeError, "x is uint8"),
    "complex64": (lambda: X.astype("c8"), TypeError, "x is complex64"),
    "object": (lambda: X.astype(object), TypeError, "x is object"),
    "structured": (lambda: np.zeros(3, "f4,f4"), TypeError, "x is of format"),
    "uint16": (lambda: X.astype("u2"), TypeError, 'x is uint16: pass dtype="bf16" if'),
    "float8": (lambda: X.astype(ml_dtypes.float8_e4m3fn), TypeError, "x is float8_e4m3fn"),
    "swapped": (lambda: X.astype(">f4"), TypeError, "x is byte-swapped float32"),
    "swapped half": (lambda: X.astype(">f2"), TypeError, "x is byte-swapped float16"),
    "width": (lambda: X[:, :5].copy(), ValueError, "v has 8 elements and the rows of x have 5"),
    "columns": (lambda: X.T.copy().T, ValueError, "elements of x's rows are not contiguous: they "
                "lie 96 bytes apart, not 4"),
    "every second": (lambda: np.zeros((3, 16), "f4")[:, ::2], ValueError, "lie 8 bytes apart"),
    "reversed row": (lambda: X.copy()[:, ::-1], ValueError, "lie -4 bytes apart"),
    "reversed rows": (lambda: X.copy()[::-1], ValueError, "dimension 0 of x has a negative stride"),
    "windows": (overlapping_windows, ValueError, "the rows of x overlap: they lie 16 bytes apart"),
    "zero stride": (zero_stride, ValueError, "the rows of x overlap: they lie 0 bytes apart"),
    "blocks": (overlapping_blocks, ValueError, "the rows of x overlap: dimension 0 steps 64"),
    "odd stride": (odd_stride, ValueError, "34 bytes apart, which is no multiple"),
    "gaps": (lambda: np.zeros((3, 6, 8), "f4")[:, :4], ValueError, "dimension 0 of x cannot be "
             "joined with dimension 1.*Pass the parts one by one along dimension 0"),
    "unaligned": (unaligned, ValueError, "x is not aligned to its 4-byte elements"),
    "no dimension": (lambda: np.array(1, "f4"), ValueError, "x has no dimension"),
    "list": (lambda: [1.0] * 8, TypeError, r"x must be an array .* not list"),
    "None": (lambda: None, TypeError, "x must be an array"),
    "GPU": (OnGpu, ValueError, r"x is on cuda:1.*pass x.cpu\(\)"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), REFUSED_X.values(), ids=REFUSED_X)
@pytest.mark.parametrize("function", [glpcore.project_rows, glpcore.add_rows])
def test_refused_x(function, make, error, message):
    with pytest.raises(error, match=message):
        function(make(), V8, 1.0)


REFUSED_V = {
    "float64": (lambda: V8.astype("f8"), TypeError, "v is float64: convert it first, to float32"),
    "float16": (lambda: V8.astype("f2"), TypeError, r"v is float16, not float32: convert it with "
                r"v.astype\(numpy.float32\)"),
    "bfloat16": (lambda: V8.astype(BF16), TypeError, "v is bfloat16, not float32"),
    "swapped": (lambda: V8.astype(">f4"), TypeError, "v is byte-swapped float32"),
    "strided": (lambda: np.zeros(16, "f4")[::2], ValueError, "v is not contiguous: its elements "
                "lie 8 bytes apart"),
    "2-D": (lambda: V8[None], ValueError, "v has 2 dimensions"),
    "0-D": (lambda: np.float32(1), ValueError, "v has 0 dimensions"),
    "short": (lambda: V8[:7], ValueError, "v has 7 elements and the rows of x have 8"),
    "unaligned": (unaligned, ValueError, "v is not aligned"),
    "list": (lambda: list(V8), TypeError, r"v must be an array .* not list"),
    "GPU": (OnGpu, ValueError, "v is on cuda:1"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), REFUSED_V.values(), ids=REFUSED_V)
def test_refused_v(make, error, message):
    x = X.copy()
    with pytest.raises(error, match=message):
        glpcore.project_rows(x, make(), 1.0)
    same_bits(x, X)


@pytest.mark.parametrize("at", [0, 1, 7])
def test_v_of_x(at):
    x = X.copy()
    with pytest.raises(ValueError, match=r"x and v share memory.*v.copy\(\)"):
        glpcore.project_rows(x, x[at], 1.0)
    same_bits(x, X)


def test_v_partly_of_x():
    """One element is enough, at either end, also over a row's end into the gap."""
    memory = np.zeros(64, "f4")
    x = memory[8:56].reshape(3, 16)[:, :8]  # rows at 8, 24, 40
    for start in (1, 15, 17, 31, 33, 47):
        with pytest.raises(ValueError, match="share memory"):
            glpcore.project_rows(x, memory[start : start + 8], 1.0)
    for start in (0, 16, 32, 48):
        glpcore.project_rows(x, memory[start : start + 8], 1.0)


REFUSED_SCALE = {
    "NaN": (float("nan"), ValueError, "scale must be finite, not nan"),
    "infinite": (float("inf"), ValueError, "scale must be finite, not inf"),
    "text": ("1", TypeError, "scale must be a real number, not str"),
    "bytes": (b"1", TypeError, "scale must be a real number, not bytes"),
    "complex": (1j, TypeError, "scale must be a real number, not complex"),
    "bool": (True, TypeError, "scale must be a real number, not bool"),
    "None": (None, TypeError, "scale must be a real number, not NoneType"),
}


@pytest.mark.parametrize(
    ("scale", "error", "message"), REFUSED_SCALE.values(), ids=REFUSED_SCALE
)  # fmt: skip
def test_refused_scale(scale, error, message):
    with pytest.raises(error, match=message):
        glpcore.project_rows(X.copy(), V8, scale)


@pytest.mark.parametrize(
    ("threads", "error"),
    [(0, ValueError), (-1, ValueError), (1025, ValueError), (1.0, TypeError), (True, TypeError),
     ("1", TypeError), (None, TypeError)],
)  # fmt: skip
def test_refused_threads(threads, error):
    with pytest.raises(error, match="threads must be"):
        glpcore.project_rows(X.copy(), V8, 1.0, threads=threads)


def test_refused_dtype():
    with pytest.raises(ValueError, match=r'dtype must be None or "bf16"'):
        glpcore.project_rows(X.copy(), V8, 1.0, dtype="float32")
    with pytest.raises(TypeError, match="x is float32, not the uint16"):
        glpcore.project_rows(X.copy(), V8, 1.0, dtype="bf16")


def test_refused_ranks():
    x, d = X.copy(), np.eye(8, dtype="f4")[:2]
    with pytest.raises(ValueError, match="2 dimensions and 3 rows"):
        _core.project_rows_k(x, d, [1.0] * 3)
    with pytest.raises(ValueError, match="2 dimensions and 2 rows"):
        _core.project_rows_k(x, d[0], [1.0] * 2)
    with pytest.raises(ValueError, match="at most 256"):
        _core.project_rows_k(x, d, [1.0] * 257)
    with pytest.raises(ValueError, match="share memory"):
        _core.project_rows_k(x, x[:2], [1.0] * 2)
    d = d * np.float32(np.nan)
    with pytest.raises(ValueError, match="NaN"):
        _core.project_rows_k(x, d, [0.0, 1.0])
    same_bits(x, X)
    _core.project_rows_k(x, d, [0.0, 0.0])
    same_bits(x, X)


def test_a_refusal_holds_nothing():
    """No buffer stays exported after an error: the array can still be resized."""
    x = bytearray(32)
    for view in (lambda: memoryview(x), lambda: memoryview(x).cast("f")):
        with pytest.raises((TypeError, ValueError)):
            glpcore.project_rows(view(), np.ones(5, "f4"), 1.0)
    x += b"more"


# ---- torch ---------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_torch(dtype):
    import torch

    x = sample((2, 3, 8), dtype)
    want = expected(x.reshape(6, 8), V8[None], [1.0])
    t = torch.from_numpy(x.astype("f4")).to(getattr(torch, dtype.name)).contiguous()
    glpcore.project_rows(t, torch.from_numpy(V8), 1.0)
    same_bits(t.view(torch.int16 if dtype.itemsize == 2 else torch.int32).numpy().view(
        BITS[dtype.itemsize]).reshape(6, 8).view(dtype), want)  # fmt: skip


@needs_torch
def test_torch_views():
    import torch

    t = torch.from_numpy(X.copy()).reshape(2, 3, 4, 8)
    glpcore.project_rows(t.permute(2, 0, 1, 3), V8, 1.0)
    same_bits(t.numpy().reshape(24, 8), WANT)
    bits = torch.from_numpy(sample((3, 8), BF16).view("u2").copy())
    want = expected(bits.numpy().view(BF16), V8[None], [1.0])
    glpcore.project_rows(bits, V8, 1.0, dtype="bf16")
    same_bits(bits.numpy().view(BF16), want)
    glpcore.project_rows(torch.empty(0, 8), V8, 1.0)


@needs_torch
def test_torch_refused():
    import torch

    zeros = torch.zeros(3, 8)
    cases = [
        (zeros.clone().requires_grad_(), r"x requires grad: pass x.detach\(\)"),
        (torch.nn.Parameter(zeros), "x requires grad"),
        (zeros.double(), "x is float64"),
        (torch.zeros(8, 3).T, "not contiguous"),
        (torch.zeros(8).expand(3, 8), "the rows of x overlap"),
        (torch.zeros(3, 8, device="meta"), "meta"),
        (torch.zeros(3, 8).to_sparse(), "x has no memory to work on"),
    ]
    for x, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            glpcore.project_rows(x, V8, 1.0)
    with pytest.raises(ValueError, match="v requires grad"):
        glpcore.project_rows(zeros, torch.ones(8, requires_grad=True), 1.0)
    detached = zeros.clone().requires_grad_()
    glpcore.project_rows(detached.detach(), V8, 1.0)


# ---- Arrays of numpy, which are read as they lie -------------------------------------------------


def test_the_types_of_numpy_beside_its_plain_arrays(tmp_path):
    """The first call learns numpy's array type; subclasses and the rest go on by their buffers."""
    want = sample((3, 8), np.dtype("f4"))
    glpcore.project_rows(want, unit(8), 0.7)
    mapped = np.memmap(tmp_path / "x", "f4", "w+", shape=(3, 8))
    for x in (sample((3, 8), np.dtype("f4")), mapped, np.ma.masked_array(np.zeros((3, 8), "f4"))):
        x[...] = sample((3, 8), np.dtype("f4"))
        glpcore.project_rows(x, unit(8), 0.7)
        same_bits(np.asarray(x), want)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 8), ">f4"), "x is byte-swapped float32"),
        (np.zeros((2, 8), "f8"), "x is float64"),
        (np.zeros((2, 8), "u2"), 'pass dtype="bf16"'),
        (np.zeros((2, 8), "i2"), "x is int16"),
        (np.zeros((2, 8), "O"), "x is object"),
        (np.zeros((8, 2), "f4").T, "not contiguous"),
        (np.broadcast_to(np.zeros(8, "f4"), (2, 8)), "x is read-only"),
        (np.zeros(65, "u1")[1:].view("f4").reshape(2, 8), "x is not aligned"),
        (np.zeros((), "f4"), "x has no dimension"),
    ],
    ids=["swapped", "f8", "u2", "i2", "object", "columns", "broadcast", "unaligned", "scalar"],
)
def test_plain_arrays_that_do_not_fit(x, message):
    glpcore.project_rows(np.zeros((1, 8), "f4"), unit(8), 1.0)  # numpy's type is known
    with pytest.raises((TypeError, ValueError), match=message):
        glpcore.project_rows(x, unit(8), 1.0)
