# Arrays that come in: the buffer protocol and DLPack, down to a pointer, a dtype and strides.

cdef enum:
    MAX_DIMS = 64  # numpy's own bound

cdef enum Kind:
    KIND_F32
    KIND_F16
    KIND_BF16
    KIND_U16
    KIND_OTHER

cdef struct Array:
    char *data
    int ndim
    Kind kind
    bint readonly
    int64_t shape[MAX_DIMS]
    int64_t strides[MAX_DIMS]  # in bytes
    bint has_buffer
    Py_buffer buffer
    void *owner                # a reference that keeps `data` alive, or NULL


cdef void _release(Array *a) noexcept:
    if a.has_buffer:
        PyBuffer_Release(&a.buffer)
        a.has_buffer = False
    if a.owner is not NULL:
        Py_DECREF(<object>a.owner)
        a.owner = NULL


cdef int64_t _itemsize(const Array *a) noexcept nogil:
    return 4 if a.kind == KIND_F32 else 2


cdef int _take(Array *a, object x, str name) except -1:
    """Borrows `x`. On success _release must follow; on failure nothing is held."""
    a.has_buffer = False
    a.owner = NULL
    if Py_TYPE(x) is ndarray_type() and _from_ndarray(a, <PyArrayObject *>x):
        return 0
    if PyObject_CheckBuffer(x):
        try:
            PyObject_GetBuffer(x, &a.buffer, PyBUF_RECORDS_RO)
        except (ValueError, BufferError, TypeError) as error:
            # numpy has no buffer format for the types that other packages add to it.
            return _take_unformatted(a, x, name, error)
        a.has_buffer = True
        if ndarray_type() is NULL:
            _find_ndarray()
        try:
            return _from_buffer(a, name)
        except BaseException:
            _release(a)
            raise
    return _take_dlpack(a, x, name)


# ---- numpy's arrays, read as they lie: their buffer protocol takes longer than a row does

cdef extern from "numpy/ndarraytypes.h" nogil:
    ctypedef struct PyArrayObject:
        pass
    ctypedef struct PyArray_Descr:
        char byteorder
    PyArray_Descr *PyArray_DESCR(PyArrayObject *)
    enum:
        NPY_FLOAT
        NPY_HALF
        NPY_USHORT
    void *PyArray_DATA(PyArrayObject *)
    int PyArray_NDIM(PyArrayObject *)
    intptr_t *PyArray_DIMS(PyArrayObject *)
    intptr_t *PyArray_STRIDES(PyArrayObject *)
    int PyArray_TYPE(PyArrayObject *)
    bint PyArray_ISWRITEABLE(PyArrayObject *)


# What is known of types, from the first object of each on: numpy is not imported for this.
cdef struct Exchange:
    PyTypeObject *type
    DLExchangeAPI *api

cdef extern from *:
    """
    #if defined(__GNUC__)
    #  define KNOWN(kind, name)                                                       \\
        static kind *known_##name;                                                    \\
        static kind *name(void) { return __atomic_load_n(&known_##name, __ATOMIC_ACQUIRE); } \\
        static void set_##name(kind *value) {                                         \\
            __atomic_store_n(&known_##name, value, __ATOMIC_RELEASE);                 \\
        }
    #else
    #  define KNOWN(kind, name)                                                       \\
        static kind *volatile known_##name;                                           \\
        static kind *name(void) { return known_##name; }                              \\
        static void set_##name(kind *value) { known_##name = value; }
    #endif
    KNOWN(PyTypeObject, ndarray_type)
    KNOWN(void, exchange)
    """
    PyTypeObject *ndarray_type() nogil
    void set_ndarray_type(PyTypeObject *) nogil
    void *exchange() nogil
    void set_exchange(void *) nogil


cdef int _find_ndarray() except -1:
    numpy = _sys.modules.get("numpy")
    kind = getattr(numpy, "ndarray", None)
    if isinstance(kind, type):
        Py_INCREF(kind)
        set_ndarray_type(<PyTypeObject *>kind)
    return 0


