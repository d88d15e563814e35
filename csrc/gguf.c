#include "gguf.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Directions are handed out as they lie in the file, which is little-endian. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "glpcore reads little-endian files in place; big-endian hosts are not supported"
#endif

#define MOST_ENTRIES ((uint64_t)1 << 31)
#define DEEPEST_ARRAY 4
#define LONGEST_KEY 65535
#define LONGEST_NAME 63 /* what ggml stores, without the terminator */
#define LARGEST_ALIGNMENT ((uint32_t)1 << 20)

uint32_t glpcore_load_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t glpcore_load_u64(const unsigned char *p) {
    return (uint64_t)glpcore_load_u32(p) | (uint64_t)glpcore_load_u32(p + 4) << 32;
}

int glpcore_ggml_block(uint32_t type, uint32_t *elements, uint32_t *bytes) {
    /* Indexed by ggml type; {0, 0} where a number was retired or never given. */
    static const struct {
        uint16_t elements, bytes;
    } blocks[] = {
        {1, 4}, {1, 2}, {32, 18}, {32, 20}, {0, 0}, {0, 0},               /* F32 F16 Q4_0 Q4_1 */
        {32, 22}, {32, 24}, {32, 34}, {32, 40},                           /* Q5_0 Q5_1 Q8_0 Q8_1 */
        {256, 84}, {256, 110}, {256, 144}, {256, 176}, {256, 210},        /* Q2_K .. Q6_K */
        {256, 292}, {256, 66}, {256, 74}, {256, 98}, {256, 50}, {32, 18}, /* Q8_K .. IQ4_NL */
        {256, 110}, {256, 82}, {256, 136},                                /* IQ3_S IQ2_S IQ4_XS */
        {1, 1}, {1, 2}, {1, 4}, {1, 8}, {1, 8},                           /* I8 I16 I32 I64 F64 */
        {256, 56}, {1, 2}, {0, 0}, {0, 0}, {0, 0},                        /* IQ1_M BF16 */
        {256, 54}, {256, 66}, {0, 0}, {0, 0}, {0, 0},                     /* TQ1_0 TQ2_0 */
        {32, 17}, {64, 36}, {128, 18},                                    /* MXFP4 NVFP4 Q1_0 */
    };
    if (type >= sizeof blocks / sizeof blocks[0] || blocks[type].elements == 0) return 0;
    *elements = blocks[type].elements;
    *bytes = blocks[type].bytes;
    return 1;
}

/* ---- The cursor ---- */

typedef struct reader {
    const unsigned char *data;
    size_t size, at;
    glpcore_report *report;
} reader;

static size_t remaining(const reader *r) { return r->size - r->at; }

static glpcore_where here(const reader *r) {
    glpcore_where where = GLPCORE_NOWHERE;
    where.offset = r->at;
    return where;
}

static glpcore_status truncated(const reader *r, const char *what, glpcore_where where) {
    glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "truncated", &where,
                       "Download or export the file again: it is cut short. The %s at byte %llu "
                       "does not fit in the %llu bytes of the file.",
                       what, (unsigned long long)where.offset, (unsigned long long)r->size);
    return GLPCORE_FORMAT;
}

static glpcore_status read_u32(reader *r, uint32_t *value, const char *what) {
    if (remaining(r) < 4) return truncated(r, what, here(r));
    *value = glpcore_load_u32(r->data + r->at);
    r->at += 4;
    return GLPCORE_OK;
}

static glpcore_status read_u64(reader *r, uint64_t *value, const char *what) {
    if (remaining(r) < 8) return truncated(r, what, here(r));
    *value = glpcore_load_u64(r->data + r->at);
    r->at += 8;
    return GLPCORE_OK;
}

static glpcore_status read_text(reader *r, glpcore_text *text, const char *what) {
    const glpcore_where where = here(r);
    uint64_t size;
    glpcore_status status = read_u64(r, &size, what);
    if (status != GLPCORE_OK) return status;
    if (size > remaining(r)) {
        glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "string", &where,
                           "Download or export the file again: a text is cut. The %s at byte %llu "
                           "claims %llu bytes and %llu remain.",
                           what, (unsigned long long)where.offset, (unsigned long long)size,
                           (unsigned long long)remaining(r));
        return GLPCORE_FORMAT;
    }
    text->data = (const char *)r->data + r->at;
    text->size = (size_t)size;
    r->at += (size_t)size;
    return GLPCORE_OK;
}

