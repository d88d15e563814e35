/* The meaning of a file: what its keys and tensors say, before anybody judges them. */
#ifndef GLPCORE_GLP_H
#define GLPCORE_GLP_H

#include "gguf.h"
#include "source.h"
#include "strict.h"

#define GLPCORE_MAX_LAYER 1000000u

#define GLPCORE_UNIT_TOLERANCE 1e-3
#define GLPCORE_ZERO_NORM 1e-12

/* The keys that glpcore reads. The order is that of the table in glp.c. */
typedef enum glpcore_key {
    GLPCORE_KEY_MODE,
    GLPCORE_KEY_SPEC_VERSION,
    GLPCORE_KEY_HOOK_POINT,
    GLPCORE_KEY_DERIVED_AT,
    GLPCORE_KEY_STRUCTURE,
    GLPCORE_KEY_RANK,
    GLPCORE_KEY_ORTHONORMAL,
    GLPCORE_KEY_LAYER_IDS,
    GLPCORE_KEY_ALPHA_DEFAULT,
    GLPCORE_KEY_DIR_SCALES,
    GLPCORE_KEY_LAYER_SCALES,
    GLPCORE_KEY_CONTENT_SHA256,
    GLPCORE_KEY_CREATED,
    GLPCORE_KEY_METHOD,
    GLPCORE_KEY_CONTRAST,
    GLPCORE_KEY_GENERATOR,
    GLPCORE_KEY_VALIDATION,
    GLPCORE_KEY_GLP_BASE_MODEL,
    GLPCORE_KEY_GLP_BASE_REVISION,
    GLPCORE_KEY_NAME,
    GLPCORE_KEY_BASE_NAME,
    GLPCORE_KEY_BASE_ORGANIZATION,
    GLPCORE_KEY_BASE_VERSION,
    GLPCORE_KEY_BASE_URL,
    GLPCORE_KEY_MODEL_HINT,
    GLPCORE_KEY_COUNT
} glpcore_key;

typedef struct glpcore_value {
    enum { GLPCORE_ABSENT, GLPCORE_PRESENT, GLPCORE_MISTYPED } state;
    const glpcore_gguf_kv *kv;
    glpcore_text text;
    int64_t integer; /* bools too; out of range for int64 reads as INT64_MAX */
    double number;
} glpcore_value;

/* A tensor with a canonical direction name. */
typedef struct glpcore_named {
    uint32_t layer, j;
    const glpcore_gguf_tensor *tensor; /* NULL for a raw row */
    const unsigned char *data;
    uint64_t n_embd;                   /* 0 unless F32 and 1-D */
    uint64_t offset;
} glpcore_named;

struct glpcore_file {
    glpcore_source source;
    char *name;               /* as the caller gave it, or NULL */
    int raw;
    size_t raw_layers, raw_n_embd;
    glpcore_gguf gguf;        /* empty for raw files */
    glpcore_report *warnings; /* of the container */
    glpcore_value values[GLPCORE_KEY_COUNT];
    int has_legacy_keys, has_glp_keys;
    glpcore_named *named;     /* every canonical direction, by (layer, j) */
    size_t n_named;
    glpcore_named *sound;     /* those that are F32, 1-D and not empty; may be `named` itself */
    size_t n_sound;
};

/* The file's own statements, with the defaults of the format. */
glpcore_mode glpcore_file_mode(const glpcore_file *file);
glpcore_hook glpcore_file_hook(const glpcore_file *file);
/* The hook point in the file's words, or the one that an additive file has unsaid. */
glpcore_text glpcore_file_hook_text(const glpcore_file *file);
glpcore_structure glpcore_file_structure(const glpcore_file *file);
glpcore_text glpcore_file_base_name(const glpcore_file *file);
glpcore_text glpcore_file_base_revision(const glpcore_file *file);

const char *glpcore_key_name(glpcore_key key);
int glpcore_key_is_known(glpcore_text key);

/* Whether a tensor's name is that of a direction, and a canonical one. */
typedef enum glpcore_name_kind {
    GLPCORE_NAME_OTHER,    /* not a direction at all */
    GLPCORE_NAME_BAD,      /* begins with "direction." but is not canonical */
    GLPCORE_NAME_CANONICAL
} glpcore_name_kind;
glpcore_name_kind glpcore_parse_name(glpcore_text name, uint32_t *layer, uint32_t *j);

/* Euclidean norm in float64 of n little-endian float32, and whether all are finite. */
double glpcore_norm(const unsigned char *data, size_t n);
int glpcore_all_finite(const unsigned char *data, size_t n);
double glpcore_dot(const unsigned char *a, const unsigned char *b, size_t n);

#endif
