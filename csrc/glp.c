#include "glp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "text.h"

const char *glpcore_version(void) { return GLPCORE_VERSION; }

/* ---- Vocabulary ---- */

const char *glpcore_hook_name(glpcore_hook hook) {
    switch (hook) {
        case GLPCORE_HOOK_RESIDUAL_STREAM_POST_LAYER: return "residual_stream_post_layer";
        case GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL: return "ffn_out_pre_residual";
        case GLPCORE_HOOK_ATTN_OUT_PRE_RESIDUAL: return "attn_out_pre_residual";
        default: return NULL;
    }
}

const char *glpcore_mode_name(glpcore_mode mode) {
    switch (mode) {
        case GLPCORE_MODE_PROJECT: return "project";
        case GLPCORE_MODE_ADD: return "add";
        default: return NULL;
    }
}

glpcore_hook glpcore_hook_from_name(const char *name, size_t size) {
    glpcore_text text;
    int hook;
    text.data = name;
    text.size = size;
    for (hook = 1; hook <= 3; hook++) {
        if (glpcore_text_is(text, glpcore_hook_name((glpcore_hook)hook))) return (glpcore_hook)hook;
    }
    return GLPCORE_HOOK_UNKNOWN;
}

/* ---- Keys ---- */

enum { TYPE_TEXT, TYPE_INTEGER, TYPE_FLOAT, TYPE_BOOL };

static const struct {
    const char *name;
    int type;
} keys[GLPCORE_KEY_COUNT] = {
    {"glp.mode", TYPE_TEXT},
    {"glp.spec_version", TYPE_INTEGER},
    {"glp.hook_point", TYPE_TEXT},
    {"glp.derived_at", TYPE_TEXT},
    {"glp.structure", TYPE_TEXT},
    {"glp.rank", TYPE_INTEGER},
    {"glp.orthonormal", TYPE_BOOL},
    {"glp.layer_ids_zero_based", TYPE_TEXT},
    {"glp.alpha_default", TYPE_FLOAT},
    {"glp.dir_scales", TYPE_TEXT},
    {"glp.layer_scales", TYPE_TEXT},
    {"glp.content_sha256", TYPE_TEXT},
    {"glp.created", TYPE_TEXT},
    {"glp.method", TYPE_TEXT},
    {"glp.contrast", TYPE_TEXT},
    {"glp.generator", TYPE_TEXT},
    {"glp.validation", TYPE_TEXT},
    {"glp.base_model", TYPE_TEXT},
    {"glp.base_revision", TYPE_TEXT},
    {"general.name", TYPE_TEXT},
    {"general.base_model.0.name", TYPE_TEXT},
    {"general.base_model.0.organization", TYPE_TEXT},
    {"general.base_model.0.version", TYPE_TEXT},
    {"general.base_model.0.repo_url", TYPE_TEXT},
    {"controlvector.model_hint", TYPE_TEXT},
};

const char *glpcore_key_name(glpcore_key key) { return keys[key].name; }

static int find_key(glpcore_text text) {
    int key;
    for (key = 0; key < GLPCORE_KEY_COUNT; key++) {
        if (glpcore_text_is(text, keys[key].name)) return key;
    }
    return -1;
}

int glpcore_key_is_known(glpcore_text key) { return find_key(key) >= 0; }

static int decode_integer(const glpcore_gguf_kv *kv, int64_t *value) {
    const unsigned char *p = kv->value;
    switch (kv->type) {
        case GLPCORE_GGUF_UINT8: *value = p[0]; return 1;
        case GLPCORE_GGUF_INT8: *value = (int64_t)p[0] - (p[0] > 127 ? 256 : 0); return 1;
        case GLPCORE_GGUF_UINT16: *value = p[0] | p[1] << 8; return 1;
        case GLPCORE_GGUF_INT16:
            *value = p[0] | p[1] << 8;
            if (*value > 32767) *value -= 65536;
            return 1;
        case GLPCORE_GGUF_UINT32: *value = glpcore_load_u32(p); return 1;
        case GLPCORE_GGUF_INT32:
            *value = glpcore_load_u32(p);
            if (*value > 2147483647) *value -= (int64_t)1 << 32;
            return 1;
        case GLPCORE_GGUF_UINT64:
        case GLPCORE_GGUF_INT64: {
            const uint64_t bits = glpcore_load_u64(p);
            if (kv->type == GLPCORE_GGUF_INT64) {
                memcpy(value, &bits, sizeof *value);
            } else {
                *value = bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
            }
            return 1;
        }
        default: return 0;
    }
}