/* ---- Metadata ---- */

static size_t scalar_size(uint32_t type) {
    static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof sizes ? sizes[type] : 0;
}

static glpcore_status bad_value(reader *r, glpcore_text key, glpcore_where where,
                                const char *problem, uint64_t number) {
    char quoted[GLPCORE_QUOTE_SIZE];
    where.key = key;
    glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "value-type", &where,
                       "Export the file again with a GGUF v3 writer: %s (%llu), in key %s.",
                       problem, (unsigned long long)number, glpcore_quote(key, quoted));
    return GLPCORE_FORMAT;
}

static glpcore_status skip_array(reader *r, glpcore_text key, int depth);

static glpcore_status skip_value(reader *r, glpcore_text key, uint32_t type, int depth) {
    const size_t size = scalar_size(type);
    if (size != 0) {
        if (remaining(r) < size) return truncated(r, "value", here(r));
        r->at += size;
        return GLPCORE_OK;
    }
    if (type == GLPCORE_GGUF_STRING) {
        glpcore_text text;
        return read_text(r, &text, "text value");
    }
    return skip_array(r, key, depth + 1);
}

static glpcore_status skip_array(reader *r, glpcore_text key, int depth) {
    const glpcore_where where = here(r);
    glpcore_status status;
    uint32_t type = 0;
    uint64_t count = 0, i;
    size_t size;
    if (depth > DEEPEST_ARRAY) {
        return bad_value(r, key, where, "arrays nest too deep", (uint64_t)depth);
    }
    status = read_u32(r, &type, "array");
    if (status == GLPCORE_OK) status = read_u64(r, &count, "array");
    if (status != GLPCORE_OK) return status;
    size = scalar_size(type);
    if (size == 0 && type != GLPCORE_GGUF_STRING && type != GLPCORE_GGUF_ARRAY) {
        return bad_value(r, key, where, "unknown array element type", type);
    }
    if (size != 0) {
        if (count > UINT64_MAX / size) {
            return bad_value(r, key, where, "an array's size overflows", count);
        }
        if (count * size > remaining(r)) return truncated(r, "array", where);
        r->at += (size_t)(count * size);
        return GLPCORE_OK;
    }
    /* Every element takes at least its own length, 8 or 12 bytes: the loop ends with the file. */
    if (count > remaining(r) / 8) return truncated(r, "array", where);
    for (i = 0; i < count; i++) {
        status = skip_value(r, key, type, depth);
        if (status != GLPCORE_OK) return status;
    }
    return GLPCORE_OK;
}

static glpcore_status read_kv(reader *r, glpcore_gguf_kv *kv) {
    const glpcore_where where = here(r);
    glpcore_where type_at;
    char quoted[GLPCORE_QUOTE_SIZE];
    glpcore_status status = read_text(r, &kv->key, "metadata key");
    if (status != GLPCORE_OK) return status;
    if (kv->key.size == 0 || kv->key.size > LONGEST_KEY ||
        !glpcore_is_utf8(kv->key.data, kv->key.size)) {
        glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "string", &where,
                           "Export the file again with valid metadata keys. The key at byte %llu "
                           "is %s: %s.",
                           (unsigned long long)where.offset,
                           kv->key.size == 0             ? "empty"
                           : kv->key.size > LONGEST_KEY ? "longer than 65535 bytes"
                                                         : "not UTF-8, or holds a NUL",
                           glpcore_quote(kv->key, quoted));
        return GLPCORE_FORMAT;
    }
    type_at = here(r);
    status = read_u32(r, &kv->type, "value type");
    if (status != GLPCORE_OK) return status;
    if (kv->type > GLPCORE_GGUF_FLOAT64) {
        return bad_value(r, kv->key, type_at, "unknown value type", kv->type);
    }
    kv->value = r->data + r->at;
    status = skip_value(r, kv->key, kv->type, 0);
    kv->value_size = (size_t)(r->data + r->at - kv->value);
    return status;
}

