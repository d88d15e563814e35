# The C library as Cython sees it, and DLPack's structs. Contracts: csrc/include/glpcore.h.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "include/glpcore.h" nogil:
    ctypedef enum glpcore_status:
        GLPCORE_OK
        GLPCORE_REFUSED
        GLPCORE_FORMAT
        GLPCORE_IO
        GLPCORE_NOMEM
        GLPCORE_INVALID

    const char *glpcore_version()

    ctypedef enum glpcore_hook:
        GLPCORE_HOOK_UNKNOWN
        GLPCORE_HOOK_RESIDUAL_STREAM_POST_LAYER
        GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL
        GLPCORE_HOOK_ATTN_OUT_PRE_RESIDUAL

    ctypedef enum glpcore_mode:
        GLPCORE_MODE_UNKNOWN
        GLPCORE_MODE_PROJECT
        GLPCORE_MODE_ADD

    ctypedef enum glpcore_structure:
        GLPCORE_STRUCTURE_PER_LAYER
        GLPCORE_STRUCTURE_PER_EXECUTION_STEP
        GLPCORE_STRUCTURE_OTHER

    const char *glpcore_hook_name(glpcore_hook hook)
    const char *glpcore_mode_name(glpcore_mode mode)
    glpcore_hook glpcore_hook_from_name(const char *name, size_t size)

    ctypedef struct glpcore_text:
        const char *data
        size_t size

    ctypedef enum glpcore_severity:
        GLPCORE_SEVERITY_WARNING
        GLPCORE_SEVERITY_REFUSAL
        GLPCORE_SEVERITY_FORMAT

    const uint64_t GLPCORE_NO_OFFSET

    ctypedef struct glpcore_finding:
        size_t struct_size
        const char *code
        glpcore_severity severity
        const char *message
        uint64_t offset
        glpcore_text key
        glpcore_text tensor

    ctypedef struct glpcore_report:
        pass

    size_t glpcore_finding_count(const glpcore_report *report)
    glpcore_status glpcore_finding_at(const glpcore_report *report, size_t index,
                                      glpcore_finding *finding)
    int glpcore_report_errno(const glpcore_report *report)
    void glpcore_report_free(glpcore_report *report)

    ctypedef struct glpcore_file:
        pass

    ctypedef struct glpcore_open_options:
        size_t struct_size
        uint64_t max_bytes
        int read
        int copy

    glpcore_status glpcore_open(const char *path, const glpcore_open_options *options,
                                glpcore_file **file, glpcore_report **report,
                                char *message, size_t message_size)
    glpcore_status glpcore_open_memory(const void *data, size_t size, const char *name,
                                       const glpcore_open_options *options, glpcore_file **file,
                                       glpcore_report **report, char *message,
                                       size_t message_size)
    glpcore_status glpcore_open_raw(const char *path, size_t n_layers, size_t n_embd,
                                    const glpcore_open_options *options, glpcore_file **file,
                                    glpcore_report **report, char *message, size_t message_size)
    glpcore_status glpcore_open_raw_memory(const void *data, size_t size, const char *name,
                                           size_t n_layers, size_t n_embd,
                                           const glpcore_open_options *options,
                                           glpcore_file **file, glpcore_report **report,
                                           char *message, size_t message_size)
    void glpcore_close(glpcore_file *file)

    ctypedef struct glpcore_info:
        size_t struct_size
        int raw
        uint64_t file_size
        glpcore_mode mode
        int mode_declared
        glpcore_text mode_text
        uint32_t spec_version
        int spec_version_declared
        glpcore_hook hook
        glpcore_text hook_text
        glpcore_text derived_at
        int transferred
        glpcore_structure structure
        glpcore_text structure_text
        int has_alpha
        double alpha
        uint32_t rank
        int has_dir_scales, has_layer_scales
        uint64_t n_embd
        size_t n_directions
        size_t n_layers
        uint32_t layer_min, layer_max
        double norm_min, norm_max
        glpcore_text base_name, base_organization, base_revision, base_url
        glpcore_text method, contrast, created, generator, content_sha256, name, model_hint

    glpcore_status glpcore_info_get(const glpcore_file *file, glpcore_info *info)

    ctypedef struct glpcore_kv:
        size_t struct_size
        glpcore_text key
        uint32_t type
        const void *value
        size_t value_size
        uint64_t offset

    size_t glpcore_kv_count(const glpcore_file *file)
    glpcore_status glpcore_kv_at(const glpcore_file *file, size_t index, glpcore_kv *kv)
    glpcore_status glpcore_kv_find(const glpcore_file *file, const char *key, size_t size,
                                   glpcore_kv *kv)

    ctypedef struct glpcore_tensor:
        size_t struct_size
        glpcore_text name
        uint32_t type
        uint32_t n_dims
        uint64_t dims[4]
        uint64_t offset
        uint64_t n_bytes
        const void *data

    size_t glpcore_tensor_count(const glpcore_file *file)
    glpcore_status glpcore_tensor_at(const glpcore_file *file, size_t index,
                                     glpcore_tensor *tensor)

    ctypedef struct glpcore_payload:
        size_t struct_size
        uint32_t layer
        uint32_t j
        const float *data
        size_t n_embd
        uint64_t offset
        double norm
        double cosine

    glpcore_status glpcore_payload_at(const glpcore_file *file, size_t index,
                                      glpcore_payload *payload)

    const unsigned GLPCORE_DESCRIBE_LAYERS
    size_t glpcore_describe(const glpcore_file *file, const glpcore_report *report,
                            const char *name, unsigned flags, char *text, size_t size)
    size_t glpcore_escape(const char *data, size_t data_size, char *text, size_t size)

    ctypedef struct glpcore_target:
        size_t struct_size
        glpcore_mode mode
        glpcore_hook hook
        glpcore_structure structure
        uint64_t n_embd
        uint64_t n_layers
        const char *const *base_names
        size_t n_base_names
        const char *base_revision
        const char *arch
        int allow_hook_mismatch
        int allow_base_mismatch
        int renormalise
        int skip_hash

    glpcore_status glpcore_judge(const glpcore_file *file, const glpcore_target *target,
                                 glpcore_report **report, char *message, size_t message_size)

    ctypedef struct glpcore_vector:
        pass

    glpcore_status glpcore_accept(const glpcore_file *file, const glpcore_target *target,
                                  glpcore_vector **vector, glpcore_report **report,
                                  char *message, size_t message_size)
    void glpcore_vector_free(glpcore_vector *vector)

    ctypedef struct glpcore_vector_info:
        size_t struct_size
        glpcore_mode mode
        glpcore_hook hook
        glpcore_structure structure
        uint64_t n_embd
        uint32_t rank
        size_t n_layers
        uint32_t layer_min, layer_max
        size_t n_renormalised
        int adoptable
        double alpha_default

    glpcore_status glpcore_vector_info_get(const glpcore_vector *vector,
                                           glpcore_vector_info *info)
    uint32_t glpcore_vector_layer(const glpcore_vector *vector, size_t index)
    const float *glpcore_direction(const glpcore_vector *vector, uint32_t layer, uint32_t j)

    ctypedef struct glpcore_strength:
        size_t struct_size
        int has_alpha
        double alpha
        int has_fallback
        double fallback

    glpcore_status glpcore_alpha(const glpcore_vector *vector, uint32_t layer, uint32_t j,
                                 const glpcore_strength *strength, double *alpha, int *adopted,
                                 char *message, size_t message_size)
    glpcore_status glpcore_fill_dense(const glpcore_vector *vector, float *table, size_t n_rows,
                                      size_t n_embd, const glpcore_strength *strength,
                                      double *alphas, char *message, size_t message_size)

    ctypedef enum glpcore_dtype:
        GLPCORE_F32
        GLPCORE_F16
        GLPCORE_BF16

    enum:
        GLPCORE_MAX_RANK

    ctypedef struct glpcore_executor:
        size_t struct_size
        size_t n_threads

    ctypedef struct glpcore_pool:
        pass

    glpcore_status glpcore_pool_create(size_t n_threads, glpcore_pool **pool)
    void glpcore_pool_free(glpcore_pool *pool)
    const glpcore_executor *glpcore_pool_executor(const glpcore_pool *pool)


