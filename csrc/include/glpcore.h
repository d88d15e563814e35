/* glpcore: read GLP steering vectors strictly, and project them out of hidden states.
 *
 * A steering vector is a GGUF v3 file with tensors `direction.<N>`. GLP adds a `glp.*` block that
 * says what the numbers mean: the operation, the hook point, the layer map and the base checkpoint.
 * Two types keep misuse from compiling:
 *
 *   glpcore_file    anything that is a sound GGUF file (or a headerless .f32 whose shape is given).
 *                   It can be described and judged. It cannot be applied.
 *   glpcore_vector  a file accepted for a stated target. Only a vector has strengths and directions
 *                   to apply. Accepting is the one place where refusals happen.
 *
 * Rules that hold for every function:
 *   - Handles are immutable once made; they may be shared between threads without a lock.
 *   - No mutable globals but a cache of what the processor has; no output, no exit, no locale; no
 *     thread is started unless a pool is made.
 *   - Functions that can fail return a glpcore_status. Where they take (message, message_size), the
 *     text's first sentence says what to do, it is always terminated, and NULL / 0 are allowed.
 *   - Text that comes from a file is escaped in messages and descriptions; it is raw, and not
 *     terminated, in glpcore_text.
 *   - `struct_size` is first in every struct the caller fills or receives: set it to sizeof the
 *     struct. Zero in any other field of an options struct means the documented default.
 *   - Units: offsets and sizes in bytes, strides in elements, n_embd in float32 elements.
 *
 * C99, and clean C++.
 */
#ifndef GLPCORE_H
#define GLPCORE_H

#include <stddef.h>
#include <stdint.h>

/* The version of the project; the build and the Python package read it from here. */
#define GLPCORE_VERSION "0.1.0"

#if defined(GLPCORE_SHARED) && defined(_WIN32)
#  ifdef GLPCORE_BUILD
#    define GLPCORE_API __declspec(dllexport)
#  else
#    define GLPCORE_API __declspec(dllimport)
#  endif
#elif defined(GLPCORE_SHARED) && defined(__GNUC__)
#  define GLPCORE_API __attribute__((visibility("default")))
#else
#  define GLPCORE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status -------------------------------------------------------------------------------- */

/* The values are part of the ABI. 0, 1 and 2 are also the exit statuses of the command line. */
typedef enum glpcore_status {
    GLPCORE_OK = 0,      /* done; for a judgement: applicable */
    GLPCORE_REFUSED = 1, /* a sound file that may not be applied as asked */
    GLPCORE_FORMAT = 2,  /* not a sound file */
    GLPCORE_IO = 3,      /* the system could not open, map or read it */
    GLPCORE_NOMEM = 4,   /* out of memory */
    GLPCORE_INVALID = 5  /* the caller's arguments contradict this header */
} glpcore_status;

/* Version of the library that is loaded, which may not be the header's: GLPCORE_VERSION's form. */
GLPCORE_API const char *glpcore_version(void);

/* ---- Vocabulary ---------------------------------------------------------------------------- */

/* Where in a layer a vector is applied. Pinned: hosts store these numbers. */
typedef enum glpcore_hook {
    GLPCORE_HOOK_UNKNOWN = 0,                   /* not stated, or not one of the three */
    GLPCORE_HOOK_RESIDUAL_STREAM_POST_LAYER = 1,
    GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL = 2,
    GLPCORE_HOOK_ATTN_OUT_PRE_RESIDUAL = 3
} glpcore_hook;

typedef enum glpcore_mode {
    GLPCORE_MODE_UNKNOWN = 0,  /* in a target: the default, which is project */
    GLPCORE_MODE_PROJECT = 1,  /* h <- h - alpha (d . h) d */
    GLPCORE_MODE_ADD = 2       /* h <- h + alpha d */
} glpcore_mode;