static int compare_text(glpcore_text a, glpcore_text b) {
    const int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Orders pointers to structs that begin with a text; equal texts by their place in the file. */
static int compare_named(const void *a, const void *b) {
    const glpcore_text *x = *(const glpcore_text *const *)a;
    const glpcore_text *y = *(const glpcore_text *const *)b;
    const int order = compare_text(*x, *y);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Finds a text that occurs twice among `count` structs of `stride` bytes beginning with one. */
static glpcore_status find_duplicate(const void *items, size_t count, size_t stride,
                                     const glpcore_text **duplicate) {
    const glpcore_text **sorted;
    size_t i;
    *duplicate = NULL;
    if (count < 2) return GLPCORE_OK;
    sorted = (const glpcore_text **)malloc(count * sizeof *sorted);
    if (sorted == NULL) return GLPCORE_NOMEM;
    for (i = 0; i < count; i++) {
        sorted[i] = (const glpcore_text *)(const void *)((const char *)items + i * stride);
    }
    qsort(sorted, count, sizeof *sorted, compare_named);
    for (i = 1; i < count && *duplicate == NULL; i++) {
        if (compare_text(*sorted[i - 1], *sorted[i]) == 0) *duplicate = sorted[i];
    }
    free(sorted);
    return GLPCORE_OK;
}

static glpcore_status refuse_duplicate(reader *r, const glpcore_text *duplicate, int is_tensor) {
    glpcore_where where = GLPCORE_NOWHERE;
    char quoted[GLPCORE_QUOTE_SIZE];
    where.offset = (uint64_t)((const unsigned char *)duplicate->data - r->data) - 8;
    if (is_tensor) {
        where.tensor = *duplicate;
    } else {
        where.key = *duplicate;
    }
    glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT,
                       is_tensor ? "duplicate-tensor" : "duplicate-key", &where,
                       "Export the file again with each %s once. %s occurs twice, and readers "
                       "differ about which one counts.",
                       is_tensor ? "tensor" : "key", glpcore_quote(*duplicate, quoted));
    return GLPCORE_FORMAT;
}

static glpcore_status read_metadata(reader *r, glpcore_gguf *gguf) {
    const glpcore_text *duplicate;
    glpcore_status status;
    size_t i;
    for (i = 0; i < gguf->n_kvs; i++) {
        status = read_kv(r, &gguf->kvs[i]);
        if (status != GLPCORE_OK) return status;
    }
    status = find_duplicate(gguf->kvs, gguf->n_kvs, sizeof gguf->kvs[0], &duplicate);
    if (status == GLPCORE_OK && duplicate != NULL) status = refuse_duplicate(r, duplicate, 0);
    return status;
}

static glpcore_status find_alignment(reader *r, const glpcore_gguf *gguf, uint32_t *alignment) {
    size_t i;
    *alignment = 32;
    for (i = 0; i < gguf->n_kvs; i++) {
        const glpcore_gguf_kv *kv = &gguf->kvs[i];
        glpcore_where where = GLPCORE_NOWHERE;
        if (!glpcore_text_is(kv->key, "general.alignment")) continue;
        *alignment = kv->type == GLPCORE_GGUF_UINT32 ? glpcore_load_u32(kv->value) : 0;
        if (*alignment != 0 && (*alignment & (*alignment - 1)) == 0 &&
            *alignment <= LARGEST_ALIGNMENT) {
            return GLPCORE_OK;
        }
        where.key = kv->key;
        where.offset = (uint64_t)(kv->value - r->data);
        glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "alignment", &where,
                           "Export with general.alignment 32: a u32 power of two. The file has a "
                           "value of type %u, read as %u; the largest allowed is 1048576.",
                           kv->type, *alignment);
        return GLPCORE_FORMAT;
    }
    return GLPCORE_OK;
}

/* ---- Tensors ---- */

static glpcore_status bad_tensor(reader *r, const char *code, const glpcore_gguf_tensor *tensor,
                                 uint64_t offset, const char *advice, const char *problem) {
    glpcore_where where = GLPCORE_NOWHERE;
    char quoted[GLPCORE_QUOTE_SIZE];
    where.offset = offset;
    where.tensor = tensor->name;
    glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, code, &where, "%s. Tensor %s %s.",
                       advice, glpcore_quote(tensor->name, quoted), problem);
    return GLPCORE_FORMAT;
}