static int decode_float(const glpcore_gguf_kv *kv, double *value) {
    if (kv->type == GLPCORE_GGUF_FLOAT32) {
        const uint32_t bits = glpcore_load_u32(kv->value);
        float single;
        memcpy(&single, &bits, sizeof single);
        *value = single;
        return 1;
    }
    if (kv->type == GLPCORE_GGUF_FLOAT64) {
        const uint64_t bits = glpcore_load_u64(kv->value);
        memcpy(value, &bits, sizeof *value);
        return 1;
    }
    return 0;
}

static int decode(const glpcore_gguf_kv *kv, int type, glpcore_value *value) {
    switch (type) {
        case TYPE_TEXT:
            if (kv->type != GLPCORE_GGUF_STRING) return 0;
            value->text.data = (const char *)kv->value + 8;
            value->text.size = kv->value_size - 8;
            return 1;
        case TYPE_INTEGER: return decode_integer(kv, &value->integer);
        case TYPE_FLOAT: return decode_float(kv, &value->number);
        default: /* TYPE_BOOL */
            value->integer = kv->value[0];
            return kv->type == GLPCORE_GGUF_BOOL && kv->value[0] <= 1;
    }
}

static void read_values(glpcore_file *file) {
    size_t i;
    for (i = 0; i < file->gguf.n_kvs; i++) {
        const glpcore_gguf_kv *kv = &file->gguf.kvs[i];
        const int key = find_key(kv->key);
        if (glpcore_text_has_prefix(kv->key, "dspark.")) file->has_legacy_keys = 1;
        if (glpcore_text_has_prefix(kv->key, "glp.")) file->has_glp_keys = 1;
        if (key < 0) continue;
        file->values[key].kv = kv;
        file->values[key].state =
            decode(kv, keys[key].type, &file->values[key]) ? GLPCORE_PRESENT : GLPCORE_MISTYPED;
    }
}

/* ---- The file's own statements ---- */

static const glpcore_value *value_of(const glpcore_file *file, glpcore_key key) {
    return &file->values[key];
}

glpcore_mode glpcore_file_mode(const glpcore_file *file) {
    const glpcore_value *mode = value_of(file, GLPCORE_KEY_MODE);
    if (file->raw) return GLPCORE_MODE_PROJECT;
    if (mode->state == GLPCORE_ABSENT) return GLPCORE_MODE_ADD;
    if (glpcore_text_is(mode->text, "project")) return GLPCORE_MODE_PROJECT;
    if (glpcore_text_is(mode->text, "add")) return GLPCORE_MODE_ADD;
    return GLPCORE_MODE_UNKNOWN;
}

glpcore_hook glpcore_file_hook(const glpcore_file *file) {
    const glpcore_value *hook = value_of(file, GLPCORE_KEY_HOOK_POINT);
    if (hook->state == GLPCORE_ABSENT && glpcore_file_mode(file) == GLPCORE_MODE_ADD) {
        return GLPCORE_HOOK_RESIDUAL_STREAM_POST_LAYER;
    }
    if (hook->text.data == NULL) return GLPCORE_HOOK_UNKNOWN;
    return glpcore_hook_from_name(hook->text.data, hook->text.size);
}

glpcore_text glpcore_file_hook_text(const glpcore_file *file) {
    static const char unsaid[] = "residual_stream_post_layer";
    const glpcore_value *hook = value_of(file, GLPCORE_KEY_HOOK_POINT);
    glpcore_text text = hook->text;
    if (hook->state == GLPCORE_ABSENT && glpcore_file_mode(file) == GLPCORE_MODE_ADD) {
        text.data = unsaid;
        text.size = sizeof unsaid - 1;
    }
    return text;
}