cdef bint _from_ndarray(Array *a, PyArrayObject *x) noexcept:
    """Whether it is of a type that is taken as it lies."""
    cdef int kind = PyArray_TYPE(x), i
    if kind == NPY_FLOAT:
        a.kind = KIND_F32
    elif kind == NPY_HALF:
        a.kind = KIND_F16
    elif kind == NPY_USHORT:
        a.kind = KIND_U16
    else:
        return False
    a.ndim = PyArray_NDIM(x)
    if a.ndim > MAX_DIMS or PyArray_DESCR(x).byteorder != c"=":
        return False
    a.data = <char *>PyArray_DATA(x)
    a.readonly = not PyArray_ISWRITEABLE(x)
    for i in range(a.ndim):
        a.shape[i] = PyArray_DIMS(x)[i]
        a.strides[i] = PyArray_STRIDES(x)[i]
    return True


# ---- The buffer protocol

cdef char _NATIVE = c"<" if _sys.byteorder == "little" else c">"

_FORMATS = {
    "?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32",
    "I": "uint32", "l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "e": "float16",
    "f": "float32", "d": "float64", "g": "long double", "F": "complex64", "D": "complex128",
    "Zf": "complex64", "Zd": "complex128", "O": "object",
}


cdef int _from_buffer(Array *a, str name) except -1:
    cdef const char *format = a.buffer.format
    cdef int64_t step = a.buffer.itemsize
    cdef int i
    if format is NULL:
        format = b"B"
    if format[0] == c"@" or format[0] == c"=" or format[0] == _NATIVE:
        format += 1
    a.kind = KIND_OTHER
    if format[0] != 0 and format[1] == 0:
        if format[0] == c"f" and a.buffer.itemsize == 4:
            a.kind = KIND_F32
        elif format[0] == c"e" and a.buffer.itemsize == 2:
            a.kind = KIND_F16
        elif format[0] == c"E" and a.buffer.itemsize == 2:
            a.kind = KIND_BF16
        elif format[0] == c"H" and a.buffer.itemsize == 2:
            a.kind = KIND_U16
    if a.kind == KIND_OTHER:
        text = format.decode("ascii", "backslashreplace")
        if text[:1] in ("<", ">", "!"):
            raise TypeError(
                f"{name} is byte-swapped {_FORMATS.get(text[1:], text[1:])}: convert it to the "
                f"machine's byte order first, {name}.astype({name}.dtype.newbyteorder('='))")
        _refuse_dtype(name, _FORMATS.get(text, f"of format {text!r}"))
    if a.buffer.ndim > MAX_DIMS or (a.buffer.suboffsets is not NULL and a.buffer.ndim > 0):
        raise ValueError(f"{name} is laid out in a way that cannot be read: pass a plain array")
    a.data = <char *>a.buffer.buf
    a.readonly = a.buffer.readonly
    a.ndim = a.buffer.ndim
    for i in range(a.ndim - 1, -1, -1):
        a.shape[i] = a.buffer.shape[i]
        if a.buffer.strides is not NULL:
            a.strides[i] = a.buffer.strides[i]
        else:  # what ctypes does, although strides were asked for
            a.strides[i] = step
            step *= a.shape[i]
    return 0


cdef int _refuse_dtype(str name, str dtype) except -1:
    raise TypeError(
        f"{name} is {dtype}: convert it first, to float32, or for rows to float16 or bfloat16")


cdef int _take_unformatted(Array *a, object x, str name, object error) except -1:
    """An array whose export failed: ml_dtypes.bfloat16 as its bits, the rest by DLPack."""
    dtype = getattr(getattr(x, "dtype", None), "name", None)
    if dtype == "bfloat16" and hasattr(type(x), "view") and hasattr(x, "__array_interface__"):
        _take(a, x.view("u2"), name)
        a.kind = KIND_BF16
        return 0
    if hasattr(type(x), "__dlpack__") and not hasattr(x, "__array_interface__"):
        return _take_dlpack(a, x, name)
    if isinstance(dtype, str):
        _refuse_dtype(name, dtype)
    raise TypeError(f"{name} cannot be read as an array: {error}") from error


# ---- DLPack

_DEVICES = {
    2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 12: "ext_dev",
    13: "cuda managed memory", 14: "oneapi", 15: "webgpu", 16: "hexagon", 17: "maia",
}
_CODES_OF_DLPACK = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