static glpcore_status size_tensor(reader *r, glpcore_gguf_tensor *tensor, uint64_t offset) {
    const char *const advice = "Export the file again with a sound shape";
    uint64_t elements = 1;
    uint32_t block_elements, block_bytes, i;
    for (i = 0; i < tensor->n_dims; i++) {
        const uint64_t dim = tensor->dims[i];
        if (dim != 0 && elements > UINT64_MAX / dim) {
            return bad_tensor(r, "tensor-shape", tensor, offset, advice,
                              "has more elements than 64 bits count");
        }
        elements *= dim;
    }
    tensor->sized = (uint16_t)glpcore_ggml_block(tensor->type, &block_elements, &block_bytes);
    if (!tensor->sized) return GLPCORE_OK;
    if (tensor->dims[0] % block_elements != 0) {
        return bad_tensor(r, "tensor-shape", tensor, offset, advice,
                          "has rows that are not whole blocks of its type");
    }
    if (elements / block_elements > UINT64_MAX / block_bytes) {
        return bad_tensor(r, "tensor-shape", tensor, offset, advice,
                          "has more bytes than 64 bits count");
    }
    tensor->n_bytes = elements / block_elements * block_bytes;
    return GLPCORE_OK;
}

static glpcore_status read_tensor(reader *r, glpcore_gguf_tensor *tensor) {
    const uint64_t entry = r->at;
    uint64_t shape_at;
    uint32_t n_dims = 0, i;
    glpcore_status status = read_text(r, &tensor->name, "tensor name");
    if (status != GLPCORE_OK) return status;
    if (tensor->name.size == 0 || tensor->name.size > LONGEST_NAME ||
        !glpcore_is_utf8(tensor->name.data, tensor->name.size)) {
        return bad_tensor(r, "tensor-name", tensor, entry,
                          "Export the file again with valid tensor names",
                          tensor->name.size == 0             ? "is empty"
                          : tensor->name.size > LONGEST_NAME ? "is 64 bytes or longer"
                                                             : "is not UTF-8, or holds a NUL");
    }
    shape_at = r->at;
    status = read_u32(r, &n_dims, "tensor shape");
    if (status != GLPCORE_OK) return status;
    if (n_dims == 0 || n_dims > 4) {
        return bad_tensor(r, "tensor-shape", tensor, shape_at,
                          "Export the file again with 1 to 4 dimensions",
                          n_dims == 0 ? "has no dimension" : "has more than 4 dimensions");
    }
    tensor->n_dims = (uint16_t)n_dims;
    for (i = 0; i < n_dims && status == GLPCORE_OK; i++) {
        status = read_u64(r, &tensor->dims[i], "tensor shape");
    }
    if (status == GLPCORE_OK) status = read_u32(r, &tensor->type, "tensor type");
    if (status == GLPCORE_OK) status = read_u64(r, &tensor->offset, "tensor offset");
    if (status != GLPCORE_OK) return status;
    return size_tensor(r, tensor, shape_at);
}

/* Turns the relative offsets into places in the file, each checked against its end. */
static glpcore_status place_tensor(reader *r, const glpcore_gguf *gguf, uint32_t alignment,
                                   glpcore_gguf_tensor *tensor) {
    const char *const advice = "Export the file again with sound tensor offsets";
    const uint64_t relative = tensor->offset;
    const uint64_t room = gguf->size - gguf->data_start;
    /* The offset is the last field of the entry, which is not kept: point at the name instead. */
    const uint64_t entry = (uint64_t)((const unsigned char *)tensor->name.data - r->data) - 8;
    if (relative % alignment != 0) {
        return bad_tensor(r, "tensor-offset", tensor, entry, advice,
                          "begins at an offset that is not a multiple of the alignment");
    }
    if (relative > room) {
        return bad_tensor(r, "tensor-offset", tensor, entry,
                          "Download or export again: data is missing", "begins past the end");
    }
    tensor->offset = gguf->data_start + relative;
    if (tensor->type == GLPCORE_GGML_F32 && tensor->offset % 4 != 0) {
        return bad_tensor(r, "tensor-offset", tensor, entry, advice,
                          "is F32 but not aligned to 4 bytes");
    }
    if (tensor->n_bytes > room - relative) {
        glpcore_where where = GLPCORE_NOWHERE;
        where.offset = tensor->offset;
        where.tensor = tensor->name;
        return truncated(r, "tensor data", where);
    }
    return GLPCORE_OK;
}