/* What N counts in `direction.N`. */
typedef enum glpcore_structure {
    GLPCORE_STRUCTURE_PER_LAYER = 0,          /* the layer, from 0: direction.N is of layer N */
    GLPCORE_STRUCTURE_PER_EXECUTION_STEP = 1, /* the step of a looped model, from 1 */
    GLPCORE_STRUCTURE_OTHER = 2               /* free text that this library does not interpret */
} glpcore_structure;

/* The names used in files: "residual_stream_post_layer", "project", ...; NULL when out of range. */
GLPCORE_API const char *glpcore_hook_name(glpcore_hook hook);
GLPCORE_API const char *glpcore_mode_name(glpcore_mode mode);

/* The hook with exactly this name of `size` bytes, or GLPCORE_HOOK_UNKNOWN. */
GLPCORE_API glpcore_hook glpcore_hook_from_name(const char *name, size_t size);

/* Bytes inside a file's own storage: not terminated, not escaped, any byte may occur. data is NULL
 * when absent. Valid until the file is closed. */
typedef struct glpcore_text {
    const char *data;
    size_t size;
} glpcore_text;

/* ---- Findings ------------------------------------------------------------------------------ */

typedef enum glpcore_severity {
    GLPCORE_SEVERITY_WARNING = 1,
    GLPCORE_SEVERITY_REFUSAL = 2,
    GLPCORE_SEVERITY_FORMAT = 3  /* the file is not sound: ends the reading */
} glpcore_severity;

#define GLPCORE_NO_OFFSET UINT64_MAX

/* One thing that is wrong with a file, or worth knowing. The codes are listed in docs/format.md. */
typedef struct glpcore_finding {
    size_t struct_size;
    const char *code;           /* stable, lower case, static storage: "hook-mismatch" */
    glpcore_severity severity;
    const char *message;        /* what to do first, then why; escaped; owned by the report */
    uint64_t offset;            /* byte in the file, or GLPCORE_NO_OFFSET */
    glpcore_text key;           /* the metadata key concerned, or absent */
    glpcore_text tensor;        /* the tensor concerned, or absent */
} glpcore_finding;

/* Every finding of one reading or judgement, in the order in which they were found. Beyond eight
 * of one code the rest are counted in a ninth, so that a report stays small whatever the file. It
 * owns its texts and outlives the file. */
typedef struct glpcore_report glpcore_report;

GLPCORE_API size_t glpcore_finding_count(const glpcore_report *report);

/* Fills *finding (its struct_size set by the caller) with the index-th finding. GLPCORE_INVALID
 * when there is no such finding. */
GLPCORE_API glpcore_status glpcore_finding_at(const glpcore_report *report, size_t index,
                                              glpcore_finding *finding);

/* The errno of a GLPCORE_IO failure, else 0. */
GLPCORE_API int glpcore_report_errno(const glpcore_report *report);

/* Frees a report; NULL is fine. */
GLPCORE_API void glpcore_report_free(glpcore_report *report);

/* ---- Opening: bytes -> file ---------------------------------------------------------------- */

typedef struct glpcore_file glpcore_file;

typedef struct glpcore_open_options {
    size_t struct_size;
    uint64_t max_bytes;  /* refuse larger files (too-big); 0 means 1 GiB, UINT64_MAX no limit */
    int read;            /* nonzero: read into memory rather than map. A mapped file that is
                          * truncated by someone else later kills the process (SIGBUS) */
    int copy;            /* open_memory only, nonzero: keep a private copy of the bytes */
} glpcore_open_options;

/* Opens a GGUF v3 file at `path` (UTF-8). Regular files only. On success *file is the handle; on
 * failure NULL, and GLPCORE_IO (errno in the report), GLPCORE_FORMAT, GLPCORE_NOMEM or
 * GLPCORE_INVALID. options, report and message may be NULL. *report, when asked for, is always set
 * (NULL only when out of memory): it holds the one error, or the container's warnings. */