glpcore_structure glpcore_file_structure(const glpcore_file *file) {
    const glpcore_value *structure = value_of(file, GLPCORE_KEY_STRUCTURE);
    if (structure->state == GLPCORE_ABSENT) return GLPCORE_STRUCTURE_PER_LAYER;
    if (glpcore_text_is(structure->text, "per-layer")) return GLPCORE_STRUCTURE_PER_LAYER;
    if (glpcore_text_is(structure->text, "per-execution-step")) {
        return GLPCORE_STRUCTURE_PER_EXECUTION_STEP;
    }
    return GLPCORE_STRUCTURE_OTHER;
}

static glpcore_text first_text(const glpcore_file *file, glpcore_key first, glpcore_key second) {
    const glpcore_text text = value_of(file, first)->text;
    return text.data != NULL && text.size > 0 ? text : value_of(file, second)->text;
}

glpcore_text glpcore_file_base_name(const glpcore_file *file) {
    return first_text(file, GLPCORE_KEY_BASE_NAME, GLPCORE_KEY_GLP_BASE_MODEL);
}

glpcore_text glpcore_file_base_revision(const glpcore_file *file) {
    return first_text(file, GLPCORE_KEY_BASE_VERSION, GLPCORE_KEY_GLP_BASE_REVISION);
}

/* ---- Directions ---- */

glpcore_name_kind glpcore_parse_name(glpcore_text name, uint32_t *layer, uint32_t *j) {
    static const char prefix[] = "direction.";
    const size_t skip = sizeof prefix - 1;
    const char *digits, *dot;
    size_t size;
    *layer = *j = 0;
    if (!glpcore_text_has_prefix(name, prefix)) return GLPCORE_NAME_OTHER;
    digits = name.data + skip;
    size = name.size - skip;
    dot = (const char *)memchr(digits, '.', size);
    if (dot != NULL) {
        const size_t rest = size - (size_t)(dot - digits) - 1;
        /* j = 0 is direction.N itself, so direction.N.0 would be a second name for it. */
        if (!glpcore_parse_u32(dot + 1, rest, GLPCORE_MAX_LAYER, j) || *j == 0) {
            return GLPCORE_NAME_BAD;
        }
        size = (size_t)(dot - digits);
    }
    return glpcore_parse_u32(digits, size, GLPCORE_MAX_LAYER, layer) ? GLPCORE_NAME_CANONICAL
                                                                     : GLPCORE_NAME_BAD;
}

static int compare_named(const void *a, const void *b) {
    const glpcore_named *x = (const glpcore_named *)a, *y = (const glpcore_named *)b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

static glpcore_status find_directions(glpcore_file *file) {
    size_t i, count = 0, sound = 0;
    uint32_t layer, j;
    for (i = 0; i < file->gguf.n_tensors; i++) {
        count += glpcore_parse_name(file->gguf.tensors[i].name, &layer, &j) ==
                 GLPCORE_NAME_CANONICAL;
    }
    file->named = (glpcore_named *)calloc(count + 1, sizeof *file->named);
    if (file->named == NULL) return GLPCORE_NOMEM;
    for (i = 0; i < file->gguf.n_tensors; i++) {
        const glpcore_gguf_tensor *tensor = &file->gguf.tensors[i];
        glpcore_named *named = &file->named[file->n_named];
        if (glpcore_parse_name(tensor->name, &layer, &j) != GLPCORE_NAME_CANONICAL) continue;
        named->layer = layer;
        named->j = j;
        named->tensor = tensor;
        named->data = file->gguf.data + tensor->offset;
        named->offset = tensor->offset;
        if (tensor->type == GLPCORE_GGML_F32 && tensor->n_dims == 1) {
            named->n_embd = tensor->dims[0];
        }
        sound += named->n_embd > 0;
        file->n_named++;
    }
    qsort(file->named, file->n_named, sizeof *file->named, compare_named);
    file->n_sound = sound;
    if (sound == file->n_named) {
        file->sound = file->named;
        return GLPCORE_OK;
    }
    file->sound = (glpcore_named *)calloc(sound + 1, sizeof *file->sound);
    if (file->sound == NULL) return GLPCORE_NOMEM;
    for (i = sound = 0; i < file->n_named; i++) {
        if (file->named[i].n_embd > 0) file->sound[sound++] = file->named[i];
    }
    return GLPCORE_OK;
}

static int row_is_zero(const unsigned char *row, size_t n_embd) {
    size_t i;
    uint32_t any = 0;
    for (i = 0; i < n_embd; i++) any |= glpcore_load_u32(row + 4 * i) & 0x7fffffffu;
    return any == 0;
}

/* Rows of a raw file that steer: those that are not all zero. */
static glpcore_status find_rows(glpcore_file *file) {
    const size_t row_bytes = 4 * file->raw_n_embd;
    size_t i;
    file->named = (glpcore_named *)calloc(file->raw_layers, sizeof *file->named);
    if (file->named == NULL) return GLPCORE_NOMEM;
    for (i = 0; i < file->raw_layers; i++) {
        glpcore_named *named = &file->named[file->n_named];
        if (row_is_zero(file->source.data + i * row_bytes, file->raw_n_embd)) continue;
        named->layer = (uint32_t)i;
        named->data = file->source.data + i * row_bytes;
        named->n_embd = file->raw_n_embd;
        named->offset = i * row_bytes;
        file->n_named++;
    }
    file->sound = file->named;
    file->n_sound = file->n_named;
    return GLPCORE_OK;
}

/* Four sums side by side, because one would wait for each addition to finish; four scalars, because
 * compilers make better code of them than of arrays of lanes (49 us against 59 to 98 a file). */
double glpcore_dot(const unsigned char *a, const unsigned char *b, size_t n) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    float x[4], y[4];
    size_t i;
    for (i = 0; i + 4 <= n; i += 4) {
        memcpy(x, a + 4 * i, sizeof x);
        memcpy(y, b + 4 * i, sizeof y);
        s0 += (double)x[0] * (double)y[0];
        s1 += (double)x[1] * (double)y[1];
        s2 += (double)x[2] * (double)y[2];
        s3 += (double)x[3] * (double)y[3];
    }
    for (; i < n; i++) {
        memcpy(x, a + 4 * i, sizeof x[0]);
        memcpy(y, b + 4 * i, sizeof y[0]);
        s0 += (double)x[0] * (double)y[0];
    }
    return (s0 + s2) + (s1 + s3);
}