cdef extern from "cpu.h" nogil:
    uint32_t glpcore_cpu()


cdef extern from "project.h" nogil:
    enum:
        GLPCORE_ROWS_ADD
        GLPCORE_ROWS_FINITE
    glpcore_status glpcore_rows_run(uint32_t cpu, unsigned flags, void *x, glpcore_dtype dtype,
                                    size_t n_rows, size_t n_embd, size_t row_stride,
                                    const float *const *d, const double *scales, size_t k,
                                    const glpcore_executor *executor)


cdef extern from "report.h" nogil:
    ctypedef struct glpcore_where:
        pass
    glpcore_report *glpcore_report_new()
    void glpcore_report_add(glpcore_report *report, glpcore_severity severity, const char *code,
                            const glpcore_where *where, const char *format, ...)

# ---- DLPack 1.x ----------------------------------------------------------------------------------

ctypedef struct DLVersion:
    uint32_t major
    uint32_t minor

ctypedef struct DLTensor:
    void *data
    int32_t device_type
    int32_t device_id
    int32_t ndim
    uint8_t code
    uint8_t bits
    uint16_t lanes
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset

# "dltensor_versioned"; in the older "dltensor" the tensor itself comes first.
ctypedef struct DLManagedTensorVersioned:
    DLVersion version
    void *manager_ctx
    void *deleter
    uint64_t flags
    DLTensor tensor

# "dlpack_exchange_api": what a type offers for a loan without Python objects.
ctypedef struct DLExchangeAPI:
    DLVersion version
    void *previous
    void *allocate
    void *export_owned
    void *adopt
    int (*borrow)(void *object, DLTensor *out) except -1
    void *current_stream
