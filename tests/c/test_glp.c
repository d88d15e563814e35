/* The public C interface over files made here: opening, judging, describing, strengths, tables.
 *
 *   test_glp            everything
 *   test_glp FILE...    and for each file, that every message survives every buffer
 *
 * What each finding means is tested elsewhere; here it is that C callers are told, whatever buffer
 * they bring, and that wrong arguments are answered.
 */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _GNU_SOURCE
#endif

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(_WIN32)
#  include <sys/stat.h>
#  include <unistd.h>
#endif

#include "glpcore.h"

static long n_passed, n_failed;

#define CHECK(condition) check((condition), __LINE__, "%s", #condition)

static void check(int condition, int line, const char *format, ...) {
    va_list arguments;
    if (condition) {
        n_passed++;
        return;
    }
    if (++n_failed > 40) return;
    printf("FAIL line %d: ", line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

/* ---- Files ---- */

#define FFN "ffn_out_pre_residual"
#define RESIDUAL "residual_stream_post_layer"
/* Of layer 1 = [.5,.5,.5,.5], layer 2 = [1,0,0,0]: what another implementation computes. */
#define DIGEST "9e29a3887cf5a00f505f05f4e11ef98fe6b1f25203beb4c60b01b720e7544151"

typedef struct image {
    size_t size; /* first, so that the data is aligned as it is */
    unsigned char data[4096];
} image;

static void put(image *to, const void *data, size_t size) {
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

static void put_u32(image *to, uint32_t value) {
    unsigned char bytes[4];
    int i;
    for (i = 0; i < 4; i++) bytes[i] = (unsigned char)(value >> 8 * i);
    put(to, bytes, 4);
}

static void put_u64(image *to, uint64_t value) {
    put_u32(to, (uint32_t)value);
    put_u32(to, (uint32_t)(value >> 32));
}

static void put_f32(image *to, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put_u32(to, bits);
}

static void put_text(image *to, const char *text) {
    put_u64(to, strlen(text));
    put(to, text, strlen(text));
}

static void put_key(image *to, const char *key, uint32_t type) {
    put_text(to, key);
    put_u32(to, type);
}

/* What a file of these tests says. Fields left out are absent from it. */
typedef struct content {
    const char *mode, *hook, *base, *digest, *structure, *dir_scales, *layer_scales, *generator;
    uint32_t version;
    int has_alpha;
    float alpha;
    uint32_t rank;             /* 1 or 2 directions per layer; 0: no tensor at all */
    uint32_t layers[2];
    float scale;               /* factor on every direction */
    float poison;              /* replaces the last element when not 0 */
    const char *foreign;       /* a foreign tensor of this name */
    uint32_t magic, gguf_version;
    uint64_t n_kvs;            /* claimed, when not 0 */
} content;

static content sound(void) {
    content c;
    memset(&c, 0, sizeof c);
    c.mode = "project";
    c.hook = FFN;
    c.base = "Tiny 1B";
    c.digest = DIGEST;
    c.version = 1;
    c.has_alpha = 1;
    c.alpha = 4.0f;
    c.rank = 1;
    c.layers[0] = 1;
    c.layers[1] = 2;
    c.scale = 1.0f;
    c.magic = 0x46554747;
    c.gguf_version = 3;
    return c;
}

static void put_string_key(image *to, const char *key, const char *text, uint64_t *count) {
    if (text == NULL) return;
    put_key(to, key, 8);
    put_text(to, text);
    ++*count;
}

static image build(content c) {
    static const float rows[2][2][4] = {{{.5f, .5f, .5f, .5f}, {.5f, -.5f, .5f, -.5f}},
                                        {{1, 0, 0, 0}, {0, 1, 0, 0}}};
    image out = {0, {0}};
    uint64_t n_kvs = 0, offset = 0;
    size_t count_at;
    uint32_t l, j, n_tensors = 2 * c.rank + (c.foreign != NULL);
    int i;
    put_u32(&out, c.magic);
    put_u32(&out, c.gguf_version);
    put_u64(&out, n_tensors);
    count_at = out.size;
    put_u64(&out, 0);
    put_string_key(&out, "general.architecture", "controlvector", &n_kvs);
    put_string_key(&out, "general.base_model.0.name", c.base, &n_kvs);
    put_string_key(&out, "glp.mode", c.mode, &n_kvs);
    put_string_key(&out, "glp.hook_point", c.hook, &n_kvs);
    put_string_key(&out, "glp.content_sha256", c.digest, &n_kvs);
    put_string_key(&out, "glp.structure", c.structure, &n_kvs);
    put_string_key(&out, "glp.dir_scales", c.dir_scales, &n_kvs);
    put_string_key(&out, "glp.layer_scales", c.layer_scales, &n_kvs);
    put_string_key(&out, "glp.generator", c.generator, &n_kvs);
    if (c.version != 0) {
        put_key(&out, "glp.spec_version", 4);
        put_u32(&out, c.version);
        n_kvs++;
    }
    if (c.has_alpha) {
        put_key(&out, "glp.alpha_default", 6);
        put_f32(&out, c.alpha);
        n_kvs++;
    }
    if (c.rank > 1) {
        put_key(&out, "glp.orthonormal", 7);
        put(&out, "\1", 1);
        n_kvs++;
    }
    for (l = 0; l < 2; l++) {
        for (j = 0; j < c.rank; j++) {
            char name[64];
            if (j == 0) {
                sprintf(name, "direction.%lu", (unsigned long)c.layers[l]);
            } else {
                sprintf(name, "direction.%lu.%lu", (unsigned long)c.layers[l], (unsigned long)j);
            }
            put_text(&out, name);
            put_u32(&out, 1);
            put_u64(&out, 4);
            put_u32(&out, 0);
            put_u64(&out, offset);
            offset += 32;
        }
    }
    if (c.foreign != NULL) {
        put_text(&out, c.foreign);
        put_u32(&out, 1);
        put_u64(&out, 4);
        put_u32(&out, 0);
        put_u64(&out, offset);
        offset += 32;
    }
    out.size = (out.size + 31) / 32 * 32;
    for (l = 0; l < 2; l++) {
        for (j = 0; j < c.rank; j++) {
            for (i = 0; i < 4; i++) {
                const int last = l == 1 && j == c.rank - 1 && i == 3;
                put_f32(&out, last && c.poison != 0 ? c.poison : c.scale * rows[l][j][i]);
            }
            out.size += 16;
        }
    }
    if (c.foreign != NULL) out.size += 32;
    {
        image count = {0, {0}};
        put_u64(&count, c.n_kvs != 0 ? c.n_kvs : n_kvs);
        memcpy(out.data + count_at, count.data, 8);
    }
    return out;
}

static glpcore_file *open_image(const image *bytes) {
    glpcore_file *file = NULL;
    CHECK(glpcore_open_memory(bytes->data, bytes->size, "v.gguf", NULL, &file, NULL, NULL, 0) ==
          GLPCORE_OK);
    CHECK(file != NULL);
    return file;
}

static glpcore_target target_for(glpcore_hook hook) {
    glpcore_target target;
    memset(&target, 0, sizeof target);
    target.struct_size = sizeof target;
    target.hook = hook;
    return target;
}

static glpcore_vector *accept_for(const glpcore_file *file, const glpcore_target *target) {
    glpcore_vector *vector = NULL;
    CHECK(glpcore_accept(file, target, &vector, NULL, NULL, 0) == GLPCORE_OK);
    CHECK(vector != NULL);
    return vector;
}

/* ---- Opening ---- */

static void test_memory(void) {
    const image bytes = build(sound());
    glpcore_report *report = NULL;
    glpcore_file *file = NULL;
    glpcore_info info;
    char message[64] = "before";
    CHECK(glpcore_open_memory(bytes.data, bytes.size, NULL, NULL, &file, &report, message, 64) ==
          GLPCORE_OK);
    CHECK(message[0] == '\0');
    CHECK(report != NULL && glpcore_finding_count(report) == 0);
    CHECK(glpcore_report_errno(report) == 0);
    info.struct_size = sizeof info;
    CHECK(glpcore_info_get(file, &info) == GLPCORE_OK);
    CHECK(info.struct_size == sizeof info);
    CHECK(info.raw == 0 && info.file_size == bytes.size);
    CHECK(info.mode == GLPCORE_MODE_PROJECT && info.mode_declared == 1);
    CHECK(info.mode_text.size == 7 && memcmp(info.mode_text.data, "project", 7) == 0);
    CHECK(info.hook == GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    CHECK(info.spec_version == 1 && info.spec_version_declared == 1);
    CHECK(info.has_alpha && info.alpha == 4.0);
    CHECK(info.rank == 1 && info.n_embd == 4 && info.n_directions == 2 && info.n_layers == 2);
    CHECK(info.layer_min == 1 && info.layer_max == 2);
    CHECK(info.norm_min == 1.0 && info.norm_max == 1.0);
    CHECK(info.base_name.size == 7 && memcmp(info.base_name.data, "Tiny 1B", 7) == 0);
    CHECK(info.derived_at.data == NULL && !info.transferred);
    CHECK(info.method.data == NULL && info.method.size == 0);
    CHECK(info.structure == GLPCORE_STRUCTURE_PER_LAYER);
    glpcore_report_free(report);
    glpcore_close(file);
}

static void test_copy(void) {
    image bytes = build(sound());
    glpcore_open_options options = {sizeof options, 0, 0, 1};
    glpcore_file *file = NULL;
    glpcore_payload payload;
    CHECK(glpcore_open_memory(bytes.data, bytes.size, NULL, &options, &file, NULL, NULL, 0) ==
          GLPCORE_OK);
    memset(bytes.data, 0xee, sizeof bytes.data);
    payload.struct_size = sizeof payload;
    CHECK(glpcore_payload_at(file, 0, &payload) == GLPCORE_OK);
    CHECK(payload.data[0] == 0.5f && payload.norm == 1.0);
    CHECK((const unsigned char *)payload.data < bytes.data ||
          (const unsigned char *)payload.data >= bytes.data + sizeof bytes.data);
    glpcore_close(file);
}

static void test_in_place(void) {
    const image bytes = build(sound());
    glpcore_file *file = open_image(&bytes);
    glpcore_payload payload;
    payload.struct_size = sizeof payload;
    CHECK(glpcore_payload_at(file, 1, &payload) == GLPCORE_OK);
    CHECK(payload.layer == 2 && payload.j == 0 && payload.n_embd == 4);
    CHECK((const unsigned char *)payload.data == bytes.data + payload.offset);
    CHECK(glpcore_payload_at(file, 2, &payload) == GLPCORE_INVALID);
    CHECK(glpcore_payload_at(file, SIZE_MAX, &payload) == GLPCORE_INVALID);
    glpcore_close(file);
}

static void test_unaligned(void) {
    const image bytes = build(sound());
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    size_t shift;
    for (shift = 0; shift < 8; shift++) {
        unsigned char *place = (unsigned char *)malloc(bytes.size + shift);
        glpcore_file *file = NULL;
        glpcore_vector *vector;
        const float *direction;
        memcpy(place + shift, bytes.data, bytes.size);
        CHECK(glpcore_open_memory(place + shift, bytes.size, NULL, NULL, &file, NULL, NULL, 0) ==
              GLPCORE_OK);
        vector = accept_for(file, &target);
        direction = glpcore_direction(vector, 1, 0);
        CHECK(direction != NULL && (uintptr_t)direction % 4 == 0 && direction[3] == 0.5f);
        glpcore_vector_free(vector);
        glpcore_close(file);
        free(place);
    }
}

static void test_limits(void) {
    const image bytes = build(sound());
    glpcore_open_options options;
    glpcore_file *file = NULL;
    char message[64];
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.max_bytes = bytes.size;
    CHECK(glpcore_open_memory(bytes.data, bytes.size, NULL, &options, &file, NULL, NULL, 0) ==
          GLPCORE_OK);
    glpcore_close(file);
    options.max_bytes = bytes.size - 1;
    file = (glpcore_file *)(uintptr_t)&options;
    CHECK(glpcore_open_memory(bytes.data, bytes.size, NULL, &options, &file, NULL, message, 64) ==
          GLPCORE_FORMAT);
    CHECK(file == NULL);
    CHECK(strlen(message) > 0 && strlen(message) < 64);
}

#if !defined(_WIN32)
static void test_path(void) {
    char name[] = "/tmp/test_glp_XXXXXX", message[64];
    const image bytes = build(sound());
    const int fd = mkstemp(name);
    glpcore_open_options options;
    int read;
    CHECK(fd >= 0);
    CHECK(write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    for (read = 0; read < 2; read++) {
        glpcore_file *file = NULL;
        glpcore_report *report = NULL;
        options.read = read;
        CHECK(glpcore_open(name, &options, &file, &report, message, sizeof message) == GLPCORE_OK);
        CHECK(glpcore_tensor_count(file) == 2);
        CHECK(glpcore_finding_count(report) == 0);
        glpcore_report_free(report);
        glpcore_close(file);
    }
    /* Read into memory, a file may be truncated while it is open. */
    {
        glpcore_file *file = NULL;
        glpcore_info info;
        info.struct_size = sizeof info;
        CHECK(glpcore_open(name, &options, &file, NULL, NULL, 0) == GLPCORE_OK);
        CHECK(ftruncate(fd, 0) == 0);
        CHECK(glpcore_info_get(file, &info) == GLPCORE_OK && info.norm_min == 1.0);
        glpcore_close(file);
    }
    /* Now it is empty. */
    for (read = 0; read < 2; read++) {
        glpcore_file *file = NULL;
        options.read = read;
        CHECK(glpcore_open(name, &options, &file, NULL, message, sizeof message) == GLPCORE_IO);
        CHECK(file == NULL && strlen(message) > 0);
    }
    close(fd);
    unlink(name);
    {
        glpcore_file *file = NULL;
        glpcore_report *report = NULL;
        glpcore_finding finding;
        finding.struct_size = sizeof finding;
        CHECK(glpcore_open(name, NULL, &file, &report, message, sizeof message) == GLPCORE_IO);
        CHECK(file == NULL && glpcore_report_errno(report) == 2 /* ENOENT */);
        CHECK(glpcore_finding_at(report, 0, &finding) == GLPCORE_OK);
        CHECK(strcmp(finding.code, "io") == 0 && finding.severity == GLPCORE_SEVERITY_FORMAT);
        CHECK(finding.offset == GLPCORE_NO_OFFSET && finding.key.data == NULL);
        glpcore_report_free(report);
    }
    CHECK(mkfifo(name, 0600) == 0);
    {
        glpcore_file *file = NULL;
        CHECK(glpcore_open(name, NULL, &file, NULL, message, sizeof message) == GLPCORE_IO);
        CHECK(file == NULL);
    }
    unlink(name);
}
#endif

static void test_raw(void) {
    static const float rows[3][4] = {{0, 0, 0, 0}, {.5f, .5f, .5f, .5f}, {1, 0, 0, 0}};
    const image gguf = build(sound());
    glpcore_target target = target_for(GLPCORE_HOOK_ATTN_OUT_PRE_RESIDUAL);
    glpcore_file *file = NULL;
    glpcore_vector *vector;
    glpcore_info info;
    char message[64];
    float table[3][4];
    CHECK(glpcore_open_raw_memory(rows, sizeof rows, NULL, 3, 4, NULL, &file, NULL, NULL, 0) ==
          GLPCORE_OK);
    info.struct_size = sizeof info;
    CHECK(glpcore_info_get(file, &info) == GLPCORE_OK);
    CHECK(info.raw == 1 && info.mode == GLPCORE_MODE_PROJECT && info.hook == 0);
    CHECK(info.n_layers == 2 && info.layer_min == 1 && info.layer_max == 2);
    vector = accept_for(file, &target);
    CHECK(glpcore_direction(vector, 0, 0) == NULL);
    CHECK(glpcore_direction(vector, 1, 0) == rows[1]);
    {
        glpcore_strength strength = {sizeof strength, 1, 1.5, 0, 0.0};
        double alphas[3];
        CHECK(glpcore_fill_dense(vector, table[0], 3, 4, &strength, alphas, NULL, 0) == GLPCORE_OK);
        CHECK(memcmp(table, rows, sizeof rows) == 0);
        CHECK(alphas[0] == 0 && alphas[1] == 1.5 && alphas[2] == 1.5);
        /* The strengths are asked for, and nobody stated one. */
        CHECK(glpcore_fill_dense(vector, table[0], 3, 4, NULL, alphas, message, sizeof message) ==
              GLPCORE_REFUSED);
        CHECK(table[1][0] == 0 && table[2][0] == 0 && strlen(message) > 0);
    }
    glpcore_vector_free(vector);
    vector = NULL;
    CHECK(glpcore_accept(file, NULL, &vector, NULL, message, sizeof message) == GLPCORE_REFUSED);
    CHECK(vector == NULL && strstr(message, "hook") != NULL);
    glpcore_close(file);

    CHECK(glpcore_open_raw_memory(rows, sizeof rows, NULL, 3, 5, NULL, &file, NULL, message, 64) ==
          GLPCORE_FORMAT);
    CHECK(glpcore_open_raw_memory(rows, sizeof rows - 1, NULL, 3, 4, NULL, &file, NULL, NULL, 0) ==
          GLPCORE_FORMAT);
    CHECK(glpcore_open_raw_memory(rows, sizeof rows, NULL, 0, 4, NULL, &file, NULL, NULL, 0) ==
          GLPCORE_FORMAT);
    CHECK(glpcore_open_raw_memory(rows, sizeof rows, NULL, 3, 0, NULL, &file, NULL, NULL, 0) ==
          GLPCORE_FORMAT);
    CHECK(glpcore_open_raw_memory(rows, sizeof rows, NULL, SIZE_MAX / 2, SIZE_MAX / 2, NULL, &file,
                                  NULL, NULL, 0) == GLPCORE_FORMAT);
    CHECK(glpcore_open_raw_memory(rows, sizeof rows, NULL, SIZE_MAX / 8 + 4, 4, NULL, &file,
                                  NULL, NULL, 0) == GLPCORE_FORMAT);
    CHECK(glpcore_open_raw_memory(gguf.data, gguf.size, NULL, gguf.size / 16, 4, NULL, &file, NULL,
                                  NULL, 0) == GLPCORE_FORMAT);
    CHECK(file == NULL);
}

/* ---- Messages ---- */

/* Whatever the size of the buffer, it holds the beginning of the message, terminated, and nothing
 * is written behind it. */
static void check_buffers(const image *bytes, const glpcore_target *target,
                          glpcore_status expected, const char *code, int line) {
    char full[2048], buffer[96];
    glpcore_file *file = NULL;
    glpcore_report *report = NULL;
    glpcore_finding finding;
    size_t size, i;
    glpcore_status status =
        glpcore_open_memory(bytes->data, bytes->size, "v.gguf", NULL, &file, &report, full,
                            sizeof full);
    const int opened = status == GLPCORE_OK;
    if (opened) {
        glpcore_report_free(report);
        status = glpcore_judge(file, target, &report, full, sizeof full);
    }
    check(status == expected, line, "%s: status %d", code, (int)status);
    finding.struct_size = sizeof finding;
    for (i = 0; glpcore_finding_at(report, i, &finding) == GLPCORE_OK; i++) {
        if (finding.severity != GLPCORE_SEVERITY_WARNING) break;
    }
    check(i < glpcore_finding_count(report) && strcmp(finding.code, code) == 0, line,
          "%s: the first error is %s", code, finding.code);
    check(strncmp(full, finding.message, strlen(finding.message)) == 0, line,
          "%s: the message is not the finding's: %s", code, full);
    check(full[0] >= 'A' && full[0] <= 'Z' && strchr(full, '\n') == NULL, line, "%s: %s", code,
          full);
    for (size = 0; size <= 64; size++) {
        const size_t length = strlen(full);
        glpcore_file *again = NULL;
        memset(buffer, '#', sizeof buffer);
        if (opened) {
            status = glpcore_judge(file, target, NULL, size == 0 ? NULL : buffer, size);
        } else {
            status = glpcore_open_memory(bytes->data, bytes->size, NULL, NULL, &again, NULL,
                                         size == 0 ? NULL : buffer, size);
        }
        check(status == expected, line, "%s: status with a buffer of %d", code, (int)size);
        check(buffer[size] == '#', line, "%s: wrote behind a buffer of %d", code, (int)size);
        if (size == 0) continue;
        check(memchr(buffer, 0, size) != NULL, line, "%s: not terminated at %d", code, (int)size);
        check(strlen(buffer) == (length < size ? length : size - 1), line,
              "%s: %d of %d bytes used", code, (int)strlen(buffer), (int)size);
        check(strncmp(buffer, full, strlen(buffer)) == 0, line, "%s: %s", code, buffer);
    }
    glpcore_report_free(report);
    glpcore_close(file);
}

static void test_messages(void) {
    static const struct {
        const char *code, *words; /* words: in the first 63 bytes of the message */
    } cases[] = {
        {"not-gguf", "GGUF"},         {"gguf-version", "GGUF"},        {"count", "again"},
        {"mode-missing", "mode"},     {"mode-unknown", "mode"},        {"mode-mismatch", "mode"},
        {"hook-missing", "hook"},     {"hook-unknown", "hook"},        {"hook-mismatch", "hook"},
        {"direction-norm", "unit"},   {"direction-zero", "direction.0"},
        {"version-gate", "version"},  {"version-unknown", "version"},  {"scales", "scales"},
        {"content-hash", "again"},    {"tensor-unexpected", "tensor"}, {"structure", "structure"},
        {"direction-nonfinite", "again"}, {"direction-empty", "direction"},
        {"width-mismatch", "4"},      {"depth-mismatch", "2"},         {"base-mismatch", "base"},
    };
    static const char *const names[] = {"Other"};
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const code = cases[i].code;
        glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
        glpcore_status expected = i < 3 ? GLPCORE_FORMAT : GLPCORE_REFUSED;
        glpcore_file *file = NULL;
        char message[64] = "";
        content c = sound();
        image bytes;
        if (i == 0) c.magic++;
        if (i == 1) c.gguf_version = 2;
        if (i == 2) c.n_kvs = 1u << 31;
        if (strcmp(code, "mode-missing") == 0) c.mode = NULL;
        if (strcmp(code, "mode-unknown") == 0) c.mode = "ablate";
        if (strcmp(code, "mode-mismatch") == 0) c.mode = "add";
        if (strcmp(code, "hook-missing") == 0) c.hook = NULL;
        if (strcmp(code, "hook-unknown") == 0) c.hook = "ffn";
        if (strcmp(code, "hook-mismatch") == 0) c.hook = RESIDUAL;
        if (strcmp(code, "direction-norm") == 0) {
            c.scale = 2;
            c.digest = NULL;
        }
        if (strcmp(code, "direction-zero") == 0) c.layers[0] = 0;
        if (strcmp(code, "version-gate") == 0) c.dir_scales = "1";
        if (strcmp(code, "version-unknown") == 0) c.version = 3;
        if (strcmp(code, "scales") == 0) {
            c.version = 2;
            c.dir_scales = "one";
        }
        if (strcmp(code, "content-hash") == 0) c.scale = 1.0001f;
        if (strcmp(code, "tensor-unexpected") == 0) c.foreign = "x";
        if (strcmp(code, "structure") == 0) c.structure = "per-execution-step";
        if (strcmp(code, "direction-nonfinite") == 0) {
            c.poison = INFINITY;
            c.digest = NULL;
        }
        if (strcmp(code, "direction-empty") == 0) {
            c.rank = 0;
            c.digest = NULL;
        }
        if (strcmp(code, "width-mismatch") == 0) target.n_embd = 8;
        if (strcmp(code, "depth-mismatch") == 0) target.n_layers = 2;
        if (strcmp(code, "base-mismatch") == 0) {
            target.base_names = names;
            target.n_base_names = 1;
        }
        bytes = build(c);
        check_buffers(&bytes, &target, expected, code, __LINE__);
        if (glpcore_open_memory(bytes.data, bytes.size, NULL, NULL, &file, NULL, message, 64) ==
            GLPCORE_OK) {
            glpcore_judge(file, &target, NULL, message, 64);
        }
        check(strstr(message, cases[i].words) != NULL, __LINE__, "%s: the remedy is cut: %s", code,
              message);
        glpcore_close(file);
    }
    {
        /* And the file that they all break. */
        const image bytes = build(sound());
        glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
        glpcore_file *file = open_image(&bytes);
        glpcore_report *report = NULL;
        char message[64] = "before";
        CHECK(glpcore_judge(file, &target, &report, message, 64) == GLPCORE_OK);
        CHECK(message[0] == '\0' && glpcore_finding_count(report) == 0);
        glpcore_report_free(report);
        glpcore_close(file);
    }
}

/* Files named on the command line: what is cut to 63 bytes is the beginning of the first error. */
static void test_file(const char *path) {
    glpcore_file *file = NULL;
    glpcore_report *report = NULL;
    glpcore_finding finding;
    char message[64], one[1] = {'#'};
    size_t i;
    glpcore_status status = glpcore_open(path, NULL, &file, &report, message, sizeof message);
    if (status == GLPCORE_OK) {
        glpcore_report_free(report);
        status = glpcore_judge(file, NULL, &report, message, sizeof message);
        glpcore_judge(file, NULL, NULL, one, 1);
    } else {
        glpcore_file *none = NULL;
        glpcore_open(path, NULL, &none, NULL, one, 1);
        check(none == NULL && file == NULL, __LINE__, "%s: a handle after a failure", path);
    }
    check(one[0] == '\0', __LINE__, "%s: a buffer of one byte", path);
    check(status <= GLPCORE_IO, __LINE__, "%s: status %d", path, (int)status);
    finding.struct_size = sizeof finding;
    for (i = 0; glpcore_finding_at(report, i, &finding) == GLPCORE_OK; i++) {
        const char *text = finding.message;
        check(text[0] >= 'A' && text[0] <= 'Z' && text[strlen(text) - 1] == '.', __LINE__,
              "%s: %s", path, text);
        if (finding.severity == GLPCORE_SEVERITY_WARNING) continue;
        check(strncmp(message, text, strlen(message) < strlen(text) ? strlen(message)
                                                                    : strlen(text)) == 0,
              __LINE__, "%s: the buffer holds \"%s\", the finding \"%s\"", path, message, text);
        check(strlen(message) >= 59 || strlen(text) < 63, __LINE__, "%s: the buffer is not used",
              path);
        break;
    }
    check((status == GLPCORE_OK) == (i == glpcore_finding_count(report)), __LINE__,
          "%s: the status is not that of the findings", path);
    glpcore_report_free(report);
    glpcore_close(file);
}

/* ---- Findings ---- */

static void test_findings(void) {
    content c = sound();
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    glpcore_report *report = NULL;
    glpcore_finding finding;
    glpcore_file *file;
    image bytes;
    size_t i, refusals = 0, warnings = 0;
    c.base = NULL;
    c.foreign = "blk.0";
    c.hook = RESIDUAL;
    bytes = build(c);
    file = open_image(&bytes);
    CHECK(glpcore_judge(file, &target, &report, NULL, 0) == GLPCORE_REFUSED);
    glpcore_close(file);
    memset(bytes.data, 0, sizeof bytes.data);
    /* The report owns its texts: the file and its bytes are gone. */
    finding.struct_size = sizeof finding;
    for (i = 0; i < glpcore_finding_count(report); i++) {
        CHECK(glpcore_finding_at(report, i, &finding) == GLPCORE_OK);
        CHECK(finding.struct_size == sizeof finding);
        refusals += finding.severity == GLPCORE_SEVERITY_REFUSAL;
        warnings += finding.severity == GLPCORE_SEVERITY_WARNING;
        if (strcmp(finding.code, "tensor-unexpected") == 0) {
            CHECK(finding.tensor.size == 5 && memcmp(finding.tensor.data, "blk.0", 5) == 0);
            CHECK(finding.key.data == NULL);
        } else if (strcmp(finding.code, "hook-mismatch") == 0) {
            CHECK(strstr(finding.message, FFN) != NULL);
            CHECK(strstr(finding.message, RESIDUAL) != NULL);
        } else {
            CHECK(strcmp(finding.code, "base-missing") == 0);
        }
    }
    CHECK(refusals == 2 && warnings == 1);
    CHECK(glpcore_finding_at(report, i, &finding) == GLPCORE_INVALID);
    CHECK(glpcore_finding_at(report, SIZE_MAX, &finding) == GLPCORE_INVALID);
    glpcore_report_free(report);
    glpcore_report_free(NULL);
    CHECK(glpcore_finding_count(NULL) == 0);
    CHECK(glpcore_report_errno(NULL) == 0);
}

/* An older caller's struct is shorter: what it has is filled, and nothing behind it. */
static void test_short_structs(void) {
    const image bytes = build(sound());
    glpcore_file *file = open_image(&bytes);
    union {
        glpcore_info info;
        unsigned char bytes[sizeof(glpcore_info)];
    } u;
    size_t i;
    memset(&u, 0xa5, sizeof u);
    u.info.struct_size = offsetof(glpcore_info, mode);
    CHECK(glpcore_info_get(file, &u.info) == GLPCORE_OK);
    CHECK(u.info.raw == 0 && u.info.file_size == bytes.size);
    for (i = offsetof(glpcore_info, mode); i < sizeof u; i++) {
        if (u.bytes[i] != 0xa5) break;
    }
    CHECK(i == sizeof u);
    u.info.struct_size = 0;
    CHECK(glpcore_info_get(file, &u.info) == GLPCORE_INVALID);
    glpcore_close(file);
}

/* ---- Keys and tensors ---- */

static void test_entries(void) {
    const image bytes = build(sound());
    glpcore_file *file = open_image(&bytes);
    glpcore_kv kv;
    glpcore_tensor tensor;
    size_t i;
    kv.struct_size = sizeof kv;
    tensor.struct_size = sizeof tensor;
    CHECK(glpcore_kv_count(file) == 7);
    for (i = 0; i < glpcore_kv_count(file); i++) {
        CHECK(glpcore_kv_at(file, i, &kv) == GLPCORE_OK);
        CHECK((const unsigned char *)kv.value == bytes.data + kv.offset);
        CHECK(kv.type == 8 || kv.value_size == 4);
    }
    CHECK(glpcore_kv_at(file, i, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_at(file, SIZE_MAX, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_find(file, "glp.mode", 8, &kv) == GLPCORE_OK);
    CHECK(kv.type == 8 && kv.value_size == 15);
    CHECK(memcmp(kv.value, "\7\0\0\0\0\0\0\0project", 15) == 0);
    CHECK(glpcore_kv_find(file, "glp.mode", 7, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_find(file, "glp.mode", 9, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_find(file, "", 0, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_find(file, NULL, 0, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_tensor_count(file) == 2);
    CHECK(glpcore_tensor_at(file, 1, &tensor) == GLPCORE_OK);
    CHECK(tensor.name.size == 11 && memcmp(tensor.name.data, "direction.2", 11) == 0);
    CHECK(tensor.type == 0 && tensor.n_dims == 1 && tensor.dims[0] == 4 && tensor.n_bytes == 16);
    CHECK((const unsigned char *)tensor.data == bytes.data + tensor.offset);
    CHECK(glpcore_tensor_at(file, 2, &tensor) == GLPCORE_INVALID);
    glpcore_close(file);
}

/* ---- Describing ---- */

static void test_describe(void) {
    content c = sound();
    glpcore_report *report = NULL;
    char full[8192], small[8192];
    glpcore_file *file;
    size_t length, with_layers, size;
    image bytes;
    c.generator = "tool\x1b[2J \xc3\xa9\xe2\x82\xac";
    bytes = build(c);
    file = open_image(&bytes);
    CHECK(glpcore_judge(file, NULL, &report, NULL, 0) == GLPCORE_OK);
    length = glpcore_describe(file, report, "v.gguf", 0, NULL, 0);
    CHECK(length > 100 && length < sizeof full);
    CHECK(glpcore_describe(file, report, "v.gguf", 0, full, sizeof full) == length);
    CHECK(strlen(full) == length && full[length - 1] == '\n');
    CHECK(strstr(full, FFN) != NULL && strstr(full, "Tiny 1B") != NULL);
    CHECK(strchr(full, '\x1b') == NULL);
    for (size = 1; size <= length + 1; size++) {
        size_t kept;
        memset(small, '#', sizeof small);
        CHECK(glpcore_describe(file, report, "v.gguf", 0, small, size) == length);
        CHECK(memchr(small, 0, size) != NULL && small[size] == '#');
        kept = strlen(small);
        CHECK(strncmp(small, full, kept) == 0);
        /* Cut at a character: at most three bytes short of the room there is. */
        CHECK(kept == size - 1 || (kept + 4 > size && ((unsigned char)full[kept] & 0x80) != 0));
    }
    with_layers = glpcore_describe(file, report, NULL, GLPCORE_DESCRIBE_LAYERS, full, sizeof full);
    CHECK(with_layers < sizeof full && strlen(full) == with_layers);
    CHECK(glpcore_describe(file, report, NULL, 0, NULL, 0) < with_layers);
    glpcore_report_free(report);
    glpcore_close(file);
}

static void test_escape(void) {
    char text[64];
    CHECK(glpcore_escape("a\x1b" "b\0c\n\xff\\", 8, text, sizeof text) == strlen(text));
    CHECK(strcmp(text, "a\\x1bb\\x00c\\n\\xff\\\\") == 0);
    CHECK(glpcore_escape("\xe2\x80\xae\xc3\xa9", 5, text, sizeof text) == 10);
    CHECK(strcmp(text, "\\u{202e}\xc3\xa9") == 0);
    CHECK(glpcore_escape("abc", 3, text, 3) == 3 && strcmp(text, "ab") == 0);
    CHECK(glpcore_escape("abc", 3, text, 1) == 3 && text[0] == '\0');
    CHECK(glpcore_escape("abc", 3, NULL, 0) == 3);
    CHECK(glpcore_escape("\xc3\xa9", 2, text, 2) == 2 && text[0] == '\0');
    CHECK(glpcore_escape(NULL, 0, text, sizeof text) == 0 && text[0] == '\0');
}

/* ---- Vectors ---- */

static void test_strength(void) {
    const image bytes = build(sound());
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    glpcore_file *file = open_image(&bytes);
    glpcore_vector *vector = accept_for(file, &target);
    glpcore_vector_info info;
    glpcore_strength strength = {sizeof strength, 0, 0.0, 0, 0.0};
    char message[64];
    double alpha = -1;
    int adopted = -1;
    info.struct_size = sizeof info;
    CHECK(glpcore_vector_info_get(vector, &info) == GLPCORE_OK);
    CHECK(info.adoptable == 1 && info.alpha_default == 4.0 && info.n_renormalised == 0);
    CHECK(info.n_layers == 2 && info.layer_min == 1 && info.layer_max == 2 && info.rank == 1);
    CHECK(glpcore_vector_layer(vector, 0) == 1 && glpcore_vector_layer(vector, 1) == 2);
    CHECK(glpcore_vector_layer(vector, 2) == UINT32_MAX);
    CHECK(glpcore_vector_layer(vector, SIZE_MAX) == UINT32_MAX);
    CHECK(glpcore_alpha(vector, 1, 0, NULL, &alpha, &adopted, NULL, 0) == GLPCORE_OK);
    CHECK(alpha == 4.0 && adopted == 1);
    strength.has_fallback = 1;
    strength.fallback = 2.0;
    CHECK(glpcore_alpha(vector, 1, 0, &strength, &alpha, &adopted, NULL, 0) == GLPCORE_OK);
    CHECK(alpha == 4.0 && adopted == 1);
    strength.has_alpha = 1; /* and it is 0, which is a value */
    CHECK(glpcore_alpha(vector, 1, 0, &strength, &alpha, &adopted, NULL, 0) == GLPCORE_OK);
    CHECK(alpha == 0.0 && adopted == 0);
    CHECK(glpcore_alpha(vector, 1, 0, &strength, &alpha, NULL, NULL, 0) == GLPCORE_OK);
    CHECK(glpcore_alpha(vector, 3, 0, NULL, &alpha, NULL, message, 64) == GLPCORE_INVALID);
    CHECK(glpcore_alpha(vector, 1, 1, NULL, &alpha, NULL, message, 64) == GLPCORE_INVALID);
    CHECK(glpcore_alpha(vector, UINT32_MAX, UINT32_MAX, NULL, &alpha, NULL, message, 64) ==
          GLPCORE_INVALID);
    CHECK(strlen(message) > 0 && strlen(message) < 64);
    strength.alpha = NAN;
    CHECK(glpcore_alpha(vector, 1, 0, &strength, &alpha, NULL, NULL, 0) == GLPCORE_INVALID);
    strength.alpha = INFINITY;
    CHECK(glpcore_alpha(vector, 1, 0, &strength, &alpha, NULL, NULL, 0) == GLPCORE_INVALID);
    CHECK(glpcore_direction(vector, 1, 1) == NULL && glpcore_direction(vector, 0, 0) == NULL);
    CHECK(glpcore_direction(vector, UINT32_MAX, UINT32_MAX) == NULL);
    glpcore_vector_free(vector);

    target.hook = GLPCORE_HOOK_UNKNOWN; /* no site named: never adopted */
    vector = accept_for(file, &target);
    CHECK(glpcore_vector_info_get(vector, &info) == GLPCORE_OK);
    CHECK(info.adoptable == 0 && info.hook == GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    CHECK(glpcore_alpha(vector, 1, 0, NULL, &alpha, NULL, message, 64) == GLPCORE_REFUSED);
    CHECK(strlen(message) > 0);
    strength.has_alpha = 0;
    CHECK(glpcore_alpha(vector, 1, 0, &strength, &alpha, &adopted, NULL, 0) == GLPCORE_OK);
    CHECK(alpha == 2.0 && adopted == 0);
    glpcore_vector_free(vector);
    glpcore_close(file);
}

static void test_rank(void) {
    content c = sound();
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    glpcore_vector *vector;
    glpcore_file *file;
    image bytes;
    float table[12];
    double alpha = 0;
    size_t i;
    c.rank = 2;
    c.version = 2;
    c.digest = NULL;
    c.dir_scales = "1,-0.5";
    c.layer_scales = "2:0.25";
    bytes = build(c);
    file = open_image(&bytes);
    vector = accept_for(file, &target);
    CHECK(glpcore_direction(vector, 1, 1)[1] == -.5f && glpcore_direction(vector, 2, 1)[1] == 1);
    CHECK(glpcore_alpha(vector, 1, 1, NULL, &alpha, NULL, NULL, 0) == GLPCORE_OK && alpha == -2.0);
    CHECK(glpcore_alpha(vector, 2, 0, NULL, &alpha, NULL, NULL, 0) == GLPCORE_OK && alpha == 1.0);
    for (i = 0; i < 12; i++) table[i] = 7;
    CHECK(glpcore_fill_dense(vector, table, 3, 4, NULL, NULL, NULL, 0) == GLPCORE_REFUSED);
    for (i = 0; i < 12 && table[i] == 0; i++) continue;
    CHECK(i == 12); /* on any failure the table is all zero */
    glpcore_vector_free(vector);
    glpcore_close(file);
}

static void test_dense(void) {
    content c = sound();
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    glpcore_vector *vector;
    glpcore_file *file;
    image bytes;
    float table[5][4];
    double alphas[4];
    char message[64];
    c.version = 2;
    c.layer_scales = "2:0.5";
    bytes = build(c);
    file = open_image(&bytes);
    vector = accept_for(file, &target);
    memset(table, 0x55, sizeof table);
    CHECK(glpcore_fill_dense(vector, table[0], 4, 4, NULL, alphas, message, 64) == GLPCORE_OK);
    CHECK(table[0][0] == 0 && table[3][3] == 0 && table[1][2] == .5f && table[2][0] == 1);
    CHECK(memcmp(table[4], "UUUUUUUUUUUUUUUU", 16) == 0);
    CHECK(alphas[0] == 0 && alphas[1] == 4 && alphas[2] == 2 && alphas[3] == 0);
    CHECK(glpcore_fill_dense(vector, table[0], 4, 4, NULL, NULL, message, 64) == GLPCORE_REFUSED);
    CHECK(table[1][2] == 0 && table[2][0] == 0);
    CHECK(glpcore_fill_dense(vector, table[0], 2, 4, NULL, alphas, message, 64) ==
          GLPCORE_INVALID);
    CHECK(glpcore_fill_dense(vector, table[0], 4, 3, NULL, alphas, message, 64) ==
          GLPCORE_INVALID);
    CHECK(glpcore_fill_dense(vector, NULL, 4, 4, NULL, alphas, message, 64) == GLPCORE_INVALID);
    CHECK(glpcore_fill_dense(NULL, table[0], 4, 4, NULL, alphas, message, 64) == GLPCORE_INVALID);
    CHECK(glpcore_fill_dense(vector, table[0], 0, 4, NULL, alphas, message, 64) ==
          GLPCORE_INVALID);
    glpcore_vector_free(vector);
    glpcore_close(file);
}

static void test_renormalise(void) {
    content c = sound();
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    glpcore_vector *vector = NULL;
    glpcore_vector_info info;
    const float *direction;
    glpcore_file *file;
    image bytes, before;
    c.scale = 3;
    c.digest = NULL;
    bytes = build(c);
    before = bytes;
    file = open_image(&bytes);
    CHECK(glpcore_accept(file, &target, &vector, NULL, NULL, 0) == GLPCORE_REFUSED);
    CHECK(vector == NULL);
    target.renormalise = 1;
    vector = accept_for(file, &target);
    info.struct_size = sizeof info;
    CHECK(glpcore_vector_info_get(vector, &info) == GLPCORE_OK && info.n_renormalised == 2);
    direction = glpcore_direction(vector, 1, 0);
    CHECK(direction[0] == .5f && direction[3] == .5f && (uintptr_t)direction % 4 == 0);
    CHECK((const unsigned char *)direction < bytes.data ||
          (const unsigned char *)direction >= bytes.data + bytes.size);
    CHECK(memcmp(bytes.data, before.data, bytes.size) == 0);
    glpcore_vector_free(vector);
    glpcore_close(file);
}

/* ---- Misuse ---- */

static void test_misuse(void) {
    const image bytes = build(sound());
    glpcore_target target = target_for(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    glpcore_open_options options;
    glpcore_file *file = NULL;
    glpcore_vector *vector = NULL;
    glpcore_report *report = NULL;
    glpcore_info info;
    glpcore_kv kv;
    glpcore_tensor tensor;
    glpcore_payload payload;
    glpcore_vector_info vector_info;
    glpcore_finding finding;
    double alpha = 0;
    char message[64];

    glpcore_close(NULL);
    glpcore_vector_free(NULL);
    CHECK(glpcore_open(NULL, NULL, &file, &report, message, 64) == GLPCORE_INVALID);
    CHECK(file == NULL && strlen(message) > 0);
    glpcore_report_free(report);
    CHECK(glpcore_open("x", NULL, NULL, NULL, NULL, 0) == GLPCORE_INVALID);
    CHECK(glpcore_open_memory(NULL, 4, NULL, NULL, &file, NULL, NULL, 0) == GLPCORE_INVALID);
    CHECK(glpcore_open_memory(bytes.data, bytes.size, NULL, NULL, NULL, NULL, NULL, 0) ==
          GLPCORE_INVALID);
    CHECK(glpcore_open_raw(NULL, 1, 1, NULL, &file, NULL, NULL, 0) == GLPCORE_INVALID);
    CHECK(glpcore_open_raw_memory(NULL, 4, NULL, 1, 1, NULL, &file, NULL, NULL, 0) ==
          GLPCORE_INVALID);
    memset(&options, 0, sizeof options); /* struct_size not set */
    CHECK(glpcore_open_memory(bytes.data, bytes.size, NULL, &options, &file, NULL, message, 64) ==
          GLPCORE_INVALID);
    CHECK(file == NULL && strlen(message) > 0);

    file = open_image(&bytes);
    info.struct_size = sizeof info;
    kv.struct_size = sizeof kv;
    tensor.struct_size = sizeof tensor;
    payload.struct_size = sizeof payload;
    finding.struct_size = sizeof finding;
    vector_info.struct_size = sizeof vector_info;
    CHECK(glpcore_info_get(NULL, &info) == GLPCORE_INVALID);
    CHECK(glpcore_info_get(file, NULL) == GLPCORE_INVALID);
    CHECK(glpcore_kv_count(NULL) == 0 && glpcore_tensor_count(NULL) == 0);
    CHECK(glpcore_kv_at(NULL, 0, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_at(file, 0, NULL) == GLPCORE_INVALID);
    CHECK(glpcore_kv_find(NULL, "a", 1, &kv) == GLPCORE_INVALID);
    CHECK(glpcore_kv_find(file, "glp.mode", 8, NULL) == GLPCORE_INVALID);
    CHECK(glpcore_tensor_at(NULL, 0, &tensor) == GLPCORE_INVALID);
    CHECK(glpcore_tensor_at(file, 0, NULL) == GLPCORE_INVALID);
    CHECK(glpcore_payload_at(NULL, 0, &payload) == GLPCORE_INVALID);
    CHECK(glpcore_payload_at(file, 0, NULL) == GLPCORE_INVALID);
    CHECK(glpcore_finding_at(NULL, 0, &finding) == GLPCORE_INVALID);
    CHECK(glpcore_judge(NULL, &target, &report, message, 64) == GLPCORE_INVALID);
    CHECK(strlen(message) > 0);
    CHECK(glpcore_accept(NULL, &target, &vector, NULL, NULL, 0) == GLPCORE_INVALID);
    CHECK(glpcore_accept(file, &target, NULL, NULL, NULL, 0) == GLPCORE_INVALID);
    target.struct_size = 0;
    CHECK(glpcore_judge(file, &target, NULL, message, 64) == GLPCORE_INVALID);
    CHECK(glpcore_accept(file, &target, &vector, NULL, message, 64) == GLPCORE_INVALID);
    CHECK(vector == NULL);
    target = target_for((glpcore_hook)4);
    CHECK(glpcore_judge(file, &target, NULL, message, 64) == GLPCORE_INVALID);
    target = target_for(GLPCORE_HOOK_UNKNOWN);
    target.mode = (glpcore_mode)3;
    CHECK(glpcore_judge(file, &target, NULL, message, 64) == GLPCORE_INVALID);
    target = target_for(GLPCORE_HOOK_UNKNOWN);
    target.structure = GLPCORE_STRUCTURE_OTHER;
    CHECK(glpcore_judge(file, &target, NULL, message, 64) == GLPCORE_INVALID);
    target = target_for(GLPCORE_HOOK_UNKNOWN);
    target.n_base_names = 1;
    CHECK(glpcore_judge(file, &target, NULL, message, 64) == GLPCORE_INVALID);

    vector = accept_for(file, NULL);
    CHECK(glpcore_vector_info_get(NULL, &vector_info) == GLPCORE_INVALID);
    CHECK(glpcore_vector_info_get(vector, NULL) == GLPCORE_INVALID);
    CHECK(glpcore_vector_layer(NULL, 0) == UINT32_MAX);
    CHECK(glpcore_direction(NULL, 1, 0) == NULL);
    CHECK(glpcore_alpha(NULL, 1, 0, NULL, &alpha, NULL, NULL, 0) == GLPCORE_INVALID);
    CHECK(glpcore_alpha(vector, 1, 0, NULL, NULL, NULL, NULL, 0) == GLPCORE_INVALID);
    glpcore_vector_free(vector);
    CHECK(glpcore_describe(NULL, NULL, NULL, 0, message, 64) == 0 || message[63] == '\0');
    glpcore_close(file);

    CHECK(glpcore_hook_name((glpcore_hook)99) == NULL);
    CHECK(glpcore_mode_name((glpcore_mode)99) == NULL);
    CHECK(strcmp(glpcore_hook_name(GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL), FFN) == 0);
    CHECK(glpcore_hook_from_name(FFN, strlen(FFN)) == GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL);
    CHECK(glpcore_hook_from_name(FFN, strlen(FFN) - 1) == GLPCORE_HOOK_UNKNOWN);
    CHECK(glpcore_hook_from_name(FFN "\0", strlen(FFN) + 1) == GLPCORE_HOOK_UNKNOWN);
    CHECK(glpcore_hook_from_name(NULL, 0) == GLPCORE_HOOK_UNKNOWN);
    CHECK(strcmp(glpcore_version(), GLPCORE_VERSION) == 0);
    /* Hosts store these numbers. */
    CHECK(GLPCORE_HOOK_RESIDUAL_STREAM_POST_LAYER == 1 && GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL == 2);
    CHECK(GLPCORE_HOOK_ATTN_OUT_PRE_RESIDUAL == 3 && GLPCORE_MODE_PROJECT == 1);
    CHECK(GLPCORE_OK == 0 && GLPCORE_REFUSED == 1 && GLPCORE_FORMAT == 2 && GLPCORE_IO == 3);
}

int main(int argc, char **argv) {
    int i;
    test_memory();
    test_copy();
    test_in_place();
    test_unaligned();
    test_limits();
#if !defined(_WIN32)
    test_path();
#endif
    test_raw();
    test_messages();
    test_findings();
    test_short_structs();
    test_entries();
    test_describe();
    test_escape();
    test_strength();
    test_rank();
    test_dense();
    test_renormalise();
    test_misuse();
    for (i = 1; i < argc; i++) test_file(argv[i]);
    printf("%ld passed, %ld failed\n", n_passed, n_failed);
    return n_failed != 0;
}
