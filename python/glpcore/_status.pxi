# From C's answers to Python's: text, findings, exceptions.

# Room for the longest message that the C library composes.
cdef enum:
    MESSAGE_SIZE = 1536


cdef object _text(glpcore_text text):
    """A file's text, or None when absent."""
    if text.data is NULL:
        return None
    return PyUnicode_DecodeUTF8(text.data, <Py_ssize_t>text.size, "backslashreplace")


_SEVERITIES = {
    GLPCORE_SEVERITY_WARNING: "warning",
    GLPCORE_SEVERITY_REFUSAL: "refusal",
    GLPCORE_SEVERITY_FORMAT: "format",
}


cdef list _findings_of(const glpcore_report *report):
    cdef glpcore_finding found
    cdef size_t i
    cdef list findings = []
    found.struct_size = sizeof(found)
    for i in range(glpcore_finding_count(report)):
        glpcore_finding_at(report, i, &found)
        findings.append(Finding(
            found.code.decode("ascii"),
            _SEVERITIES[found.severity],
            found.message.decode("utf-8", "backslashreplace"),
            None if found.offset == GLPCORE_NO_OFFSET else found.offset,
            _text(found.key),
            _text(found.tensor),
        ))
    return findings


cdef glpcore_report *_report_from(object findings) except NULL:
    """A report with these findings, whose codes must outlive it."""
    cdef glpcore_report *report = glpcore_report_new()
    cdef glpcore_severity severity
    if report is NULL:
        raise MemoryError()
    try:
        for finding in findings:
            for severity, name in _SEVERITIES.items():
                if name == finding.severity:
                    break
            else:
                raise ValueError(f"a finding's severity is {finding.severity!r}")
            code = _CODES.setdefault(finding.code, finding.code.encode())
            message = finding.message.encode("utf-8", "replace")
            glpcore_report_add(report, severity, PyBytes_AsString(code), NULL, "%s",
                               PyBytes_AsString(message))
    except BaseException:
        glpcore_report_free(report)
        raise
    return report

# Reports keep a pointer to the code.
_CODES = {}


def _refused(message, findings, number, filename):
    if findings:
        return RefusedError(summary(findings), findings)
    # Outside of judging, C has no report to give: the code ends its message.
    text, _, code = message.rpartition(" [")
    return RefusedError(message, [Finding(code.rstrip("]"), "refusal", text)])


# The one table from a C status to a Python exception.
_EXCEPTIONS = {
    GLPCORE_REFUSED: _refused,
    GLPCORE_FORMAT: lambda message, findings, number, filename: FormatError(
        summary(findings), findings),
    GLPCORE_IO: lambda message, findings, number, filename: system_error(
        number, findings, filename),
    GLPCORE_NOMEM: lambda message, findings, number, filename: MemoryError(
        message or "out of memory"),
    GLPCORE_INVALID: lambda message, findings, number, filename: ValueError(
        message or "the arguments contradict each other"),
}


cdef int _check(glpcore_status status, const glpcore_report *report, const char *message,
                object filename) except -1:
    """Raises what `status` stands for, unless it is GLPCORE_OK."""
    if status == GLPCORE_OK:
        return 0
    text = "" if message is NULL else message.decode("utf-8", "backslashreplace")
    raise _EXCEPTIONS[status](text, _findings_of(report), glpcore_report_errno(report), filename)


def escape(text):
    """`text` (str or bytes) made safe for a terminal.

    Control characters, bytes that are not UTF-8, bidirectional and invisible characters and the
    backslash become \\n, \\xHH or \\u{H}.
    """
    cdef bytes data
    try:
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    except UnicodeEncodeError:  # half of a pair, which is no byte that was escaped
        data = text.encode("utf-8", "surrogatepass")
    cdef const char *start = PyBytes_AsString(data)
    cdef size_t needed = glpcore_escape(start, len(data), NULL, 0)
    cdef char *out = <char *>malloc(needed + 1)
    if out is NULL:
        raise MemoryError()
    try:
        glpcore_escape(start, len(data), out, needed + 1)
        return out[:needed].decode("utf-8")
    finally:
        free(out)