GLPCORE_API glpcore_status glpcore_open(const char *path, const glpcore_open_options *options,
                                        glpcore_file **file, glpcore_report **report,
                                        char *message, size_t message_size);

/* The same for bytes in memory, which must stay unchanged until the file is closed unless
 * options->copy is set. Bytes not aligned to 4 are copied. `name` (may be NULL) is the file's name
 * for messages and for the alpha-name warning. */
GLPCORE_API glpcore_status glpcore_open_memory(const void *data, size_t size, const char *name,
                                               const glpcore_open_options *options,
                                               glpcore_file **file, glpcore_report **report,
                                               char *message, size_t message_size);

/* Opens a headerless float32 file, n_layers rows of n_embd, row = layer, row 0 included. Rows that
 * are all zero are layers not steered. The size must be exactly n_layers * n_embd * 4 (raw-size),
 * and neither may be 0 (raw-shape). Such a file states nothing: the target must state the hook.
 * GGUF bytes are refused here (raw-shape), never reinterpreted. */
GLPCORE_API glpcore_status glpcore_open_raw(const char *path, size_t n_layers, size_t n_embd,
                                            const glpcore_open_options *options,
                                            glpcore_file **file, glpcore_report **report,
                                            char *message, size_t message_size);
GLPCORE_API glpcore_status glpcore_open_raw_memory(const void *data, size_t size, const char *name,
                                                   size_t n_layers, size_t n_embd,
                                                   const glpcore_open_options *options,
                                                   glpcore_file **file, glpcore_report **report,
                                                   char *message, size_t message_size);

/* Unmaps and frees; NULL is fine. Vectors accepted from the file must have been freed. */
GLPCORE_API void glpcore_close(glpcore_file *file);

/* ---- Describing: what a file says, without judging it -------------------------------------- */

typedef struct glpcore_info {
    size_t struct_size;
    int raw;                     /* 1: headerless .f32 */
    uint64_t file_size;
    glpcore_mode mode;           /* undeclared reads as add; raw as project; unknown text UNKNOWN */
    int mode_declared;
    glpcore_text mode_text;
    uint32_t spec_version;       /* 1 when absent */
    int spec_version_declared;
    glpcore_hook hook;           /* additive files without one: RESIDUAL_STREAM_POST_LAYER */
    glpcore_text hook_text;      /* as written */
    glpcore_text derived_at;
    int transferred;             /* derived_at is another site than the hook */
    glpcore_structure structure;
    glpcore_text structure_text;
    int has_alpha;               /* glp.alpha_default present, of the right type and finite */
    double alpha;
    uint32_t rank;               /* directions per layer, as found (0 when there is none) */
    int has_dir_scales, has_layer_scales;
    uint64_t n_embd;             /* width of the first direction, 0 when there is none */
    size_t n_directions;         /* F32, 1-D, not empty: those of glpcore_payload_at */
    size_t n_layers;             /* layers that carry directions */
    uint32_t layer_min, layer_max;
    double norm_min, norm_max;   /* over all directions, float64; NaN when there is none */
    glpcore_text base_name, base_organization, base_revision, base_url;
    glpcore_text method, contrast, created, generator, content_sha256, name, model_hint;
} glpcore_info;

/* Fills *info. Reads every direction once for the norms. GLPCORE_INVALID on a bad argument. */
GLPCORE_API glpcore_status glpcore_info_get(const glpcore_file *file, glpcore_info *info);

/* One metadata entry. value points at the encoded value (after its type) of value_size bytes. */
typedef struct glpcore_kv {
    size_t struct_size;
    glpcore_text key;
    uint32_t type;               /* GGUF value type, 0 (uint8) .. 12 (float64); 8 string, 9 array */
    const void *value;
    size_t value_size;
    uint64_t offset;             /* of the value in the file */
} glpcore_kv;