cdef DLExchangeAPI *_exchange_of(object kind) except? NULL:
    """DLPack's C interface to objects of this type, or NULL. The first type is remembered."""
    cdef Exchange *known = <Exchange *>exchange()
    cdef DLExchangeAPI *api
    if known is not NULL and known.type is <PyTypeObject *>kind:
        return known.api
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
        return NULL
    api = <DLExchangeAPI *>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    if api.version.major != 1 or api.borrow is NULL:
        return NULL
    if known is NULL:
        known = <Exchange *>malloc(sizeof(Exchange))
        if known is not NULL:
            Py_INCREF(kind)
            Py_INCREF(capsule)
            known.type = <PyTypeObject *>kind
            known.api = api
            set_exchange(known)
    return api


cdef int _take_dlpack(Array *a, object x, str name) except -1:
    cdef DLExchangeAPI *api
    cdef DLTensor tensor
    cdef object kind = type(x)
    # An in-place change behind autograd's back would make its gradients wrong.
    if getattr(x, "requires_grad", False):
        raise ValueError(f"{name} requires grad: pass {name}.detach()")
    api = _exchange_of(kind)
    if api is not NULL:
        try:
            api.borrow(<void *>x, &tensor)
        except (RuntimeError, BufferError) as error:
            first = str(error).partition("\n")[0]
            raise ValueError(f"{name} has no memory to work on: {first}") from error
        a.readonly = False
        return _from_dlpack(a, &tensor, name)
    if not hasattr(kind, "__dlpack__"):
        raise TypeError(
            f"{name} must be an array (buffer protocol or DLPack), not {kind.__name__}")
    if hasattr(kind, "__dlpack_device__"):
        _check_device(x.__dlpack_device__(), name)
    try:
        capsule = x.__dlpack__(max_version=(1, 1))
    except TypeError:
        capsule = x.__dlpack__()  # from before versions
    _from_capsule(a, capsule, name)
    # The capsule is not marked as used, so that letting go of it lets go of the tensor.
    Py_INCREF(capsule)
    a.owner = <void *>capsule
    return 0


cdef int _check_device(object device, str name) except -1:
    number, place = int(device[0]), int(device[1])
    # 1: the processor. 3, 11: memory of the processor that a GPU can reach.
    if number not in (1, 3, 11):
        raise ValueError(
            f"{name} is on {_DEVICES.get(number, f'device type {number}')}:{place}, and this "
            f"function works on the processor's memory: pass {name}.cpu(), and copy the result "
            "back")
    return 0


cdef int _from_capsule(Array *a, object capsule, str name) except -1:
    cdef DLManagedTensorVersioned *managed
    cdef DLTensor *tensor
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        managed = <DLManagedTensorVersioned *>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if managed.version.major != 1:
            raise ValueError(f"{name} comes in DLPack {managed.version.major}; 1 is known here")
        a.readonly = managed.flags & 1
        if managed.flags & 2:  # writes would be lost
            a.readonly = True
        return _from_dlpack(a, &managed.tensor, name)
    tensor = <DLTensor *>PyCapsule_GetPointer(capsule, "dltensor")
    a.readonly = False
    return _from_dlpack(a, tensor, name)


cdef int _from_dlpack(Array *a, const DLTensor *tensor, str name) except -1:
    cdef int i
    cdef int64_t size, step
    if tensor.device_type != 1:
        _check_device((tensor.device_type, tensor.device_id), name)
    a.kind = KIND_OTHER
    if tensor.lanes == 1:
        if tensor.code == 2 and tensor.bits == 32:
            a.kind = KIND_F32
        elif tensor.code == 2 and tensor.bits == 16:
            a.kind = KIND_F16
        elif tensor.code == 4 and tensor.bits == 16:
            a.kind = KIND_BF16
        elif tensor.code == 1 and tensor.bits == 16:
            a.kind = KIND_U16
    if a.kind == KIND_OTHER:
        code = _CODES_OF_DLPACK.get(tensor.code, f"DLPack type {tensor.code}, ")
        _refuse_dtype(name, f"{code}{tensor.bits}")
    if tensor.ndim > MAX_DIMS:
        raise ValueError(f"{name} has {tensor.ndim} dimensions")
    a.data = <char *>tensor.data + tensor.byte_offset
    a.ndim = tensor.ndim
    size = _itemsize(a)
    step = size
    for i in range(a.ndim - 1, -1, -1):
        a.shape[i] = tensor.shape[i]
        a.strides[i] = step if tensor.strides is NULL else tensor.strides[i] * size
        step *= a.shape[i]
    return 0
