# File: what can be described and judged, but not applied.

# Files and vectors come from this module alone; a handle made by hand would be empty.
cdef object _KEY = object()


# No part in cycle collection: File is in no cycle, and a memoryview that is collected together with
# the holder of its buffer is cleared first, after which releasing the buffer crashes CPython 3.11.
@cython.final
@cython.no_gc
cdef class File:
    """A sound GGUF file, or a headerless `.f32` whose shape was stated. Made by `glpcore.open`.

    It can be described, listed and judged; `accept` makes the `Vector` that can be applied. A
    context manager. Immutable: threads may share it.

    name: the path as text, or None for bytes without one.
    """

    cdef glpcore_file *_handle
    cdef Py_buffer *_buffer     # the bytes of an in-memory file, or NULL
    cdef size_t _n_vectors, _n_views, _n_calls  # what stands in the way of closing
    cdef list _findings         # its own judgement, once asked for
    cdef readonly object name
    cdef object __weakref__

    def __cinit__(self, key=None):
        if key is not _KEY:
            raise TypeError("make a File with glpcore.open()")

    def __dealloc__(self):
        # Nothing else can be alive: vectors and views hold the file.
        glpcore_close(self._handle)
        self._release_buffer()

    # ---- Life

    cdef const glpcore_file *_enter(self) except NULL:
        """The handle, which stays open until _leave."""
        cdef const glpcore_file *handle
        with cython.critical_section(self):
            handle = self._handle
            if handle is not NULL:
                self._n_calls += 1
        if handle is NULL:
            raise ValueError("the file is closed")
        return handle

    cdef void _leave(self) noexcept:
        with cython.critical_section(self):
            self._n_calls -= 1

    cdef void _release_buffer(self) noexcept:
        cdef Py_buffer *buffer = self._buffer
        self._buffer = NULL
        if buffer is not NULL:
            PyBuffer_Release(buffer)
            free(buffer)

    cdef void _hold(self, int vectors, int views) noexcept:
        with cython.critical_section(self):
            self._n_vectors += vectors
            self._n_views += views

    @property
    def closed(self):
        """Whether `close` has succeeded."""
        cdef bint closed
        with cython.critical_section(self):
            closed = self._handle is NULL
        return closed

    def close(self):
        """Unmaps the file. Closing twice is fine.

        BufferError, with everything left usable, while vectors accepted from it or arrays that
        view it are alive.
        """
        cdef glpcore_file *handle = NULL
        cdef size_t vectors, views, calls
        with cython.critical_section(self):
            vectors, views, calls = self._n_vectors, self._n_views, self._n_calls
            if vectors + views + calls == 0:
                handle, self._handle = self._handle, NULL
        if vectors + views + calls != 0:
            raise BufferError(
                f"let go of what still uses the file first: {vectors} vector(s), {views} view(s) "
                f"and {calls} running call(s)")
        if handle is NULL:
            return
        with nogil:
            glpcore_close(handle)
        self._release_buffer()

    def __enter__(self):
        if self.closed:
            raise ValueError("the file is closed")
        return self

    def __exit__(self, kind, error, traceback):
        try:
            self.close()
        except BufferError:
            # The frames of an exception on its way hold the vectors; it matters more than they do.
            if kind is None:
                raise

    def __reduce__(self):
        raise TypeError("a File is an open file and cannot be copied: open it again")

    def __repr__(self):
        return f"<glpcore.File {self.name!r}{', closed' if self.closed else ''}>"

    # ---- What it says

    @property
    def info(self):
        """What the file says of itself (`Info`), not judged."""
        cdef glpcore_info c
        cdef glpcore_status status
        cdef const glpcore_file *handle = self._enter()
        try:
            c.struct_size = sizeof(c)
            with nogil:
                status = glpcore_info_get(handle, &c)
            _check(status, NULL, NULL, None)
            return Info(
                c.raw != 0, c.file_size, _name_of_mode(c.mode), c.mode_declared != 0,
                _text(c.mode_text), c.spec_version, c.spec_version_declared != 0,
                _name_of_hook(c.hook), _text(c.hook_text), _text(c.derived_at),
                c.transferred != 0, _name_of_structure(c.structure), _text(c.structure_text),
                c.alpha if c.has_alpha else None, c.rank, c.has_dir_scales != 0,
                c.has_layer_scales != 0, c.n_embd, c.n_directions, c.n_layers, c.layer_min,
                c.layer_max, c.norm_min, c.norm_max, _text(c.base_name),
                _text(c.base_organization), _text(c.base_revision), _text(c.base_url),
                _text(c.method), _text(c.contrast), _text(c.created), _text(c.generator),
                _text(c.content_sha256), _text(c.name), _text(c.model_hint),
            )
        finally:
            self._leave()

    @property
    def size(self):
        """Bytes in the file."""
        return self.info.file_size

    @property
    def metadata(self):
        """The key-values: a read-only mapping whose values are decoded when asked for."""
        from ._metadata import Metadata
        return Metadata(self)

    def _kv_count(self):
        cdef const glpcore_file *handle = self._enter()
        try:
            return glpcore_kv_count(handle)
        finally:
            self._leave()

    def _kv_keys(self):
        """Every key, in the file's order."""
        cdef glpcore_kv kv
        cdef size_t i
        cdef list keys = []
        cdef const glpcore_file *handle = self._enter()
        try:
            kv.struct_size = sizeof(kv)
            for i in range(glpcore_kv_count(handle)):
                glpcore_kv_at(handle, i, &kv)
                keys.append(_text(kv.key))
            return keys
        finally:
            self._leave()

    def _kv_find(self, str key):
        """(GGUF type, encoded value), or None."""
        cdef glpcore_kv kv
        cdef bytes name = key.encode("utf-8", "surrogatepass")  # not UTF-8: no key is that
        cdef const glpcore_file *handle = self._enter()
        try:
            kv.struct_size = sizeof(kv)
            if glpcore_kv_find(handle, PyBytes_AsString(name), len(name), &kv) != GLPCORE_OK:
                return None
            return kv.type, (<const char *>kv.value)[:kv.value_size]
        finally:
            self._leave()

    @property
    def tensors(self):
        """The tensor table: a tuple of `Tensor`, in the file's order."""
        cdef glpcore_tensor t
        cdef size_t i
        cdef list tensors = []
        cdef const glpcore_file *handle = self._enter()
        try:
            t.struct_size = sizeof(t)
            for i in range(glpcore_tensor_count(handle)):
                glpcore_tensor_at(handle, i, &t)
                shape = tuple([t.dims[k] for k in range(t.n_dims)])
                tensors.append(Tensor(_text(t.name), shape, t.type, t.offset, t.n_bytes))
            return tuple(tensors)
        finally:
            self._leave()

    @property
    def directions(self):
        """The sound directions (`Payload`) by (layer, j): the order of the content hash."""
        cdef glpcore_payload p
        cdef glpcore_status status
        cdef size_t i = 0
        cdef list directions = []
        cdef const glpcore_file *handle = self._enter()
        try:
            p.struct_size = sizeof(p)
            while True:
                with nogil:  # it reads the direction for its norm
                    status = glpcore_payload_at(handle, i, &p)
                if status != GLPCORE_OK:
                    return tuple(directions)
                cosine = None if isnan(p.cosine) else p.cosine
                directions.append(Payload(p.layer, p.j, p.norm, p.offset, cosine))
                i += 1
        finally:
            self._leave()

    @property
    def layers(self):
        """The layers that carry directions, ascending."""
        return tuple(dict.fromkeys([p.layer for p in self.directions]))

    # ---- What is thought of it

    @property
    def findings(self):
        """The findings by the file's own declared mode, hook and structure: a new list."""
        cdef list findings
        with cython.critical_section(self):
            findings = self._findings
        if findings is None:
            findings = self._judge(None)
            with cython.critical_section(self):
                self._findings = findings
        return list(findings)

    @property
    def verdict(self):
        """`"applicable"` or `"refused"`, by `findings`."""
        refusals = [f for f in self.findings if f.severity != "warning"]
        return "refused" if refusals else "applicable"

    cdef list _judge(self, _Target target):
        cdef const glpcore_target *c = NULL if target is None else &target.c
        cdef glpcore_report *report = NULL
        cdef glpcore_status status
        cdef char message[MESSAGE_SIZE]
        cdef const glpcore_file *handle = self._enter()
        try:
            message[0] = 0
            with nogil:
                status = glpcore_judge(handle, c, &report, message, MESSAGE_SIZE)
            if status != GLPCORE_REFUSED:
                _check(status, report, message, self.name)
            return _findings_of(report)
        finally:
            glpcore_report_free(report)
            self._leave()

    def judge(self, *, mode="project", hook=None, n_embd=None, n_layers=None, base=None,
              base_revision=None, model=None, structure=None, allow_hook_mismatch=False,
              allow_base_mismatch=False, renormalise=False, verify_hash=True):
        """Every finding for a stated use (see `glpcore.load`), without accepting.

        The file may be used so when none of them has a severity other than "warning".
        """
        return self._judge(_make_target(
            mode, hook, n_embd, n_layers, base, base_revision, model, structure,
            allow_hook_mismatch, allow_base_mismatch, renormalise, verify_hash))

    def accept(self, *, mode="project", hook=None, n_embd=None, n_layers=None, base=None,
               base_revision=None, model=None, structure=None, allow_hook_mismatch=False,
               allow_base_mismatch=False, renormalise=False, verify_hash=True):
        """The `Vector` for a stated use (see `glpcore.load`); RefusedError with every reason."""
        cdef _Target target = _make_target(
            mode, hook, n_embd, n_layers, base, base_revision, model, structure,
            allow_hook_mismatch, allow_base_mismatch, renormalise, verify_hash)
        cdef glpcore_vector *vector = NULL
        cdef glpcore_report *report = NULL
        cdef glpcore_status status
        cdef char message[MESSAGE_SIZE]
        cdef const glpcore_file *handle = self._enter()
        try:
            message[0] = 0
            with nogil:
                status = glpcore_accept(handle, &target.c, &vector, &report, message,
                                        MESSAGE_SIZE)
            _check(status, report, message, self.name)
            return _new_vector(self, vector, _findings_of(report), target.c.n_layers)
        finally:
            glpcore_report_free(report)
            self._leave()

    def table(self):
        """A tuple of `Row`, one for each sound direction: what `describe(layers=True)` shows.

        The strength is the file's own: None unless the file is applicable and has one, and where
        the file's scales take it beyond float64, which nothing can apply.
        """
        directions, info = self.directions, self.info
        try:
            vector = self.accept(
                mode=info.mode, verify_hash=False, allow_hook_mismatch=True,
                structure=info.structure if info.structure in _STRUCTURES else None)
        except RefusedError:
            vector = None
        return tuple([
            Row(p.layer, p.j, p.norm, p.cosine,
                None if vector is None or info.alpha is None
                else _alpha_or_none(vector, p.layer, p.j, info.alpha))
            for p in directions
        ])

    def describe(self, layers=False, findings=None, *, name=None):
        """The text that every front end prints: the verdict, then a line for each fact.

        layers: add a table of norms, cosines and strengths.
        findings: the judgement to print the verdict of, as `judge` returns it; by default the
            file's own.
        name: what to call the file; by default its own name.
        """
        cdef glpcore_report *report = NULL
        cdef unsigned flags = GLPCORE_DESCRIBE_LAYERS if layers else 0
        cdef size_t size, needed = 4095
        cdef char *text = NULL
        cdef const char *c_name = NULL
        cdef bytes encoded
        name = self.name if name is None else name
        if name is not None:
            encoded = _os.fsencode(name)
            c_name = PyBytes_AsString(encoded)
        findings = self.findings if findings is None else findings
        cdef const glpcore_file *handle = self._enter()
        try:
            report = _report_from(findings)
            while True:
                size = needed + 1
                free(text)
                text = <char *>malloc(size)
                if text is NULL:
                    raise MemoryError()
                with nogil:
                    needed = glpcore_describe(handle, report, c_name, flags, text, size)
                if needed < size:
                    return text[:needed].decode("utf-8", "backslashreplace")
        finally:
            free(text)
            glpcore_report_free(report)
            self._leave()