GLPCORE_API size_t glpcore_kv_count(const glpcore_file *file);
GLPCORE_API glpcore_status glpcore_kv_at(const glpcore_file *file, size_t index, glpcore_kv *kv);
/* By key of `size` bytes; GLPCORE_INVALID when there is none. */
GLPCORE_API glpcore_status glpcore_kv_find(const glpcore_file *file, const char *key, size_t size,
                                           glpcore_kv *kv);

typedef struct glpcore_tensor {
    size_t struct_size;
    glpcore_text name;
    uint32_t type;               /* ggml type: 0 is F32 */
    uint32_t n_dims;
    uint64_t dims[4];            /* dims[0] is the contiguous one */
    uint64_t offset;             /* of the data in the file */
    uint64_t n_bytes;            /* 0 when the type's size is not known */
    const void *data;
} glpcore_tensor;

GLPCORE_API size_t glpcore_tensor_count(const glpcore_file *file);
GLPCORE_API glpcore_status glpcore_tensor_at(const glpcore_file *file, size_t index,
                                             glpcore_tensor *tensor);

/* The directions in the order of the content hash: by (layer, j) as numbers. Their payloads, one
 * after another, are what glp.content_sha256 covers. */
typedef struct glpcore_payload {
    size_t struct_size;
    uint32_t layer;              /* N of direction.N */
    uint32_t j;                  /* 0 .. rank-1 */
    const float *data;           /* n_embd float32, little-endian, in the file's storage */
    size_t n_embd;
    uint64_t offset;
    double norm;                 /* Euclidean, in float64 */
    double cosine;               /* to direction j of the layer before; NaN when it is not there */
} glpcore_payload;

GLPCORE_API glpcore_status glpcore_payload_at(const glpcore_file *file, size_t index,
                                              glpcore_payload *payload);

/* Flags of glpcore_describe. */
#define GLPCORE_DESCRIBE_LAYERS 1u  /* add a table: layer, norm, cosine to the previous, alpha */

/* The text that every front end prints for a file: verdict, mode, hook point, and so on, a line
 * each, escaped, ending in a newline. `report` is a judgement of the file (glpcore_judge), whose
 * severities make the verdict. Writes at most `size` bytes, terminated, and returns the length that
 * the whole text needs, without its terminator (like snprintf). (NULL, 0) only measures. */
GLPCORE_API size_t glpcore_describe(const glpcore_file *file, const glpcore_report *report,
                                    const char *name, unsigned flags, char *text, size_t size);

/* Escapes text from a file for a terminal: control characters, invalid UTF-8, bidirectional and
 * invisible characters and the backslash become \n, \xHH or \u{H}. Same contract as snprintf. */
GLPCORE_API size_t glpcore_escape(const char *data, size_t data_size, char *text, size_t size);

/* ---- Judging and accepting: file + target -> vector ----------------------------------------- */

/* What the vector is to be used for. Zero fields are "not stated" and are not checked. */
typedef struct glpcore_target {
    size_t struct_size;
    glpcore_mode mode;             /* default project */
    glpcore_hook hook;             /* not stated: the file's own site, which must be known; then
                                    * glp.alpha_default is never adopted */
    glpcore_structure structure;   /* default per layer */
    uint64_t n_embd;               /* width of the stream that is steered */
    uint64_t n_layers;             /* the model's layers; with per-execution-step: its steps */
    const char *const *base_names; /* names the model goes by; the file's must be one of them */
    size_t n_base_names;
    const char *base_revision;
    const char *arch;              /* GGUF architecture or Hugging Face model_type */
    int allow_hook_mismatch;       /* hook-missing, hook-unknown, hook-mismatch become warnings, and
                                    * glp.alpha_default is never adopted */
    int allow_base_mismatch;       /* base-mismatch and arch-mismatch become warnings */
    int renormalise;               /* project only: off-unit directions are scaled to norm 1 in a
                                    * private copy */
    int skip_hash;                 /* do not compute the content hash (warning hash-unverified) */
} glpcore_target;