double glpcore_norm(const unsigned char *data, size_t n) {
    return sqrt(glpcore_dot(data, data, n));
}

/* On the bits, so that a host's -ffast-math cannot decide that nothing is ever NaN: an exponent of
 * all ones, and no other, carries into the sign's place. */
int glpcore_all_finite(const unsigned char *data, size_t n) {
    uint32_t carried = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, data + 4 * i, sizeof bits);
        carried |= (bits & 0x7f800000u) + 0x00800000u;
    }
    return carried >> 31 == 0;
}

/* ---- Opening ---- */

static glpcore_file *new_file(const char *name, glpcore_report **report) {
    glpcore_file *file = (glpcore_file *)calloc(1, sizeof *file);
    *report = glpcore_report_new();
    if (file == NULL || *report == NULL) {
        free(file);
        glpcore_report_free(*report);
        *report = NULL;
        return NULL;
    }
    if (name != NULL) {
        const size_t size = strlen(name) + 1;
        file->name = (char *)malloc(size);
        if (file->name == NULL) {
            free(file);
            glpcore_report_free(*report);
            *report = NULL;
            return NULL;
        }
        memcpy(file->name, name, size);
    }
    return file;
}

static glpcore_status interpret_gguf(glpcore_file *file, glpcore_report *report) {
    glpcore_status status =
        glpcore_gguf_read(file->source.data, file->source.size, &file->gguf, report);
    if (status != GLPCORE_OK) return status;
    read_values(file);
    return find_directions(file);
}

static glpcore_status interpret_raw(glpcore_file *file, glpcore_report *report) {
    const size_t n_layers = file->raw_layers, n_embd = file->raw_n_embd;
    if (glpcore_gguf_sniff(file->source.data, file->source.size)) {
        glpcore_report_add(report, GLPCORE_SEVERITY_FORMAT, "raw-shape", NULL,
                           "Open it as GGUF, without a shape. The file begins with the GGUF "
                           "magic, so it is not a headerless .f32.");
        return GLPCORE_FORMAT;
    }
    if (n_layers == 0 || n_embd == 0 || n_layers > GLPCORE_MAX_LAYER ||
        n_embd > SIZE_MAX / 4 / n_layers) {
        glpcore_report_add(report, GLPCORE_SEVERITY_FORMAT, "raw-shape", NULL,
                           "Give n_layers and n_embd of the raw .f32. %llu x %llu is not a shape.",
                           (unsigned long long)n_layers, (unsigned long long)n_embd);
        return GLPCORE_FORMAT;
    }
    if (file->source.size != 4 * n_layers * n_embd) {
        glpcore_report_add(report, GLPCORE_SEVERITY_FORMAT, "raw-size", NULL,
                           "Check n_layers and n_embd of the raw .f32. %llu x %llu float32 take "
                           "%llu bytes and the file has %llu.",
                           (unsigned long long)n_layers, (unsigned long long)n_embd,
                           (unsigned long long)(4 * n_layers * n_embd),
                           (unsigned long long)file->source.size);
        return GLPCORE_FORMAT;
    }
    return find_rows(file);
}