cdef object _alpha_or_none(object vector, object layer, object j, double alpha):
    try:
        return vector.alpha(layer, j, alpha=alpha)
    except ValueError:  # it overflows: alpha is finite and the direction is there
        return None


# ---- Opening

cdef int _set_options(glpcore_open_options *options, uint64_t max_bytes, bint read,
                      bint copy) except -1:
    memset(options, 0, sizeof(options[0]))
    options.struct_size = sizeof(options[0])
    options.max_bytes = max_bytes
    options.read = read
    options.copy = copy
    return 0


cdef int _finish_open(glpcore_status status, glpcore_report *report, const char *message,
                      object filename) except -1:
    try:
        _check(status, report, message, filename)
    finally:
        glpcore_report_free(report)
    return 0


def open_path(bytes path, name, size_t n_layers, size_t n_embd, uint64_t max_bytes, bint read):
    """A File of a path; of a raw one when n_embd is not 0. `name` is what was asked for."""
    cdef File file = File.__new__(File, _KEY)
    cdef glpcore_open_options options
    cdef glpcore_report *report = NULL
    cdef glpcore_status status
    cdef char message[MESSAGE_SIZE]
    cdef const char *c_path = PyBytes_AsString(path)
    message[0] = 0
    _set_options(&options, max_bytes, read, False)
    with nogil:
        if n_embd != 0:
            status = glpcore_open_raw(c_path, n_layers, n_embd, &options, &file._handle, &report,
                                      message, MESSAGE_SIZE)
        else:
            status = glpcore_open(c_path, &options, &file._handle, &report, message,
                                  MESSAGE_SIZE)
    _finish_open(status, report, message, name)
    file.name = _os.fsdecode(path)
    return file


