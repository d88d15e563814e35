# Vector: a file accepted for a stated use.

@cython.final
@cython.internal
@cython.no_gc
cdef class _View:
    """Read-only float32 memory of a vector, as an exporter of the buffer protocol."""

    cdef Vector vector
    cdef const float *data
    cdef int ndim
    cdef Py_ssize_t shape[2]
    cdef Py_ssize_t strides[2]

    def __cinit__(self, Vector vector not None):
        self.vector = vector
        vector._file._hold(0, 1)

    def __dealloc__(self):
        self.vector._file._hold(0, -1)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        cdef bint contiguous = self.ndim == 1 or self.strides[0] == self.strides[1] * self.shape[1]
        if flags & PyBUF_WRITABLE:
            raise BufferError("a vector is read-only")
        if not contiguous and ((flags & PyBUF_STRIDES) != PyBUF_STRIDES
                               or (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS
                               or (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS):
            raise BufferError("the directions of this layer are not contiguous")
        if self.ndim == 2 and (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS:
            raise BufferError("the directions of a layer are in C order")
        buffer.buf = <void *>self.data
        buffer.obj = self
        buffer.itemsize = sizeof(float)
        buffer.len = sizeof(float) * self.shape[0] * (self.shape[1] if self.ndim == 2 else 1)
        buffer.readonly = True
        buffer.ndim = self.ndim
        buffer.format = NULL
        if flags & PyBUF_FORMAT:
            buffer.format = b"f"
        buffer.shape = self.shape if flags & PyBUF_ND else NULL
        buffer.strides = self.strides if (flags & PyBUF_STRIDES) == PyBUF_STRIDES else NULL
        buffer.suboffsets = NULL
        buffer.internal = NULL


_numpy = None


cdef object _import_numpy():
    """numpy, which only functions that return arrays need."""
    global _numpy
    if _numpy is None:
        import numpy
        _numpy = numpy
    return _numpy


cdef uint32_t _layer_number(object layer, str name) except? 0:
    """An int as a layer; what cannot be one is UINT32_MAX, which no file has."""
    if isinstance(layer, bool):
        raise TypeError(f"{name} must be an int, not bool")
    try:
        number = _index(layer)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(layer).__name__}") from None
    return number if 0 <= number < UINT32_MAX else UINT32_MAX


cdef str _ranges(object numbers):
    """(1, 2, 3, 7) -> "1-3, 7"."""
    cdef list parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join([f"{a}-{b}" if a != b else f"{a}" for a, b in parts])


cdef Vector _new_vector(File file, glpcore_vector *handle, list findings, uint64_t n_layers):
    """Takes over the handle."""
    cdef Vector vector
    try:
        vector = Vector.__new__(Vector, _KEY)
    except BaseException:
        glpcore_vector_free(handle)
        raise
    vector._handle = handle
    vector._file = file
    vector._findings = findings
    vector._n_rows = n_layers
    file._hold(1, 0)
    vector._info.struct_size = sizeof(vector._info)
    glpcore_vector_info_get(handle, &vector._info)
    vector.layers = tuple([glpcore_vector_layer(handle, i) for i in range(vector._info.n_layers)])
    return vector


@cython.final
@cython.no_gc
cdef class Vector:
    """A file accepted for a stated use. Made by `glpcore.load` or `File.accept`.

    A mapping from layers to directions: `vec[layer]` is a read-only float32 array over the file's
    own memory, (n_embd,), or (rank, n_embd) when the rank is above 1. Immutable: threads may
    share it. With structure "per-execution-step" read "step" for "layer" throughout.

    layers: the layers that carry directions, ascending.
    """

    cdef glpcore_vector *_handle
    cdef glpcore_vector_info _info
    cdef File _file
    cdef list _findings
    cdef uint64_t _n_rows      # the target's n_layers, 0 when it was not stated
    cdef readonly tuple layers
    cdef object __weakref__

    def __cinit__(self, key=None):
        if key is not _KEY:
            raise TypeError("make a Vector with glpcore.load() or File.accept()")

    def __dealloc__(self):
        glpcore_vector_free(self._handle)
        if self._handle is not NULL:
            self._file._hold(-1, 0)

    def __reduce__(self):
        raise TypeError("a Vector belongs to an open file and cannot be copied: load it again")

    def __repr__(self):
        return (f"<glpcore.Vector {self._file.name!r}: {self.mode} at {self.hook}, layers "
                f"{_ranges(self.layers)}, rank {self.rank}, n_embd {self.n_embd}>")

    # ---- What it is

    @property
    def mode(self):
        """`"project"` or `"add"`."""
        return _name_of_mode(self._info.mode)

    @property
    def hook(self):
        """Where in a layer it is applied, such as `"ffn_out_pre_residual"`."""
        return _name_of_hook(self._info.hook)

    @property
    def structure(self):
        """What is counted: `"per-layer"` or `"per-execution-step"`."""
        return _name_of_structure(self._info.structure)

    @property
    def n_embd(self):
        """Elements in a direction."""
        return self._info.n_embd

    @property
    def rank(self):
        """Directions in a layer."""
        return self._info.rank

    @property
    def findings(self):
        """The warnings that came with the acceptance: a new list."""
        return list(self._findings)

    @property
    def n_renormalised(self):
        """Directions that were scaled to norm 1 in a private copy."""
        return self._info.n_renormalised

    @property
    def file(self):
        """The `File` it was accepted from."""
        return self._file

    # ---- Its directions

    cdef _View _view_of(self, uint32_t layer, uint32_t j):
        cdef const float *data = glpcore_direction(self._handle, layer, j)
        cdef _View view
        if data is NULL:
            return None
        view = _View.__new__(_View, self)
        view.data = data
        view.ndim = 1
        view.shape[0] = <Py_ssize_t>self._info.n_embd
        view.strides[0] = sizeof(float)
        return view

    cdef object _missing(self, object layer):
        return KeyError(f"layer {layer} is not steered; steered are {_ranges(self.layers)}")

    def __getitem__(self, layer):
        cdef uint32_t number = _layer_number(layer, "layer")
        cdef _View view = self._view_of(number, 0)
        cdef Py_ssize_t rank = self._info.rank, step
        cdef const char *start
        cdef Py_ssize_t j
        if view is None:
            raise self._missing(layer)
        numpy = _import_numpy()
        if rank == 1:
            return numpy.asarray(view)
        start = <const char *>view.data
        step = <const char *>glpcore_direction(self._handle, number, 1) - start
        for j in range(2, rank):
            if <const char *>glpcore_direction(self._handle, number, j) - start != j * step:
                copy = numpy.stack([self.direction(layer, k) for k in range(rank)])
                copy.setflags(write=False)
                return copy
        view.ndim = 2
        view.shape[0], view.shape[1] = rank, <Py_ssize_t>self._info.n_embd
        view.strides[0], view.strides[1] = step, sizeof(float)
        return numpy.asarray(view)

    def direction(self, layer, j=0):
        """Direction j of a layer: a read-only (n_embd,) float32 array, never a copy.

        KeyError for a layer that is not steered, IndexError for a j outside 0 .. rank-1.
        """
        cdef uint32_t number = _layer_number(layer, "layer")
        cdef _View view = self._view_of(number, self._check_j(j))
        if view is None:
            raise self._missing(layer)
        return _import_numpy().asarray(view)

    cdef uint32_t _check_j(self, object j) except? 0:
        cdef uint32_t number = _layer_number(j, "j")
        if number >= self._info.rank:
            raise IndexError(f"direction {j} is not one of the {self._info.rank} of a layer")
        return number

    def __len__(self):
        return len(self.layers)

    def __iter__(self):
        return iter(self.layers)

    def __contains__(self, layer):
        try:
            return glpcore_direction(self._handle, _layer_number(layer, "layer"), 0) is not NULL
        except TypeError:
            return False

    # ---- Its strengths

    def strength(self, layer, j=0, *, alpha=None, fallback=None):
        """How strongly direction j of a layer is applied: `Strength(alpha, adopted)`.

        The choice is alpha when given; else the file's own default, only if the vector was loaded
        for a named hook that is the file's; else fallback; else RefusedError `alpha-missing`. It
        is multiplied by the file's scales for the direction and the layer. 0 is a strength.
        """
        cdef glpcore_strength wishes
        cdef double chosen
        cdef bint adopted
        _wishes(&wishes, alpha, fallback)
        adopted = self._alpha(layer, self._check_j(j), &wishes, &chosen)
        return Strength(chosen, adopted)

    def alpha(self, layer, j=0, *, alpha=None, fallback=None):
        """The number of `strength`."""
        return self.strength(layer, j, alpha=alpha, fallback=fallback).alpha

    def adopted(self, *, alpha=None, fallback=None):
        """Whether the strength is the file's own default (see `strength`)."""
        return self.strength(self.layers[0], alpha=alpha, fallback=fallback).adopted

    cdef bint _alpha(self, object layer, uint32_t j, const glpcore_strength *wishes,
                     double *chosen) except -1:
        cdef char message[MESSAGE_SIZE]
        cdef int adopted = 0
        cdef uint32_t number = _layer_number(layer, "layer")
        if glpcore_direction(self._handle, number, j) is NULL:
            raise self._missing(layer)
        message[0] = 0
        _check(glpcore_alpha(self._handle, number, j, wishes, chosen, &adopted, message,
                             MESSAGE_SIZE), NULL, message, None)
        return adopted != 0

    def dense(self, n_layers=None, *, alpha=None, fallback=None, alphas=None):
        """A new (n_layers, n_embd) float32 table, row = layer; rows not steered are zero.

        With structure "per-execution-step" the row is step - 1.
        n_layers: by default what was stated when loading, else up to the last layer.
        alphas: a writable float64 array of n_layers, which gets the strength of every row (0 where
            nothing is steered), resolved as in `strength`. A file with per-layer strengths needs
            it (RefusedError `scales`). Rank above 1 has no such table (RefusedError `rank`).
        """
        cdef glpcore_strength wishes
        cdef glpcore_status status
        cdef Py_buffer table
        cdef Py_buffer strengths
        cdef double *c_alphas = NULL
        cdef char message[MESSAGE_SIZE]
        cdef size_t n_rows = <size_t>_count(n_layers, "n_layers")
        cdef size_t least = self._info.layer_max
        if self._info.structure != GLPCORE_STRUCTURE_PER_EXECUTION_STEP:
            least += 1
        if n_rows == 0:
            n_rows = <size_t>self._n_rows if self._n_rows != 0 else least
        if n_rows < least:
            raise ValueError(
                f"a table of {n_rows} rows does not reach the last layer: {least} are needed")
        _wishes(&wishes, alpha, fallback)
        result = _import_numpy().empty((n_rows, self.n_embd), "float32")
        if alphas is not None:
            try:
                PyObject_GetBuffer(alphas, &strengths,
                                   PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)
            except (BufferError, ValueError, TypeError) as error:
                raise TypeError(
                    f"alphas must be a writable, contiguous float64 array: {error}") from None
        try:
            if alphas is not None:
                if (strengths.format is NULL or strengths.format != b"d"
                        or strengths.ndim != 1 or <size_t>strengths.shape[0] != n_rows):
                    raise ValueError(f"alphas must be {n_rows} float64 numbers in one dimension")
                c_alphas = <double *>strengths.buf
            PyObject_GetBuffer(result, &table, PyBUF_WRITABLE)
            message[0] = 0
            with nogil:
                status = glpcore_fill_dense(self._handle, <float *>table.buf, n_rows,
                                            <size_t>self._info.n_embd, &wishes, c_alphas, message,
                                            MESSAGE_SIZE)
            PyBuffer_Release(&table)
        finally:
            if alphas is not None:
                PyBuffer_Release(&strengths)
        _check(status, NULL, message, None)
        return result

    # ---- Applying it

    def at(self, layer, *, alpha=None, fallback=None):
        """A `PreparedLayer`: the layer's directions and their strengths, looked up once.

        alpha and fallback as for `strength`. KeyError for a layer that is not steered.
        """
        cdef glpcore_strength wishes
        cdef PreparedLayer prepared = PreparedLayer.__new__(PreparedLayer, _KEY)
        cdef uint32_t j
        cdef double strength
        cdef list strengths = []
        _wishes(&wishes, alpha, fallback)
        prepared._allocate(self)
        for j in range(self._info.rank):
            self._alpha(layer, j, &wishes, &strength)
            prepared._alphas[j] = strength
            prepared._directions[j] = glpcore_direction(self._handle, _layer_number(layer, "layer"),
                                                        j)
            strengths.append(strength)
        prepared.layer = _index(layer)
        prepared.alphas = tuple(strengths)
        return prepared

    def project(self, x, layer, *, alpha=None, fallback=None, threads=1, dtype=None):
        """Projects the layer's directions out of x, in place, and returns x.

        For each row: x <- x - sum_j alpha_j (d_j . x) d_j, with every dot taken from the incoming
        row. x, threads and dtype as for `glpcore.project_rows`; alpha and fallback as for
        `strength`. A layer that is not steered leaves x as it is.

        RefusedError `mode-mismatch` for an additive vector.
        """
        self._require(GLPCORE_MODE_PROJECT)
        self._apply(x, layer, alpha, fallback, threads, dtype)
        return x

    def add(self, x, layer, *, alpha=None, fallback=None, threads=1, dtype=None):
        """Adds the layer's directions to x, in place, and returns x: x <- x + sum_j alpha_j d_j.

        Arguments as for `project`. RefusedError `mode-mismatch` for a projecting vector.
        """
        self._require(GLPCORE_MODE_ADD)
        self._apply(x, layer, alpha, fallback, threads, dtype)
        return x

    cdef int _require(self, glpcore_mode asked) except -1:
        if self._info.mode == asked:
            return 0
        name = _name_of_mode(asked)
        message = f"Use {self.mode}() with this vector. Its mode is {self.mode}, not {name}."
        findings = [Finding("mode-mismatch", "refusal", message)]
        raise RefusedError(summary(findings), findings)

    cdef int _apply(self, object x, object layer, object alpha, object fallback, object threads,
                    object dtype) except -1:
        cdef glpcore_strength wishes
        cdef uint32_t number = _layer_number(layer, "layer")
        cdef uint32_t j
        cdef const float *directions[GLPCORE_MAX_RANK]
        cdef double alphas[GLPCORE_MAX_RANK]
        _wishes(&wishes, alpha, fallback)
        directions[0] = glpcore_direction(self._handle, number, 0)
        for j in range(self._info.rank if directions[0] is not NULL else 0):
            directions[j] = glpcore_direction(self._handle, number, j)
            self._alpha(layer, j, &wishes, &alphas[j])
        return self._steer(x, directions, alphas, threads, dtype)

    cdef int _steer(self, object x, const float *const *directions, const double *alphas,
                    object threads, object dtype) except -1:
        """With directions[0] NULL x is only looked at."""
        cdef size_t n_threads = _thread_count(threads)
        cdef uint32_t j
        cdef Array array
        cdef Rows rows
        _take(&array, x, "x")
        try:
            _rows_of(&rows, &array, dtype)
            if rows.n_embd != self._info.n_embd:
                raise ValueError(
                    f"the rows of x have {rows.n_embd} elements and the vector has "
                    f"{self._info.n_embd}: they must be the same width")
            if directions[0] is NULL or rows.n_rows == 0:
                return 0
            if self._info.mode == GLPCORE_MODE_PROJECT:
                return _run(0, &rows, directions, alphas, self._info.rank, n_threads, None)
            for j in range(self._info.rank):
                _run(GLPCORE_ROWS_ADD, &rows, directions + j, alphas + j, 1, n_threads, None)
        finally:
            _release(&array)
        return 0


@cython.final
@cython.no_gc
cdef class PreparedLayer:
    """One layer of a `Vector`, ready to be applied again and again. Made by `Vector.at`.

    Immutable; keeps the vector and its file open. layer: its number. alphas: the strength of each
    direction.
    """

    cdef Vector _vector
    cdef const float **_directions
    cdef double *_alphas
    cdef readonly object layer
    cdef readonly tuple alphas

    def __cinit__(self, key=None):
        if key is not _KEY:
            raise TypeError("make a PreparedLayer with Vector.at()")

    cdef int _allocate(self, Vector vector) except -1:
        self._directions = <const float **>malloc(vector._info.rank * sizeof(void *))
        self._alphas = <double *>malloc(vector._info.rank * sizeof(double))
        if self._directions is NULL or self._alphas is NULL:
            raise MemoryError()
        self._vector = vector
        return 0

    def __dealloc__(self):
        free(self._directions)
        free(self._alphas)

    def __reduce__(self):
        raise TypeError("a PreparedLayer belongs to an open file and cannot be copied")

    def __repr__(self):
        return f"<glpcore.PreparedLayer {self.layer} of {self._vector!r}>"

    @property
    def vector(self):
        """The `Vector` it was made from."""
        return self._vector

    def project(self, x, *, threads=1, dtype=None):
        """`Vector.project` for this layer and these strengths; returns x."""
        self._vector._require(GLPCORE_MODE_PROJECT)
        self._vector._steer(x, self._directions, self._alphas, threads, dtype)
        return x

    def add(self, x, *, threads=1, dtype=None):
        """`Vector.add` for this layer and these strengths; returns x."""
        self._vector._require(GLPCORE_MODE_ADD)
        self._vector._steer(x, self._directions, self._alphas, threads, dtype)
        return x


cdef int _wishes(glpcore_strength *wishes, object alpha, object fallback) except -1:
    memset(wishes, 0, sizeof(wishes[0]))
    wishes.struct_size = sizeof(wishes[0])
    if alpha is not None:
        wishes.has_alpha = True
        wishes.alpha = _real(alpha, "alpha")
    if fallback is not None:
        wishes.has_fallback = True
        wishes.fallback = _real(fallback, "fallback")
    return 0