/* Judges without accepting: GLPCORE_OK (applicable) or GLPCORE_REFUSED, and every finding, the
 * container's warnings first. target NULL judges the file by its own declared mode, hook and
 * structure. *message, when wanted, gets the first refusal. */
GLPCORE_API glpcore_status glpcore_judge(const glpcore_file *file, const glpcore_target *target,
                                         glpcore_report **report, char *message,
                                         size_t message_size);

typedef struct glpcore_vector glpcore_vector;

/* Judges for `target` (NULL: project, nothing else stated) and, when nothing refuses, makes a
 * vector, which borrows the file: free it before closing the file. GLPCORE_REFUSED leaves *vector
 * NULL. The report's warnings are the caller's to show. */
GLPCORE_API glpcore_status glpcore_accept(const glpcore_file *file, const glpcore_target *target,
                                          glpcore_vector **vector, glpcore_report **report,
                                          char *message, size_t message_size);
GLPCORE_API void glpcore_vector_free(glpcore_vector *vector);

typedef struct glpcore_vector_info {
    size_t struct_size;
    glpcore_mode mode;
    glpcore_hook hook;             /* where it is applied */
    glpcore_structure structure;
    uint64_t n_embd;
    uint32_t rank;
    size_t n_layers;               /* layers that carry directions */
    uint32_t layer_min, layer_max;
    size_t n_renormalised;         /* directions scaled to norm 1 in the private copy */
    int adoptable;                 /* glp.alpha_default may be adopted: the hook was named and is
                                    * the file's, and the file has one */
    double alpha_default;          /* meaningful when adoptable */
} glpcore_vector_info;

GLPCORE_API glpcore_status glpcore_vector_info_get(const glpcore_vector *vector,
                                                   glpcore_vector_info *info);

/* The index-th layer that carries directions, ascending; UINT32_MAX past the end. */
GLPCORE_API uint32_t glpcore_vector_layer(const glpcore_vector *vector, size_t index);

/* Direction j (0 .. rank-1) of `layer`: n_embd float32, 4-byte aligned, valid until the vector is
 * freed; NULL when the layer is not steered or j is out of range. Points into the file's storage
 * unless the vector was renormalised. */
GLPCORE_API const float *glpcore_direction(const glpcore_vector *vector, uint32_t layer,
                                           uint32_t j);

/* The caller's wishes about strength. Zero is a value ("no steering"), so each has a flag. */
typedef struct glpcore_strength {
    size_t struct_size;
    int has_alpha;
    double alpha;                  /* explicit; wins over everything */
    int has_fallback;
    double fallback;               /* used when the file's alpha_default is not adopted */
} glpcore_strength;

/* alpha(layer, j) = alpha x dir_scales[j] x layer_scales[layer], in float64, left to right. alpha
 * is the explicit one; else glp.alpha_default when adoptable; else the fallback; else
 * GLPCORE_REFUSED (alpha-missing). *adopted (may be NULL) is 1 when alpha_default was used.
 * strength NULL states nothing. GLPCORE_INVALID for a layer or j the vector lacks, or a strength
 * that is NaN or infinite, or becomes so with the scales. */
GLPCORE_API glpcore_status glpcore_alpha(const glpcore_vector *vector, uint32_t layer, uint32_t j,
                                         const glpcore_strength *strength, double *alpha,
                                         int *adopted, char *message, size_t message_size);

/* Fills a dense table of n_rows x n_embd float32, row = layer (step - 1 with per-execution-step);
 * rows that are not steered are zero, which projects nothing. Refuses rank > 1 (rank), and
 * per-layer strengths (scales) unless `alphas` (n_rows doubles) is given: it gets the strength of
 * every row, 0 where nothing is steered. n_embd must be the vector's, and n_rows reach its last
 * layer (GLPCORE_INVALID). On any failure the table and the strengths are all zero. */