static int compare_offset(const void *a, const void *b) {
    const glpcore_gguf_tensor *x = *(const glpcore_gguf_tensor *const *)a;
    const glpcore_gguf_tensor *y = *(const glpcore_gguf_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static glpcore_status refuse_overlap(reader *r, const glpcore_gguf *gguf) {
    const glpcore_gguf_tensor **sorted;
    glpcore_status status = GLPCORE_OK;
    uint64_t end = 0;
    size_t i;
    if (gguf->n_tensors < 2) return GLPCORE_OK;
    sorted = (const glpcore_gguf_tensor **)malloc(gguf->n_tensors * sizeof *sorted);
    if (sorted == NULL) return GLPCORE_NOMEM;
    for (i = 0; i < gguf->n_tensors; i++) sorted[i] = &gguf->tensors[i];
    qsort(sorted, gguf->n_tensors, sizeof *sorted, compare_offset);
    for (i = 0; i < gguf->n_tensors && status == GLPCORE_OK; i++) {
        const glpcore_gguf_tensor *tensor = sorted[i];
        if (tensor->n_bytes == 0) continue; /* empty, or of a type without a known size */
        if (tensor->offset < end) {
            status = bad_tensor(r, "tensor-offset", tensor, tensor->offset,
                                "Export the file again with sound tensor offsets",
                                "overlaps the one before it");
        }
        end = tensor->offset + tensor->n_bytes;
    }
    free(sorted);
    return status;
}

/* What lies after the last tensor. llama.cpp wants the padding; more than that is unexplained. */
static void check_tail(reader *r, const glpcore_gguf *gguf, uint32_t alignment) {
    glpcore_where where = GLPCORE_NOWHERE;
    uint64_t end = 0, padded;
    size_t i;
    for (i = 0; i < gguf->n_tensors; i++) {
        const glpcore_gguf_tensor *tensor = &gguf->tensors[i];
        if (!tensor->sized) return; /* its extent is not known, so neither is the end */
        if (tensor->offset + tensor->n_bytes > end) end = tensor->offset + tensor->n_bytes;
    }
    if (gguf->n_tensors == 0) end = r->at;
    padded = end + (alignment - end % alignment) % alignment;
    where.offset = end;
    if (gguf->size < padded && gguf->n_tensors > 0) {
        glpcore_report_add(r->report, GLPCORE_SEVERITY_WARNING, "padding", &where,
                           "Export again with the last tensor padded. llama.cpp rejects a file "
                           "that ends at byte %llu instead of %llu.",
                           (unsigned long long)gguf->size, (unsigned long long)padded);
    } else if (gguf->size > padded) {
        where.offset = padded;
        glpcore_report_add(r->report, GLPCORE_SEVERITY_WARNING, "trailing", &where,
                           "Ask where the file came from. %llu bytes follow the last tensor, and "
                           "nothing in the header explains them.",
                           (unsigned long long)(gguf->size - padded));
    }
}

static glpcore_status read_tensors(reader *r, glpcore_gguf *gguf) {
    const glpcore_text *duplicate;
    glpcore_status status;
    uint32_t alignment;
    size_t i;
    status = find_alignment(r, gguf, &alignment);
    for (i = 0; i < gguf->n_tensors && status == GLPCORE_OK; i++) {
        status = read_tensor(r, &gguf->tensors[i]);
    }
    if (status != GLPCORE_OK) return status;
    status = find_duplicate(gguf->tensors, gguf->n_tensors, sizeof gguf->tensors[0], &duplicate);
    if (status == GLPCORE_OK && duplicate != NULL) status = refuse_duplicate(r, duplicate, 1);
    if (status != GLPCORE_OK) return status;

    gguf->data_start = r->at + (alignment - r->at % alignment) % alignment;
    if (gguf->data_start > gguf->size) {
        if (gguf->n_tensors > 0) return truncated(r, "tensor data", here(r));
        gguf->data_start = gguf->size;
    }
    for (i = 0; i < gguf->n_tensors; i++) {
        status = place_tensor(r, gguf, alignment, &gguf->tensors[i]);
        if (status != GLPCORE_OK) return status;
    }
    status = refuse_overlap(r, gguf);
    if (status == GLPCORE_OK) check_tail(r, gguf, alignment);
    return status;
}

/* ---- The header ---- */

int glpcore_gguf_sniff(const unsigned char *data, size_t size) {
    return size >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static glpcore_status refuse_version(reader *r, uint32_t version) {
    const glpcore_where where = {4, {NULL, 0}, {NULL, 0}};
    if (version != 0 && version % 65536 == 0) {
        glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "gguf-version", &where,
                           "Convert the file to little-endian GGUF v3. Its version field reads as "
                           "big-endian.");
    } else {
        glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "gguf-version", &where,
                           "Convert the file to GGUF v3. It is version %lu, and control vectors "
                           "are defined on version 3.",
                           (unsigned long)version);
    }
    return GLPCORE_FORMAT;
}

static glpcore_status check_count(reader *r, uint64_t offset, uint64_t count, size_t least,
                                  const char *what) {
    glpcore_where where = GLPCORE_NOWHERE;
    if (count <= remaining(r) / least && count <= MOST_ENTRIES) return GLPCORE_OK;
    where.offset = offset;
    glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "count", &where,
                       "Download or export the file again: it is damaged. It claims %llu %s and "
                       "has %llu bytes left for them.",
                       (unsigned long long)count, what, (unsigned long long)remaining(r));
    return GLPCORE_FORMAT;
}