def open_buffer(source, name, size_t n_layers, size_t n_embd, uint64_t max_bytes):
    """A File of contiguous bytes: used in place when read-only, else copied."""
    cdef File file = File.__new__(File, _KEY)
    cdef glpcore_open_options options
    cdef glpcore_report *report = NULL
    cdef glpcore_status status
    cdef char message[MESSAGE_SIZE]
    cdef const char *c_name = NULL
    cdef bytes encoded
    if name is not None:
        encoded = _os.fsencode(name)
        c_name = PyBytes_AsString(encoded)
    cdef Py_buffer *buffer = <Py_buffer *>malloc(sizeof(Py_buffer))
    if buffer is NULL:
        raise MemoryError()
    try:
        PyObject_GetBuffer(source, buffer, PyBUF_SIMPLE)
    except BaseException as error:
        free(buffer)
        if isinstance(error, BufferError):
            raise ValueError(f"pass contiguous bytes: {error}") from None
        raise
    file._buffer = buffer
    message[0] = 0
    _set_options(&options, max_bytes, False, not buffer.readonly)
    with nogil:
        if n_embd != 0:
            status = glpcore_open_raw_memory(
                buffer.buf, <size_t>buffer.len, c_name, n_layers, n_embd, &options,
                &file._handle, &report, message, MESSAGE_SIZE)
        else:
            status = glpcore_open_memory(
                buffer.buf, <size_t>buffer.len, c_name, &options, &file._handle,
                &report, message, MESSAGE_SIZE)
    _finish_open(status, report, message, name)
    file.name = name
    if options.copy:
        file._release_buffer()
    return file