/* The end of every way to open: `status` is that of getting the bytes. */
static glpcore_status finish_open(glpcore_file *file, glpcore_status status,
                                  glpcore_report *report, glpcore_file **out,
                                  glpcore_report **out_report, char *message,
                                  size_t message_size) {
    if (status == GLPCORE_OK) {
        status = file->raw ? interpret_raw(file, report) : interpret_gguf(file, report);
    }
    if (status == GLPCORE_OK) {
        file->warnings = glpcore_report_new();
        if (file->warnings != NULL) glpcore_report_append(file->warnings, report);
        status = glpcore_report_status(file->warnings);
    }
    if (status == GLPCORE_NOMEM) {
        glpcore_report_free(report);
        report = NULL;
    }
    status = glpcore_report_finish(report, out_report, message, message_size);
    if (status == GLPCORE_OK) {
        *out = file;
    } else {
        glpcore_close(file);
    }
    return status;
}

static glpcore_status open_any(const char *path, const void *data, size_t size, const char *name,
                               int raw, size_t n_layers, size_t n_embd,
                               const glpcore_open_options *options, glpcore_file **out,
                               glpcore_report **out_report, char *message, size_t message_size) {
    glpcore_open_options known;
    glpcore_report *report;
    glpcore_status status;
    glpcore_file *file;
    if (out_report != NULL) *out_report = NULL;
    if (out == NULL) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a place for the file handle.");
    }
    *out = NULL;
    if (path == NULL && data == NULL) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a path, or bytes in memory: got NULL.");
    }
    if (!glpcore_struct_in(&known, sizeof known, options)) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Set struct_size of the open options, and zero the rest.");
    }
    file = new_file(path != NULL ? path : name, &report);
    if (file == NULL) return glpcore_report_finish(NULL, out_report, message, message_size);
    file->raw = raw;
    file->raw_layers = n_layers;
    file->raw_n_embd = n_embd;
    status = path != NULL ? glpcore_source_open(path, &known, &file->source, report)
                          : glpcore_source_memory(data, size, &known, &file->source, report);
    return finish_open(file, status, report, out, out_report, message, message_size);
}

glpcore_status glpcore_open(const char *path, const glpcore_open_options *options,
                            glpcore_file **file, glpcore_report **report, char *message,
                            size_t message_size) {
    return open_any(path, NULL, 0, NULL, 0, 0, 0, options, file, report, message, message_size);
}

glpcore_status glpcore_open_memory(const void *data, size_t size, const char *name,
                                   const glpcore_open_options *options, glpcore_file **file,
                                   glpcore_report **report, char *message, size_t message_size) {
    return open_any(NULL, data, size, name, 0, 0, 0, options, file, report, message, message_size);
}

glpcore_status glpcore_open_raw(const char *path, size_t n_layers, size_t n_embd,
                                const glpcore_open_options *options, glpcore_file **file,
                                glpcore_report **report, char *message, size_t message_size) {
    return open_any(path, NULL, 0, NULL, 1, n_layers, n_embd, options, file, report, message,
                    message_size);
}

glpcore_status glpcore_open_raw_memory(const void *data, size_t size, const char *name,
                                       size_t n_layers, size_t n_embd,
                                       const glpcore_open_options *options, glpcore_file **file,
                                       glpcore_report **report, char *message,
                                       size_t message_size) {
    return open_any(NULL, data, size, name, 1, n_layers, n_embd, options, file, report, message,
                    message_size);
}

