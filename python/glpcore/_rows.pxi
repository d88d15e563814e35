# Rows of hidden states: argument checks that name the problem, threads, and the call.

# ---- Threads

@cython.final
@cython.internal
cdef class _Pool:
    """The worker threads of one process."""

    cdef glpcore_pool *handle
    cdef size_t n_threads
    cdef object process

    def __cinit__(self, size_t n_threads):
        cdef glpcore_status status
        self.process = _os.getpid()
        self.n_threads = n_threads
        with nogil:
            status = glpcore_pool_create(n_threads, &self.handle)
        if status != GLPCORE_OK:
            raise RuntimeError(f"the system refuses to start {n_threads - 1} threads more")

    def __dealloc__(self):
        # Threads do not survive a fork: in a child there is nothing to end.
        if self.handle is not NULL and self.process == _os.getpid():
            glpcore_pool_free(self.handle)


cdef _Pool _pool = None
cdef object _pool_guard = object()


cdef _Pool _pool_for(size_t n_threads):
    """The process's pool, of at least so many threads. Callers keep it alive by their reference."""
    global _pool
    cdef _Pool pool
    with cython.critical_section(_pool_guard):
        pool = _pool
    if pool is not None and pool.n_threads >= n_threads and pool.process == _os.getpid():
        return pool
    pool = _Pool(n_threads)
    with cython.critical_section(_pool_guard):
        _pool = pool
    return pool


cdef _Pool _choose(size_t n_threads, glpcore_executor *own, const glpcore_executor **chosen):
    """The executor for so many threads, in *chosen; it lives as long as the pool returned."""
    cdef _Pool pool = None
    chosen[0] = NULL
    if n_threads > 1:
        pool = _pool_for(n_threads)
        own[0] = glpcore_pool_executor(pool.handle)[0]
        own.n_threads = n_threads
        chosen[0] = own
    return pool


cdef object _ONE = 1


cdef size_t _thread_count(object threads) except 0:
    cdef uint64_t n
    if threads is _ONE:
        return 1
    if threads is None:
        raise TypeError("threads must be an int, not None")
    n = _count(threads, "threads")
    if n > 1024:
        raise ValueError(f"threads must be at most 1024, not {n}")
    return <size_t>n


# ---- Numbers

cdef double _real(object value, str name) except? -1.0:
    """A finite real number."""
    cdef double number
    if type(value) is float and isfinite(<double>value):
        return value
    if isinstance(value, (bool, str)):
        raise TypeError(f"{name} must be a real number, not {type(value).__name__}")
    try:
        number = PyFloat_AsDouble(value)
    except (TypeError, RuntimeError):
        raise TypeError(f"{name} must be a real number, not {type(value).__name__}") from None
    except OverflowError:
        raise ValueError(f"{name} must be finite: it does not fit a float64") from None
    if not isfinite(number):
        raise ValueError(f"{name} must be finite, not {number}")
    return number


# ---- x: rows in place

cdef struct Rows:
    void *data
    glpcore_dtype dtype
    size_t n_rows
    size_t n_embd
    size_t stride     # in elements
    size_t itemsize