GLPCORE_API glpcore_status glpcore_fill_dense(const glpcore_vector *vector, float *table,
                                              size_t n_rows, size_t n_embd,
                                              const glpcore_strength *strength, double *alphas,
                                              char *message, size_t message_size);

/* ---- Applying: rows of hidden states --------------------------------------------------------- */

typedef enum glpcore_dtype {
    GLPCORE_F32 = 1,
    GLPCORE_F16 = 2,   /* IEEE binary16 */
    GLPCORE_BF16 = 3
} glpcore_dtype;

/* The most directions that a layer may have, and glpcore_project_rows_k takes. */
#define GLPCORE_MAX_RANK 256

/* Runs task(context, 0) .. task(context, n_tasks - 1), in any order and on any threads, and returns
 * when all are done. A host passes its own worker pool this way. */
typedef struct glpcore_executor {
    size_t struct_size;
    size_t n_threads;      /* how many tasks to cut the work into, at most */
    void (*run)(void *self, void (*task)(void *context, size_t index), void *context,
                size_t n_tasks);
    void *self;
} glpcore_executor;

/* A pool of n_threads - 1 threads beside the caller's, for hosts without one of their own. Its threads
 * look for the next job for some 30 us before they sleep, unless the process has fewer processors.
 * It works for one caller at a time; who finds it busy runs all of its tasks on its own thread. Not
 * usable in a child after fork: make another there. */
typedef struct glpcore_pool glpcore_pool;
GLPCORE_API glpcore_status glpcore_pool_create(size_t n_threads, glpcore_pool **pool);
GLPCORE_API void glpcore_pool_free(glpcore_pool *pool);
GLPCORE_API const glpcore_executor *glpcore_pool_executor(const glpcore_pool *pool);

/* For each of n_rows rows: x <- x - scale * (v . x) * v, in place.
 *
 * x: rows of n_embd elements of `dtype`, `row_stride` elements apart (>= n_embd when n_rows > 1),
 * aligned to their own size. v: n_embd float32. x and v do not overlap. executor NULL: the caller's
 * thread. The bits of a row do not depend on the number of rows, the row's place, the stride, the
 * executor or the instruction set; docs/numerics.md gives the order of summation and the bound.
 *
 * scale == 0 touches neither x nor v. A v of zeros leaves x as it is, NaN and Inf included,
 * whatever the scale. A NaN or Inf in x stays in its row. Otherwise a NaN in v or scale propagates.
 * GLPCORE_INVALID for a NULL with
 * n_rows > 0, an unknown dtype, a short stride, misalignment, or an extent that overflows. */
GLPCORE_API glpcore_status glpcore_project_rows(void *x, glpcore_dtype dtype, size_t n_rows,
                                                size_t n_embd, size_t row_stride, const float *v,
                                                double scale, const glpcore_executor *executor);

/* x <- x - sum_j alphas[j] (d_j . x) d_j with every dot taken from the incoming row: the basis is
 * orthonormal and the order does not matter. d: k pointers to n_embd float32; k at most
 * GLPCORE_MAX_RANK (GLPCORE_INVALID above). k = 1 is glpcore_project_rows, bit for bit; a j with
 * alphas[j] == 0 or zero d_j contributes nothing. */
GLPCORE_API glpcore_status glpcore_project_rows_k(void *x, glpcore_dtype dtype, size_t n_rows,
                                                  size_t n_embd, size_t row_stride,
                                                  const float *const *d, const double *alphas,
                                                  size_t k, const glpcore_executor *executor);

/* x <- x + scale * v, for additive vectors: one float32 fma per element with (float)scale, one more
 * rounding for 16-bit x. A scale whose float32 value is 0 touches neither x nor v. */
GLPCORE_API glpcore_status glpcore_add_rows(void *x, glpcore_dtype dtype, size_t n_rows,
                                            size_t n_embd, size_t row_stride, const float *v,
                                            double scale, const glpcore_executor *executor);

#ifdef __cplusplus
}
#endif

#endif /* GLPCORE_H */