static glpcore_status read_header(reader *r, glpcore_gguf *gguf) {
    uint64_t n_tensors = 0, n_kvs = 0;
    uint32_t version = 0;
    glpcore_status status;
    if (!glpcore_gguf_sniff(r->data, r->size)) {
        const glpcore_where where = {0, {NULL, 0}, {NULL, 0}};
        glpcore_report_add(r->report, GLPCORE_SEVERITY_FORMAT, "not-gguf", &where,
                           "Pass a GGUF file, or give n_embd for a raw .f32. The magic \"GGUF\" "
                           "is missing.");
        return GLPCORE_FORMAT;
    }
    r->at = 4;
    status = read_u32(r, &version, "version");
    if (status == GLPCORE_OK && version != 3) status = refuse_version(r, version);
    if (status == GLPCORE_OK) status = read_u64(r, &n_tensors, "tensor count");
    if (status == GLPCORE_OK) status = read_u64(r, &n_kvs, "metadata count");
    /* The least a key-value and a tensor entry can take: 8+1+4+1 less one, 8+1+4+8+4+8 less one. */
    if (status == GLPCORE_OK) status = check_count(r, 8, n_tensors, 32, "tensors");
    if (status == GLPCORE_OK) status = check_count(r, 16, n_kvs, 13, "metadata entries");
    if (status != GLPCORE_OK) return status;

    gguf->n_kvs = (size_t)n_kvs;
    gguf->n_tensors = (size_t)n_tensors;
    gguf->kvs = (glpcore_gguf_kv *)calloc(gguf->n_kvs + 1, sizeof gguf->kvs[0]);
    gguf->tensors = (glpcore_gguf_tensor *)calloc(gguf->n_tensors + 1, sizeof gguf->tensors[0]);
    if (gguf->kvs == NULL || gguf->tensors == NULL) return GLPCORE_NOMEM;
    status = read_metadata(r, gguf);
    if (status == GLPCORE_OK) status = read_tensors(r, gguf);
    return status;
}

glpcore_status glpcore_gguf_read(const unsigned char *data, size_t size, glpcore_gguf *gguf,
                                 glpcore_report *report) {
    reader r;
    glpcore_status status;
    r.data = data;
    r.size = size;
    r.at = 0;
    r.report = report;
    memset(gguf, 0, sizeof *gguf);
    gguf->data = data;
    gguf->size = size;
    status = read_header(&r, gguf);
    if (status != GLPCORE_OK) glpcore_gguf_free(gguf);
    return status;
}

void glpcore_gguf_free(glpcore_gguf *gguf) {
    free(gguf->kvs);
    free(gguf->tensors);
    memset(gguf, 0, sizeof *gguf);
}