void glpcore_close(glpcore_file *file) {
    if (file == NULL) return;
    if (file->sound != file->named) free(file->sound);
    free(file->named);
    glpcore_gguf_free(&file->gguf);
    glpcore_report_free(file->warnings);
    glpcore_source_close(&file->source);
    free(file->name);
    free(file);
}

/* ---- Describing without judging ---- */

/* Rank as found: directions of the first layer; layers are counted on the way. */
static void count_layers(const glpcore_file *file, glpcore_info *info) {
    size_t i;
    for (i = 0; i < file->n_named; i++) {
        if (i == 0 || file->named[i].layer != file->named[i - 1].layer) info->n_layers++;
        if (info->n_layers == 1) info->rank++;
    }
    if (file->n_named > 0) {
        info->layer_min = file->named[0].layer;
        info->layer_max = file->named[file->n_named - 1].layer;
    }
}

static void measure_norms(const glpcore_file *file, glpcore_info *info) {
    size_t i;
    info->norm_min = info->norm_max = glpcore_nan();
    for (i = 0; i < file->n_sound; i++) {
        const double norm = glpcore_norm(file->sound[i].data, (size_t)file->sound[i].n_embd);
        if (i == 0 || norm < info->norm_min) info->norm_min = norm;
        if (i == 0 || norm > info->norm_max) info->norm_max = norm;
    }
}

glpcore_status glpcore_info_get(const glpcore_file *file, glpcore_info *out) {
    const glpcore_value *alpha, *version;
    glpcore_info info;
    if (file == NULL || out == NULL) return GLPCORE_INVALID;
    memset(&info, 0, sizeof info);
    alpha = value_of(file, GLPCORE_KEY_ALPHA_DEFAULT);
    version = value_of(file, GLPCORE_KEY_SPEC_VERSION);
    info.raw = file->raw;
    info.file_size = file->source.size;
    info.mode = glpcore_file_mode(file);
    info.mode_text = value_of(file, GLPCORE_KEY_MODE)->text;
    info.mode_declared = value_of(file, GLPCORE_KEY_MODE)->state != GLPCORE_ABSENT;
    info.spec_version_declared = version->state == GLPCORE_PRESENT;
    info.spec_version = 1;
    if (info.spec_version_declared && version->integer >= 0 && version->integer <= UINT32_MAX) {
        info.spec_version = (uint32_t)version->integer;
    }
    info.hook = glpcore_file_hook(file);
    info.hook_text = value_of(file, GLPCORE_KEY_HOOK_POINT)->text;
    info.derived_at = value_of(file, GLPCORE_KEY_DERIVED_AT)->text;
    info.transferred = info.derived_at.data != NULL &&
                       glpcore_file_hook_text(file).data != NULL &&
                       !glpcore_text_equal(info.derived_at, glpcore_file_hook_text(file));
    info.structure = glpcore_file_structure(file);
    info.structure_text = value_of(file, GLPCORE_KEY_STRUCTURE)->text;
    info.has_alpha = alpha->state == GLPCORE_PRESENT && glpcore_finite_f64(&alpha->number);
    info.alpha = info.has_alpha ? alpha->number : 0.0;
    info.has_dir_scales = value_of(file, GLPCORE_KEY_DIR_SCALES)->state != GLPCORE_ABSENT;
    info.has_layer_scales = value_of(file, GLPCORE_KEY_LAYER_SCALES)->state != GLPCORE_ABSENT;
    info.n_embd = file->n_sound > 0 ? file->sound[0].n_embd : (uint64_t)file->raw_n_embd;
    info.n_directions = file->n_sound;
    count_layers(file, &info);
    measure_norms(file, &info);
    info.base_name = glpcore_file_base_name(file);
    info.base_revision = glpcore_file_base_revision(file);
    info.base_organization = value_of(file, GLPCORE_KEY_BASE_ORGANIZATION)->text;
    info.base_url = value_of(file, GLPCORE_KEY_BASE_URL)->text;
    info.method = value_of(file, GLPCORE_KEY_METHOD)->text;
    info.contrast = value_of(file, GLPCORE_KEY_CONTRAST)->text;
    info.created = value_of(file, GLPCORE_KEY_CREATED)->text;
    info.generator = value_of(file, GLPCORE_KEY_GENERATOR)->text;
    info.content_sha256 = value_of(file, GLPCORE_KEY_CONTENT_SHA256)->text;
    info.name = value_of(file, GLPCORE_KEY_NAME)->text;
    info.model_hint = value_of(file, GLPCORE_KEY_MODEL_HINT)->text;
    return glpcore_struct_out(out, &info, sizeof info) ? GLPCORE_OK : GLPCORE_INVALID;
}