cdef int _rows_of(Rows *rows, const Array *a, object dtype) except -1:
    """`x` as equally spaced rows, whatever its leading dimensions."""
    cdef int64_t size = _itemsize(a)
    cdef int64_t n_rows = 1, stride = 0
    cdef int64_t extents[MAX_DIMS]
    cdef int64_t steps[MAX_DIMS]
    cdef int dims[MAX_DIMS]
    cdef int i, k, n = 0
    if dtype is not None and dtype != "bf16":
        raise ValueError(f'dtype must be None or "bf16" (x holds bfloat16 bits), not {dtype!r}')
    if a.kind == KIND_F32:
        rows.dtype = GLPCORE_F32
    elif a.kind == KIND_F16:
        rows.dtype = GLPCORE_F16
    elif a.kind == KIND_BF16 or dtype is not None:
        rows.dtype = GLPCORE_BF16
    else:
        raise TypeError('x is uint16: pass dtype="bf16" if it holds the bits of bfloat16')
    if dtype is not None and a.kind != KIND_U16 and a.kind != KIND_BF16:
        raise TypeError(f'x is {_name_of_kind(a.kind)}, not the uint16 that dtype="bf16" speaks of')
    if a.readonly:
        raise ValueError("x is read-only: pass a writable array, which is changed in place")
    if a.ndim == 0:
        raise ValueError("x has no dimension: its last one must be n_embd wide")
    rows.data = a.data
    rows.itemsize = size
    rows.n_embd = a.shape[a.ndim - 1]
    for i in range(a.ndim - 1):
        n_rows *= a.shape[i]
    rows.n_rows = n_rows
    rows.stride = rows.n_embd
    if n_rows == 0 or rows.n_embd == 0:
        rows.n_rows = 0
        return 0
    if <uintptr_t>a.data % size != 0:
        raise ValueError(f"x is not aligned to its {size}-byte elements: pass a copy")
    if rows.n_embd > 1 and a.strides[a.ndim - 1] != size:
        raise ValueError(
            f"the elements of x's rows are not contiguous: they lie {a.strides[a.ndim - 1]} bytes "
            f"apart, not {size}. Make the last dimension the contiguous one")
    # Leading dimensions by falling stride: a row stands alone, so their order does not matter.
    for i in range(a.ndim - 1):
        if a.shape[i] == 1:
            continue
        if a.strides[i] < 0:
            raise ValueError(
                f"dimension {i} of x has a negative stride: pass it unreversed; each row stands "
                "alone, so the result is the same")
        k = n
        while k > 0 and steps[k - 1] < a.strides[i]:
            steps[k], extents[k], dims[k] = steps[k - 1], extents[k - 1], dims[k - 1]
            k -= 1
        steps[k], extents[k], dims[k] = a.strides[i], a.shape[i], i
        n += 1
    if n == 0:
        return 0
    stride = steps[n - 1]
    if stride < <int64_t>rows.n_embd * size:
        raise ValueError(
            f"the rows of x overlap: they lie {stride} bytes apart and are "
            f"{<int64_t>rows.n_embd * size} bytes long. Pass an array that owns its rows, not a "
            "broadcast or sliding view")
    if stride % size != 0:
        raise ValueError(
            f"the rows of x lie {stride} bytes apart, which is no multiple of the element's {size}")
    for k in range(n - 1, 0, -1):
        if steps[k - 1] < steps[k] * extents[k]:
            raise ValueError(
                f"the rows of x overlap: dimension {dims[k - 1]} steps {steps[k - 1]} bytes over "
                f"{steps[k] * extents[k]} bytes of dimension {dims[k]}")
        if steps[k - 1] != steps[k] * extents[k]:
            raise ValueError(
                f"dimension {dims[k - 1]} of x cannot be joined with dimension {dims[k]}: its "
                f"stride is {steps[k - 1]} bytes, not {steps[k] * extents[k]}. Pass the parts one "
                f"by one along dimension {dims[k - 1]}, which needs no copy")
    rows.stride = <size_t>(stride // size)
    return 0


cdef str _name_of_kind(Kind kind):
    return {KIND_F32: "float32", KIND_F16: "float16", KIND_BF16: "bfloat16",
            KIND_U16: "uint16"}[kind]


# ---- v: one direction

cdef int _direction_of(const float **v, const Array *a, const Rows *rows) except -1:
    if a.kind != KIND_F32:
        raise TypeError(
            f"v is {_name_of_kind(a.kind)}, not float32: convert it with v.astype(numpy.float32)")
    if a.ndim != 1:
        raise ValueError(f"v has {a.ndim} dimensions: pass one direction, of 1")
    if <size_t>a.shape[0] != rows.n_embd:
        raise ValueError(
            f"v has {a.shape[0]} elements and the rows of x have {rows.n_embd}: they must be the "
            "same width")
    if rows.n_rows == 0:
        v[0] = NULL
        return 0
    if a.shape[0] > 1 and a.strides[0] != 4:
        raise ValueError(
            f"v is not contiguous: its elements lie {a.strides[0]} bytes apart, not 4. Pass a copy")
    if <uintptr_t>a.data % 4 != 0:
        raise ValueError("v is not aligned to its 4-byte elements: pass a copy")
    if _overlaps(rows, a.data, rows.n_embd * 4):
        raise ValueError("x and v share memory: v would change while it is read. Pass v.copy()")
    v[0] = <const float *>a.data
    return 0


cdef bint _overlaps(const Rows *rows, const char *start, size_t size) noexcept nogil:
    """Whether some row has a byte of [start, start + size). Gaps between rows do not count."""
    cdef uintptr_t x = <uintptr_t>rows.data, v = <uintptr_t>start
    cdef uintptr_t length = rows.n_embd * rows.itemsize, step = rows.stride * rows.itemsize
    cdef uintptr_t first = 0
    if x + length <= v:
        first = (v - x - length) // step + 1  # the first row that ends after v's start
    return first < rows.n_rows and x + first * step < v + size


# ---- The calls

# Work of fewer bytes is done before another thread could have taken the GIL.
cdef enum:
    BRIEF = 32768


cdef int _run(unsigned flags, const Rows *rows, const float *const *d, const double *scales,
              size_t k, size_t n_threads, str names) except -1:
    cdef glpcore_status status
    cdef _Pool pool
    cdef glpcore_executor own
    cdef const glpcore_executor *executor = NULL
    if n_threads == 1 and rows.n_rows <= BRIEF // (rows.n_embd * rows.itemsize * k):
        status = glpcore_rows_run(glpcore_cpu(), flags, rows.data, rows.dtype, rows.n_rows,
                                  rows.n_embd, rows.stride, d, scales, k, NULL)
    else:
        pool = _choose(n_threads, &own, &executor)
        with nogil:
            status = glpcore_rows_run(glpcore_cpu(), flags, rows.data, rows.dtype, rows.n_rows,
                                      rows.n_embd, rows.stride, d, scales, k, executor)
    if status == GLPCORE_REFUSED:
        raise ValueError(f"{names} a NaN or an infinity; x is untouched")
    return _check(status, NULL, NULL, None) if status != GLPCORE_OK else 0


cdef int _apply(unsigned flags, object x, object v, object scale, object threads,
                object dtype) except -1:
    cdef double factor = _real(scale, "scale")
    cdef size_t n_threads = _thread_count(threads)
    cdef Array ax
    cdef Array av
    cdef Rows rows
    cdef const float *direction
    _take(&ax, x, "x")
    try:
        _rows_of(&rows, &ax, dtype)
        _take(&av, v, "v")
        try:
            _direction_of(&direction, &av, &rows)
            if rows.n_rows > 0:
                _run(flags | GLPCORE_ROWS_FINITE, &rows, &direction, &factor, 1, n_threads,
                     "v holds")
        finally:
            _release(&av)
    finally:
        _release(&ax)
    return 0


def project_rows(x, v, scale, *, threads=1, dtype=None):
    """For each row of x: x <- x - scale * (v . x) * v, in place.

    x: (..., n_embd) of float32, float16 or bfloat16: a writable numpy or ml_dtypes array, torch
        tensor on the processor, or anything else with the buffer protocol or DLPack. The elements
        of a row are contiguous; the rows are equally spaced, in whatever order of dimensions.
    v: (n_embd,) of float32, contiguous, not part of x.
    scale: a finite real number; 0 leaves x as it is and does not read v.
    threads: at most so many, worker threads of this process included.
    dtype: "bf16" when x is uint16 holding the bits of bfloat16.

    Each row's bits are the same whatever the other rows, the stride, the threads and the processor
    are. An index list (`x[[0, 2]]`) makes a copy, whose change is lost; pass a slice.

    TypeError or ValueError, naming what is wrong, before x is touched.
    """
    _apply(0, x, v, scale, threads, dtype)


def project_rows_k(x, directions, alphas, *, threads=1, dtype=None):
    """For each row of x: x <- x - sum_j alphas[j] (d_j . x) d_j, in place.

    Every dot is taken from the incoming row, so the directions should be orthonormal. directions:
    (k, n_embd) of float32 whose rows are contiguous, k at most 256. alphas: k finite numbers. x,
    threads and dtype as for `project_rows`.
    """
    cdef size_t n_threads = _thread_count(threads)
    cdef const float *pointers[GLPCORE_MAX_RANK]
    cdef double scales[GLPCORE_MAX_RANK]
    cdef Array ax
    cdef Array ad
    cdef Rows rows
    cdef size_t j, k
    alphas = [_real(alpha, "alphas") for alpha in alphas]
    k = len(alphas)
    if k > GLPCORE_MAX_RANK:
        raise ValueError(f"there are {k} directions; at most {GLPCORE_MAX_RANK} are supported")
    _take(&ax, x, "x")
    try:
        _rows_of(&rows, &ax, dtype)
        _take(&ad, directions, "directions")
        try:
            if ad.ndim != 2 or <size_t>ad.shape[0] != k:
                raise ValueError(f"directions must have 2 dimensions and {k} rows, as alphas has")
            ad.ndim = 1
            ad.shape[0], ad.shape[1] = ad.shape[1], ad.shape[0]
            ad.strides[0], ad.strides[1] = ad.strides[1], ad.strides[0]
            for j in range(k):
                scales[j] = alphas[j]
                _direction_of(&pointers[j], &ad, &rows)
                ad.data += ad.strides[1]
            if rows.n_rows > 0 and k > 0:
                _run(GLPCORE_ROWS_FINITE, &rows, pointers, scales, k, n_threads,
                     "directions hold")
        finally:
            _release(&ad)
    finally:
        _release(&ax)


def add_rows(x, v, scale, *, threads=1, dtype=None):
    """For each row of x: x <- x + scale * v, in place. Arguments as for `project_rows`."""
    _apply(GLPCORE_ROWS_ADD, x, v, scale, threads, dtype)
