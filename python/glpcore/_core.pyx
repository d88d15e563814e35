# cython: language_level=3, binding=False, embedsignature=True, embedsignature.format=clinic
# cython: freethreading_compatible=True, always_allow_keywords=True
# cython: cdivision=True, autotestdict=False
"""The compiled part of glpcore: files, vectors and rows, over the C library."""

cimport cython
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS,
    PyBUF_C_CONTIGUOUS,
    PyBUF_F_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBUF_RECORDS_RO,
    PyBUF_SIMPLE,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AsString
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.float cimport PyFloat_AsDouble
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport isfinite, isnan
from cpython.object cimport PyTypeObject, Py_TYPE
from libc.stdint cimport (
    UINT32_MAX, UINT64_MAX, int64_t, intptr_t, uint32_t, uint64_t, uintptr_t,
)
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strlen

from glpcore._c cimport *

import os as _os
import sys as _sys
from operator import index as _index

from ._errors import Finding, FormatError, RefusedError, summary, system_error
from ._records import Info, Payload, Row, Strength, Tensor


def version():
    """The version of the C library, such as "0.1.0"."""
    return glpcore_version().decode("ascii")


# One room each; they share this module because types of C do not cross modules cheaply.
include "_status.pxi"
include "_target.pxi"
include "_file.pxi"
include "_array.pxi"
include "_rows.pxi"
include "_vector.pxi"