size_t glpcore_kv_count(const glpcore_file *file) { return file == NULL ? 0 : file->gguf.n_kvs; }

glpcore_status glpcore_kv_at(const glpcore_file *file, size_t index, glpcore_kv *out) {
    const glpcore_gguf_kv *kv;
    glpcore_kv full;
    if (index >= glpcore_kv_count(file)) return GLPCORE_INVALID;
    kv = &file->gguf.kvs[index];
    full.struct_size = sizeof full;
    full.key = kv->key;
    full.type = kv->type;
    full.value = kv->value;
    full.value_size = kv->value_size;
    full.offset = (uint64_t)(kv->value - file->gguf.data);
    return glpcore_struct_out(out, &full, sizeof full) ? GLPCORE_OK : GLPCORE_INVALID;
}

glpcore_status glpcore_kv_find(const glpcore_file *file, const char *key, size_t size,
                               glpcore_kv *kv) {
    glpcore_text wanted;
    size_t i;
    if (key == NULL) return GLPCORE_INVALID;
    wanted.data = key;
    wanted.size = size;
    for (i = 0; i < glpcore_kv_count(file); i++) {
        if (glpcore_text_equal(file->gguf.kvs[i].key, wanted)) return glpcore_kv_at(file, i, kv);
    }
    return GLPCORE_INVALID;
}

size_t glpcore_tensor_count(const glpcore_file *file) {
    return file == NULL ? 0 : file->gguf.n_tensors;
}

glpcore_status glpcore_tensor_at(const glpcore_file *file, size_t index, glpcore_tensor *out) {
    const glpcore_gguf_tensor *tensor;
    glpcore_tensor full;
    if (index >= glpcore_tensor_count(file)) return GLPCORE_INVALID;
    tensor = &file->gguf.tensors[index];
    full.struct_size = sizeof full;
    full.name = tensor->name;
    full.type = tensor->type;
    full.n_dims = tensor->n_dims;
    memcpy(full.dims, tensor->dims, sizeof full.dims);
    full.offset = tensor->offset;
    full.n_bytes = tensor->n_bytes;
    full.data = file->gguf.data + tensor->offset;
    return glpcore_struct_out(out, &full, sizeof full) ? GLPCORE_OK : GLPCORE_INVALID;
}

/* Neighbouring layers are alike in a sound vector; a break shows a wrong layer map. */
static double cosine_to_previous(const glpcore_file *file, size_t index) {
    const glpcore_named *row = &file->sound[index], *previous;
    const size_t n = (size_t)row->n_embd;
    size_t low = 0, high = index; /* sorted by layer, then by j */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const glpcore_named *at = &file->sound[middle];
        if (at->layer + 1 < row->layer || (at->layer + 1 == row->layer && at->j < row->j)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    previous = &file->sound[low];
    if (previous->layer + 1 != row->layer || previous->j != row->j ||
        previous->n_embd != row->n_embd) {
        return glpcore_nan();
    }
    return glpcore_dot(row->data, previous->data, n) /
           (glpcore_norm(row->data, n) * glpcore_norm(previous->data, n));
}

glpcore_status glpcore_payload_at(const glpcore_file *file, size_t index, glpcore_payload *out) {
    const glpcore_named *named;
    glpcore_payload full;
    if (file == NULL || index >= file->n_sound) return GLPCORE_INVALID;
    named = &file->sound[index];
    full.struct_size = sizeof full;
    full.layer = named->layer;
    full.j = named->j;
    full.data = (const float *)(const void *)named->data;
    full.n_embd = (size_t)named->n_embd;
    full.offset = named->offset;
    full.norm = glpcore_norm(named->data, (size_t)named->n_embd);
    full.cosine = cosine_to_previous(file, index);
    return glpcore_struct_out(out, &full, sizeof full) ? GLPCORE_OK : GLPCORE_INVALID;
}
