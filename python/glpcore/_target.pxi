# What a vector is to be used for: keyword arguments -> glpcore_target.

_MODES = {
    "project": GLPCORE_MODE_PROJECT,
    "add": GLPCORE_MODE_ADD,
}
_STRUCTURES = {
    "per-layer": GLPCORE_STRUCTURE_PER_LAYER,
    "per-execution-step": GLPCORE_STRUCTURE_PER_EXECUTION_STEP,
}
_HOOKS = (
    "residual_stream_post_layer",
    "ffn_out_pre_residual",
    "attn_out_pre_residual",
)


cdef object _name_of_mode(glpcore_mode mode):
    cdef const char *name = glpcore_mode_name(mode)
    return None if name is NULL else name.decode("ascii")


cdef object _name_of_hook(glpcore_hook hook):
    cdef const char *name = glpcore_hook_name(hook)
    return None if name is NULL else name.decode("ascii")


cdef object _name_of_structure(glpcore_structure structure):
    for name, value in _STRUCTURES.items():
        if value == structure:
            return name
    return "other"


cdef uint64_t _count(object value, str name) except? 0:
    """A stated count, which cannot be 0; None is "not stated"."""
    if value is None:
        return 0
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not bool")
    try:
        value = _index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None
    if not 0 < value < 1 << 63:
        raise ValueError(f"{name} must be a positive number below 2**63, not {value}")
    return value


cdef object _choice(object value, object choices, str name):
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}, not {value!r}")
    return value


@cython.final
@cython.internal
cdef class _Target:
    """A glpcore_target and the texts that it points at."""

    cdef glpcore_target c
    cdef const char **names
    cdef list texts

    def __cinit__(self):
        memset(&self.c, 0, sizeof(self.c))
        self.c.struct_size = sizeof(self.c)
        self.names = NULL
        self.texts = []

    def __dealloc__(self):
        free(self.names)

    cdef const char *text(self, object value, str name) except NULL:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be text, not {type(value).__name__}")
        cdef bytes data
        try:
            data = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"{name} must be Unicode, which {value!a} is not") from None
        if b"\0" in data:
            raise ValueError(f"{name} holds a NUL character")
        self.texts.append(data)
        return PyBytes_AsString(data)

    cdef int set_base(self, object base) except -1:
        cdef size_t i
        cdef list names = [base] if isinstance(base, str) else list(base)
        if not names:
            return 0
        self.names = <const char **>malloc(len(names) * sizeof(char *))
        if self.names is NULL:
            raise MemoryError()
        for i in range(<size_t>len(names)):
            self.names[i] = self.text(names[i], "base")
        self.c.base_names = <const char *const *>self.names
        self.c.n_base_names = len(names)
        return 0


cdef _Target _make_target(object mode, object hook, object n_embd, object n_layers, object base,
                          object base_revision, object model, object structure,
                          bint allow_hook_mismatch, bint allow_base_mismatch, bint renormalise,
                          bint verify_hash):
    cdef _Target target = _Target()
    if model is not None:
        from ._open import facts_of
        facts = facts_of(model)
        n_embd = facts.n_embd if n_embd is None else n_embd
        # A looped model runs more steps than it has layers: only the caller knows how many.
        if n_layers is None and structure != "per-execution-step":
            n_layers = facts.n_layers
        base = facts.base_names if base is None else base
        base_revision = facts.base_revision if base_revision is None else base_revision
        if facts.arch is not None:
            target.c.arch = target.text(facts.arch, "arch")
    if mode is not None:
        target.c.mode = _MODES[_choice(mode, _MODES, "mode")]
    if hook is not None:
        name = _choice(hook, _HOOKS, "hook").encode()
        target.c.hook = glpcore_hook_from_name(PyBytes_AsString(name), len(name))
    if structure is not None:
        target.c.structure = _STRUCTURES[_choice(structure, _STRUCTURES, "structure")]
    target.c.n_embd = _count(n_embd, "n_embd")
    target.c.n_layers = _count(n_layers, "n_layers")
    if base is not None:
        target.set_base(base)
    if base_revision is not None:
        target.c.base_revision = target.text(base_revision, "base_revision")
    target.c.allow_hook_mismatch = allow_hook_mismatch
    target.c.allow_base_mismatch = allow_base_mismatch
    target.c.renormalise = renormalise
    target.c.skip_hash = not verify_hash
    return target
