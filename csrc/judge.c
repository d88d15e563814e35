#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "model.h"
#include "sha256.h"
#include "text.h"

/* In every message the first sentence is the remedy, within 63 bytes: a host's buffer may be that
 * small. What follows says why. */

#define REFUSE GLPCORE_SEVERITY_REFUSAL
#define WARN GLPCORE_SEVERITY_WARNING

typedef struct judge {
    const glpcore_file *file;
    const glpcore_target *target;
    int own;              /* the file is judged by its own declarations */
    glpcore_mode asked;   /* the operation it is judged for */
    glpcore_mode mode;    /* the operation it declares */
    uint32_t version;
    uint32_t rank;        /* directions at the lowest layer */
    uint32_t *layers;     /* ascending, each once */
    size_t n_layers;
    glpcore_report *report;
} judge;

static const glpcore_value *value_of(const judge *it, glpcore_key key) {
    return &it->file->values[key];
}

static int is_present(const judge *it, glpcore_key key) {
    return value_of(it, key)->state == GLPCORE_PRESENT;
}

static int is_absent(const judge *it, glpcore_key key) {
    return value_of(it, key)->state == GLPCORE_ABSENT;
}

static glpcore_where at_kv(const judge *it, const glpcore_gguf_kv *kv) {
    glpcore_where where = GLPCORE_NOWHERE;
    where.key = kv->key;
    where.offset = (uint64_t)(kv->value - it->file->gguf.data);
    return where;
}

static glpcore_where at_key(const judge *it, glpcore_key key) {
    glpcore_where where = GLPCORE_NOWHERE;
    if (value_of(it, key)->kv != NULL) return at_kv(it, value_of(it, key)->kv);
    where.key.data = glpcore_key_name(key);
    where.key.size = strlen(where.key.data);
    return where;
}

static glpcore_where at_tensor(const glpcore_gguf_tensor *tensor, uint64_t offset) {
    glpcore_where where = GLPCORE_NOWHERE;
    where.offset = offset;
    if (tensor != NULL) where.tensor = tensor->name;
    return where;
}

static glpcore_text as_text(const char *string) {
    glpcore_text text;
    text.data = string;
    text.size = string == NULL ? 0 : strlen(string);
    return text;
}

/* ---- Keys ---- */

static void check_key_types(judge *it) {
    int key;
    for (key = 0; key < GLPCORE_KEY_COUNT; key++) {
        const glpcore_value *value = &it->file->values[key];
        glpcore_where where;
        if (value->state != GLPCORE_MISTYPED) continue;
        where = at_key(it, (glpcore_key)key);
        glpcore_report_add(it->report, REFUSE, "key-type", &where,
                           "Export again with %s of the right type. It has GGUF type %u%s.",
                           glpcore_key_name((glpcore_key)key), value->kv->type,
                           value->kv->type == GLPCORE_GGUF_BOOL
                               ? ", or a bool byte other than 0 and 1"
                               : "");
    }
}

static void check_unknown_keys(judge *it) {
    size_t i;
    for (i = 0; i < it->file->gguf.n_kvs; i++) {
        const glpcore_gguf_kv *kv = &it->file->gguf.kvs[i];
        char quoted[GLPCORE_QUOTE_SIZE];
        glpcore_where where;
        if (!glpcore_text_has_prefix(kv->key, "glp.") || glpcore_key_is_known(kv->key)) continue;
        where = at_kv(it, kv);
        glpcore_report_add(it->report, WARN, "key-unknown", &where,
                           "Ask the author what this key means. The format does not define %s, "
                           "and it is ignored.",
                           glpcore_quote(kv->key, quoted));
    }
}

/* ---- Mode and version ---- */

static void check_mode(judge *it) {
    const glpcore_value *mode = value_of(it, GLPCORE_KEY_MODE);
    const glpcore_where where = at_key(it, GLPCORE_KEY_MODE);
    char quoted[GLPCORE_QUOTE_SIZE];
    if (mode->state == GLPCORE_MISTYPED) return;
    if (mode->state == GLPCORE_ABSENT) {
        if (it->file->has_legacy_keys) {
            glpcore_report_add(it->report, REFUSE, "legacy-namespace", &where,
                               "Re-export or download the vector again. It has dspark.* keys, "
                               "from before the format was named glp.*, and no glp.mode.");
        } else if (it->asked == GLPCORE_MODE_PROJECT) {
            glpcore_report_add(it->report, REFUSE, "mode-missing", &where,
                               "Use mode add, or export again with glp.mode project. A file "
                               "without glp.mode is an additive control vector, and projecting "
                               "is another operation.");
        }
        return;
    }
    if (it->mode == GLPCORE_MODE_UNKNOWN) {
        glpcore_report_add(it->report, REFUSE, "mode-unknown", &where,
                           "Use a reader that knows this glp.mode, or export again. %s is "
                           "neither project nor add.",
                           glpcore_quote(mode->text, quoted));
    } else if (it->mode != it->asked) {
        glpcore_report_add(it->report, REFUSE, "mode-mismatch", &where,
                           "Use mode %s, which the file declares. %s",
                           glpcore_mode_name(it->mode),
                           it->mode == GLPCORE_MODE_PROJECT
                               ? "Adding a projective direction pushes every token along it "
                                 "instead of removing it."
                               : "Projecting an additive direction removes what it should add.");
    }
}

static void check_version(judge *it) {
    const glpcore_value *version = value_of(it, GLPCORE_KEY_SPEC_VERSION);
    const glpcore_where where = at_key(it, GLPCORE_KEY_SPEC_VERSION);
    it->version = 1;
    if (version->state == GLPCORE_ABSENT && it->mode != GLPCORE_MODE_ADD) {
        glpcore_report_add(it->report, WARN, "version-missing", &where,
                           "Export again with glp.spec_version. The file is read as version 1.");
    }
    if (version->state != GLPCORE_PRESENT) return;
    it->version = version->integer == 2 ? 2 : 1;
    if (version->integer != 1 && version->integer != 2) {
        it->version = 0;
        glpcore_report_add(it->report, REFUSE, "version-unknown", &where,
                           "Update glpcore, or export as version 1 or 2. The file declares "
                           "glp.spec_version %lld, whose keys may mean something else.",
                           (long long)version->integer);
    }
}

static int has_rank_tensor(const judge *it) {
    size_t i;
    for (i = 0; i < it->file->n_named; i++) {
        if (it->file->named[i].j > 0) return 1;
    }
    return 0;
}

static void check_version_gate(judge *it) {
    const char *const advice =
        "Export again with glp.spec_version 2. Version 1 has no %s: its readers would ignore it "
        "and apply the wrong strength.";
    glpcore_where where;
    if (it->version != 1) return;
    if (is_present(it, GLPCORE_KEY_RANK) && value_of(it, GLPCORE_KEY_RANK)->integer != 1) {
        where = at_key(it, GLPCORE_KEY_RANK);
        glpcore_report_add(it->report, REFUSE, "version-gate", &where,
                           "Export again with glp.spec_version 2. Version 1 has only rank 1: its "
                           "readers would apply one direction of several.");
    }
    if (!is_absent(it, GLPCORE_KEY_DIR_SCALES)) {
        where = at_key(it, GLPCORE_KEY_DIR_SCALES);
        glpcore_report_add(it->report, REFUSE, "version-gate", &where, advice, "glp.dir_scales");
    }
    if (!is_absent(it, GLPCORE_KEY_LAYER_SCALES)) {
        where = at_key(it, GLPCORE_KEY_LAYER_SCALES);
        glpcore_report_add(it->report, REFUSE, "version-gate", &where, advice, "glp.layer_scales");
    }
    if (has_rank_tensor(it)) {
        glpcore_report_add(it->report, REFUSE, "version-gate", NULL, advice,
                           "direction.N.j tensor");
    }
}

/* ---- Site ---- */

static void report_hook(judge *it, const char *code, const char *refusal, const char *first,
                        const char *second) {
    const int overridden = !it->own && it->target->allow_hook_mismatch;
    const glpcore_where where = at_key(it, GLPCORE_KEY_HOOK_POINT);
    if (overridden) {
        glpcore_report_add(it->report, WARN, code, &where,
                           "Re-tune the strength for this hook. The hook check (%s) was "
                           "overridden by allow-hook-mismatch; alpha_default is not adopted.",
                           code);
    } else {
        glpcore_report_add(it->report, REFUSE, code, &where, refusal, first, second);
    }
}

static void check_hook(judge *it) {
    const glpcore_value *hook = value_of(it, GLPCORE_KEY_HOOK_POINT);
    const glpcore_hook declared = glpcore_file_hook(it->file);
    char quoted[GLPCORE_QUOTE_SIZE];
    if (hook->state == GLPCORE_MISTYPED) return;
    if (hook->state == GLPCORE_ABSENT && declared == GLPCORE_HOOK_UNKNOWN) {
        report_hook(it, "hook-missing",
                    "Export again with glp.hook_point, or allow-hook-mismatch. The file does not "
                    "say where it was calibrated, and at another hook point it fails "
                    "silently.%s%s",
                    "", "");
    } else if (declared == GLPCORE_HOOK_UNKNOWN) {
        report_hook(it, "hook-unknown",
                    "Export for a known hook point, or pass allow-hook-mismatch. %s is none of "
                    "residual_stream_post_layer, ffn_out_pre_residual and "
                    "attn_out_pre_residual.%s",
                    glpcore_quote(hook->text, quoted), "");
    } else if (!it->own && it->target->hook != GLPCORE_HOOK_UNKNOWN &&
               it->target->hook != declared) {
        report_hook(it, "hook-mismatch",
                    "Use hook %s, not %s, or pass allow-hook-mismatch. The strength was "
                    "calibrated at the first and does not carry over: the wrong site degrades "
                    "without an error.",
                    glpcore_hook_name(declared), glpcore_hook_name(it->target->hook));
    }
}

static void check_derived_at(judge *it) {
    const glpcore_value *derived = value_of(it, GLPCORE_KEY_DERIVED_AT);
    const glpcore_text hook = glpcore_file_hook_text(it->file);
    char from[GLPCORE_QUOTE_SIZE], to[GLPCORE_QUOTE_SIZE];
    glpcore_where where;
    if (derived->state != GLPCORE_PRESENT || hook.data == NULL) return;
    if (glpcore_text_equal(derived->text, hook)) return;
    where = at_key(it, GLPCORE_KEY_DERIVED_AT);
    glpcore_report_add(it->report, WARN, "transferred", &where,
                       "Check the effect at the hook point. The vector was derived at %s and is "
                       "applied at %s.",
                       glpcore_quote(derived->text, from), glpcore_quote(hook, to));
}

static void check_structure(judge *it) {
    const glpcore_structure declared = glpcore_file_structure(it->file);
    const glpcore_structure asked = it->own ? declared : it->target->structure;
    const glpcore_where where = at_key(it, GLPCORE_KEY_STRUCTURE);
    char quoted[GLPCORE_QUOTE_SIZE];
    if (value_of(it, GLPCORE_KEY_STRUCTURE)->state == GLPCORE_MISTYPED) return;
    if (asked != GLPCORE_STRUCTURE_PER_EXECUTION_STEP &&
        declared == GLPCORE_STRUCTURE_PER_EXECUTION_STEP) {
        glpcore_report_add(it->report, REFUSE, "structure", &where,
                           "Ask for structure per-execution-step if you run steps. direction.N "
                           "is step N-1 of a looped model here, not layer N.");
    } else if (asked == GLPCORE_STRUCTURE_PER_EXECUTION_STEP &&
               declared != GLPCORE_STRUCTURE_PER_EXECUTION_STEP) {
        glpcore_report_add(it->report, REFUSE, "structure", &where,
                           "Ask for structure per-layer. direction.N is layer N in this file, "
                           "which does not declare per-execution-step.");
    } else if (declared == GLPCORE_STRUCTURE_OTHER) {
        glpcore_report_add(it->report, WARN, "structure", &where,
                           "Ask the author what glp.structure means. %s is free text, and "
                           "direction.N is taken as layer N.",
                           glpcore_quote(value_of(it, GLPCORE_KEY_STRUCTURE)->text, quoted));
    }
}

/* ---- Tensors ---- */

static int begins_as_direction(const judge *it) {
    size_t i;
    uint32_t layer, j;
    for (i = 0; i < it->file->gguf.n_tensors; i++) {
        if (glpcore_parse_name(it->file->gguf.tensors[i].name, &layer, &j) != GLPCORE_NAME_OTHER) {
            return 1;
        }
    }
    return 0;
}

static void check_names(judge *it) {
    size_t i;
    for (i = 0; i < it->file->gguf.n_tensors; i++) {
        const glpcore_gguf_tensor *tensor = &it->file->gguf.tensors[i];
        const glpcore_where where = at_tensor(tensor, tensor->offset);
        char quoted[GLPCORE_QUOTE_SIZE];
        uint32_t layer, j;
        switch (glpcore_parse_name(tensor->name, &layer, &j)) {
            case GLPCORE_NAME_OTHER:
                glpcore_report_add(it->report, REFUSE, "tensor-unexpected", &where,
                                   "Export again with direction tensors only. %s is not one, "
                                   "and a reader would drop it.",
                                   glpcore_quote(tensor->name, quoted));
                break;
            case GLPCORE_NAME_BAD:
                glpcore_report_add(it->report, REFUSE, "direction-name", &where,
                                   "Export again with names direction.N or direction.N.j. %s is "
                                   "not canonical: N is 1 to 1000000, j from 1, plain decimal.",
                                   glpcore_quote(tensor->name, quoted));
                break;
            default:
                if (layer == 0) {
                    glpcore_report_add(it->report, REFUSE, "direction-zero", &where,
                                       "Export again without direction.0. Layer 0 cannot be "
                                       "expressed: llama.cpp starts at direction.1.");
                }
        }
    }
}

static void check_shapes(judge *it) {
    const uint64_t width = it->file->n_sound > 0 ? it->file->sound[0].n_embd : 0;
    size_t i;
    for (i = 0; i < it->file->n_named; i++) {
        const glpcore_named *named = &it->file->named[i];
        const glpcore_gguf_tensor *tensor = named->tensor;
        const glpcore_where where = at_tensor(tensor, named->offset);
        char quoted[GLPCORE_QUOTE_SIZE];
        glpcore_quote(tensor->name, quoted);
        if (tensor->type != GLPCORE_GGML_F32) {
            glpcore_report_add(it->report, REFUSE, "direction-type", &where,
                               "Export again with F32 directions. %s has ggml type %u.", quoted,
                               tensor->type);
        }
        if (tensor->n_dims != 1) {
            glpcore_report_add(it->report, REFUSE, "direction-shape", &where,
                               "Export again with 1-D directions. %s has %u dimensions.", quoted,
                               (unsigned)tensor->n_dims);
        } else if (tensor->dims[0] == 0) {
            glpcore_report_add(it->report, REFUSE, "direction-shape", &where,
                               "Export again with directions of n_embd. %s is empty.", quoted);
        } else if (width != 0 && tensor->dims[0] != width) {
            glpcore_report_add(it->report, REFUSE, "direction-shape", &where,
                               "Export again with one n_embd for all directions. %s has %llu "
                               "and the first has %llu.",
                               quoted, (unsigned long long)tensor->dims[0],
                               (unsigned long long)width);
        }
    }
}

int glpcore_is_off_unit(double norm) { return fabs(norm - 1.0) > GLPCORE_UNIT_TOLERANCE; }

static void name_direction(const glpcore_named *named, char out[GLPCORE_QUOTE_SIZE]) {
    glpcore_sink sink = {NULL, 0, 0};
    sink.text = out;
    sink.size = GLPCORE_QUOTE_SIZE;
    if (named->tensor == NULL) {
        glpcore_sink_printf(&sink, "row %lu", (unsigned long)named->layer);
    } else if (named->j == 0) {
        glpcore_sink_printf(&sink, "direction.%lu", (unsigned long)named->layer);
    } else {
        glpcore_sink_printf(&sink, "direction.%lu.%lu", (unsigned long)named->layer,
                            (unsigned long)named->j);
    }
    glpcore_sink_end(&sink);
}

static void check_norm(judge *it, const glpcore_named *named, double norm) {
    const glpcore_where where = at_tensor(named->tensor, named->offset);
    const int projects =
        it->file->raw ? it->asked != GLPCORE_MODE_ADD : it->mode != GLPCORE_MODE_ADD;
    char name[GLPCORE_QUOTE_SIZE], number[GLPCORE_NUMBER_SIZE];
    name_direction(named, name);
    if (norm <= GLPCORE_ZERO_NORM) {
        glpcore_report_add(it->report, projects ? REFUSE : WARN, "direction-norm", &where,
                           "Leave out layers that are not steered. %s is zero (norm %s) and "
                           "steers nothing.",
                           name, glpcore_number(norm, number));
    } else if (projects && glpcore_is_off_unit(norm)) {
        const int renormalise = !it->own && it->target->renormalise;
        glpcore_report_add(it->report, renormalise ? WARN : REFUSE, "direction-norm", &where,
                           renormalise
                               ? "Export again with unit directions. %s has norm %s and is "
                                 "renormalised in a private copy."
                               : "Export with unit directions, or pass renormalise. %s has norm "
                                 "%s, and projecting scales with its square.",
                           name, glpcore_fixed(norm, 6, number));
    }
}

static void check_data(judge *it) {
    size_t i;
    for (i = 0; i < it->file->n_sound; i++) {
        const glpcore_named *named = &it->file->sound[i];
        const size_t n = (size_t)named->n_embd;
        if (glpcore_all_finite(named->data, n)) {
            check_norm(it, named, glpcore_norm(named->data, n));
        } else {
            const glpcore_where where = at_tensor(named->tensor, named->offset);
            char name[GLPCORE_QUOTE_SIZE];
            name_direction(named, name);
            glpcore_report_add(it->report, REFUSE,
                               it->file->raw ? "raw-nonfinite" : "direction-nonfinite", &where,
                               "Derive or download the vector again. %s holds a NaN or Inf, which "
                               "would spread to every token.",
                               name);
        }
    }
}

static void check_any_direction(judge *it) {
    if (it->file->n_named > 0) return;
    if (it->file->raw) {
        glpcore_report_add(it->report, REFUSE, "direction-empty", NULL,
                           "Pass a vector that steers a layer. Every row of this file is zero.");
    } else if (it->file->gguf.n_tensors > 0 && !begins_as_direction(it)) {
        glpcore_report_add(it->report, REFUSE, "direction-empty", NULL,
                           "Pass a steering vector: did you pass the model? None of the %llu "
                           "tensors is a direction.",
                           (unsigned long long)it->file->gguf.n_tensors);
    } else {
        glpcore_report_add(it->report, REFUSE, "direction-empty", NULL,
                           "Pass a file with direction.N tensors. This one has none.");
    }
}

/* ---- Rank ---- */

/* Calls for the run of directions of each layer: [first, last) in file->named. */
static size_t end_of_layer(const judge *it, size_t first) {
    const glpcore_named *named = it->file->named;
    size_t last = first;
    while (last < it->file->n_named && named[last].layer == named[first].layer) last++;
    return last;
}

static void check_rank(judge *it) {
    const glpcore_value *declared = value_of(it, GLPCORE_KEY_RANK);
    const glpcore_where where = at_key(it, GLPCORE_KEY_RANK);
    size_t first, last;
    if (it->file->n_named == 0) return;
    it->rank = (uint32_t)end_of_layer(it, 0);
    for (first = 0; first < it->file->n_named; first = last) {
        const unsigned long layer = it->file->named[first].layer;
        last = end_of_layer(it, first);
        /* Sorted and without duplicates, 0..k-1 means that the last is k-1. */
        if (it->file->named[last - 1].j != last - first - 1) {
            glpcore_report_add(it->report, REFUSE, "rank", NULL,
                               "Export again with directions 0 to k-1 at every layer. Layer %lu "
                               "has %lu of them and its last is number %lu.",
                               layer, (unsigned long)(last - first),
                               (unsigned long)it->file->named[last - 1].j);
        } else if (last - first != it->rank) {
            glpcore_report_add(it->report, REFUSE, "rank", NULL,
                               "Export again with one rank for all layers. Layer %lu has %lu "
                               "directions and layer %lu has %lu.",
                               layer, (unsigned long)(last - first),
                               (unsigned long)it->file->named[0].layer, (unsigned long)it->rank);
        }
    }
    if (it->rank > GLPCORE_MAX_RANK) {
        glpcore_report_add(it->report, REFUSE, "rank", NULL,
                           "Export again with at most %d directions a layer. This file has %lu.",
                           GLPCORE_MAX_RANK, (unsigned long)it->rank);
    }
    if (declared->state == GLPCORE_PRESENT && declared->integer != (int64_t)it->rank) {
        glpcore_report_add(it->report, REFUSE, "rank", &where,
                           "Export again with glp.rank as written. It says %lld and the tensors "
                           "make rank %lu.",
                           (long long)declared->integer, (unsigned long)it->rank);
    }
}

/* |G - I| of one layer's basis; as if renormalised when that was asked for. */
static double worst_product(const judge *it, const glpcore_named *basis, size_t k) {
    const int renormalise = !it->own && it->target->renormalise;
    const size_t n = (size_t)basis[0].n_embd;
    double norms[GLPCORE_MAX_RANK], worst = 0.0;
    size_t a, b;
    for (a = 0; a < k; a++) norms[a] = glpcore_norm(basis[a].data, n);
    for (a = 0; a < k; a++) {
        for (b = 0; b <= a; b++) {
            double product = glpcore_dot(basis[a].data, basis[b].data, n);
            if (renormalise && glpcore_is_off_unit(norms[a])) product /= norms[a];
            if (renormalise && glpcore_is_off_unit(norms[b])) product /= norms[b];
            product = fabs(product - (a == b ? 1.0 : 0.0));
            if (product > worst) worst = product;
            if (worst > GLPCORE_UNIT_TOLERANCE) return worst;
        }
    }
    return worst;
}

static int basis_is_sound(const glpcore_named *basis, size_t k) {
    size_t i;
    for (i = 0; i < k; i++) {
        if (basis[i].n_embd == 0 || basis[i].n_embd != basis[0].n_embd) return 0;
        if (!glpcore_all_finite(basis[i].data, (size_t)basis[i].n_embd)) return 0;
    }
    return 1;
}

static void check_orthonormal(judge *it) {
    const glpcore_value *flag = value_of(it, GLPCORE_KEY_ORTHONORMAL);
    const glpcore_where where = at_key(it, GLPCORE_KEY_ORTHONORMAL);
    size_t first, last;
    if (!has_rank_tensor(it)) return;
    if (flag->state == GLPCORE_ABSENT || (flag->state == GLPCORE_PRESENT && flag->integer != 1)) {
        glpcore_report_add(it->report, REFUSE, "orthonormal", &where,
                           "Orthonormalise the basis and export it again. More than one "
                           "direction a layer needs glp.orthonormal true: otherwise the order "
                           "of projection matters.");
    }
    for (first = 0; first < it->file->n_named; first = last) {
        const glpcore_named *basis = &it->file->named[first];
        size_t k;
        double worst;
        char number[GLPCORE_NUMBER_SIZE];
        last = end_of_layer(it, first);
        k = last - first;
        if (k < 2 || k > GLPCORE_MAX_RANK || !basis_is_sound(basis, k)) continue;
        worst = k > basis[0].n_embd ? 1.0 : worst_product(it, basis, k);
        if (worst > GLPCORE_UNIT_TOLERANCE) {
            glpcore_report_add(it->report, REFUSE, "orthonormal", NULL,
                               "Orthonormalise the basis and export it again. At layer %lu the "
                               "products of the %lu directions are off by %s.",
                               (unsigned long)basis[0].layer, (unsigned long)k,
                               glpcore_fixed(worst, 6, number));
        }
    }
}

/* ---- Layer map ---- */

size_t glpcore_list_layers(const glpcore_file *file, uint32_t *layers) {
    size_t i, n = 0;
    for (i = 0; i < file->n_named; i++) {
        if (n == 0 || layers[n - 1] != file->named[i].layer) layers[n++] = file->named[i].layer;
    }
    return n;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The next field up to `separator`, consumed from the text with it. */
static glpcore_text next_field(glpcore_text *rest, char separator, int *is_last) {
    glpcore_text field = *rest;
    const char *end = (const char *)memchr(rest->data, separator, rest->size);
    *is_last = end == NULL;
    if (end != NULL) {
        field.size = (size_t)(end - rest->data);
        rest->data = end + 1;
        rest->size -= field.size + 1;
    }
    return field;
}

static void check_layer_ids(judge *it) {
    const glpcore_value *declared = value_of(it, GLPCORE_KEY_LAYER_IDS);
    const glpcore_where where = at_key(it, GLPCORE_KEY_LAYER_IDS);
    glpcore_text rest = declared->text;
    uint32_t *ids;
    size_t n = 0, i;
    int is_last = 0, sound = 1;
    if (declared->state != GLPCORE_PRESENT) return;
    /* Every id takes at least a digit and a comma. */
    ids = (uint32_t *)malloc((rest.size / 2 + 1) * sizeof *ids);
    if (ids == NULL) {
        glpcore_report_out_of_memory(it->report);
        return;
    }
    while (!is_last && sound) {
        const glpcore_text field = next_field(&rest, ',', &is_last);
        sound = glpcore_parse_u32(field.data, field.size, UINT32_MAX, &ids[n]);
        n += sound;
    }
    if (!sound) {
        glpcore_report_add(it->report, REFUSE, "layer-ids", &where,
                           "Export again with layer ids like 10,11,12. Number %lu of "
                           "glp.layer_ids_zero_based is not a plain decimal.",
                           (unsigned long)n + 1);
    } else {
        qsort(ids, n, sizeof *ids, compare_u32);
        for (i = 0; i < n && i < it->n_layers && ids[i] == it->layers[i]; i++) continue;
        if (i < n || i < it->n_layers) {
            glpcore_report_add(it->report, REFUSE, "layer-ids", &where,
                               "Export again: the layer map may be shifted. "
                               "glp.layer_ids_zero_based lists %lu layers and the tensors %lu; "
                               "they differ first at %lu against %lu.",
                               (unsigned long)n, (unsigned long)it->n_layers,
                               i < n ? (unsigned long)ids[i] : 0ul,
                               i < it->n_layers ? (unsigned long)it->layers[i] : 0ul);
        }
    }
    free(ids);
}

/* ---- Strength ---- */

/* 2^128 less half a unit in the last place: from here on rounding to float32 gives infinity. */
#define FIRST_BEYOND_FLOAT32 340282356779733661637539395458142568448.0

static void check_alpha_name(judge *it, double alpha);

static void check_alpha(judge *it) {
    const glpcore_value *value = value_of(it, GLPCORE_KEY_ALPHA_DEFAULT);
    const glpcore_where where = at_key(it, GLPCORE_KEY_ALPHA_DEFAULT);
    const double alpha = value->number;
    char number[GLPCORE_NUMBER_SIZE];
    if (value->state == GLPCORE_ABSENT && it->mode != GLPCORE_MODE_ADD) {
        glpcore_report_add(it->report, WARN, "alpha-missing", &where,
                           "State the strength when you apply it. The file has no "
                           "glp.alpha_default.");
    }
    if (value->state != GLPCORE_PRESENT) return;
    if (!glpcore_finite_f64(&value->number) || fabs(alpha) >= FIRST_BEYOND_FLOAT32) {
        glpcore_report_add(it->report, REFUSE, "alpha", &where,
                           "Export again with a finite glp.alpha_default. %s is not a float32.",
                           glpcore_number(alpha, number));
        return;
    }
    if (alpha != 0.0 && (float)alpha == 0.0f) {
        glpcore_report_add(it->report, REFUSE, "alpha", &where,
                           "Export again with a larger glp.alpha_default, or 0. %s is 0 in "
                           "float32.",
                           glpcore_number(alpha, number));
        return;
    }
    if (fabs(alpha) > 32.0) {
        glpcore_report_add(it->report, WARN, "alpha-extreme", &where,
                           "Check the strength before you use it. glp.alpha_default is %s; 1 "
                           "removes a component entirely.",
                           glpcore_number(alpha, number));
    }
    check_alpha_name(it, alpha);
}

/* In either case; the suffix in lower case. */
static int has_suffix(glpcore_text text, const char *suffix) {
    const size_t size = strlen(suffix);
    size_t i;
    if (text.size < size) return 0;
    for (i = 0; i < size; i++) {
        const char c = text.data[text.size - size + i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != suffix[i]) return 0;
    }
    return 1;
}

/* File names carry the strength as "-a4": `v-L10-38-a4.gguf`. */
static void check_alpha_name(judge *it, double alpha) {
    glpcore_text rest = as_text(it->file->name);
    glpcore_where where = at_key(it, GLPCORE_KEY_ALPHA_DEFAULT);
    char claimed[GLPCORE_NUMBER_SIZE], number[GLPCORE_NUMBER_SIZE];
    double named = 0.0;
    int is_last = 0, found = 0;
    size_t i;
    if (rest.data == NULL) return;
    for (i = rest.size; i > 0; i--) {
        if (rest.data[i - 1] == '/' || rest.data[i - 1] == '\\') break;
    }
    rest.data += i;
    rest.size -= i;
    if (rest.size > 5 && has_suffix(rest, ".gguf")) rest.size -= 5;
    if (rest.size == 0) return;
    next_field(&rest, '-', &is_last);
    while (!is_last) {
        glpcore_text field = next_field(&rest, '-', &is_last);
        const int negative = field.size == 1 && field.data[0] == 'a' && !is_last;
        double value;
        if (negative) { /* "-a-4" */
            field = next_field(&rest, '-', &is_last);
            field.data--;
            field.size++;
        }
        /* A digit first: "-all" and "-axis" are words. */
        if (field.size < 2 || (field.data[0] != 'a' && !negative) || field.data[1] < '0' ||
            field.data[1] > '9') {
            continue;
        }
        if (!glpcore_parse_double(field.data + 1, field.size - 1, &value)) continue;
        named = negative ? -value : value;
        found = 1;
    }
    if (!found || named == alpha || (float)named == (float)alpha) return;
    glpcore_report_add(it->report, WARN, "alpha-name", &where,
                       "Trust the metadata: alpha_default is %s. The file name says a%s.",
                       glpcore_number(alpha, number), glpcore_number(named, claimed));
}

const char *glpcore_parse_dir_scales(glpcore_text text, double *scales, size_t n) {
    static const char *const wrong_count = "has not exactly one number for each direction";
    size_t count = 0;
    int is_last = 0;
    while (!is_last) {
        const glpcore_text field = next_field(&text, ',', &is_last);
        double value;
        /* A text of megabytes need not be read to its end to be too long. */
        if (count == n) return wrong_count;
        if (!glpcore_parse_double(field.data, field.size, &value)) {
            return "is not a list of plain decimal numbers";
        }
        if (!glpcore_finite_f64(&value)) return "has a number that is not finite";
        if (scales != NULL) scales[count] = value;
        count++;
    }
    return count == n ? NULL : wrong_count;
}

const char *glpcore_parse_layer_scales(glpcore_text text, const uint32_t *layers, double *scales,
                                       unsigned char *seen, size_t n) {
    int is_last = 0;
    memset(seen, 0, n);
    while (!is_last) {
        glpcore_text number = next_field(&text, ',', &is_last);
        int is_alone;
        const glpcore_text layer_text = next_field(&number, ':', &is_alone);
        const uint32_t *found;
        uint32_t layer;
        double value;
        if (is_alone || !glpcore_parse_u32(layer_text.data, layer_text.size, UINT32_MAX, &layer) ||
            !glpcore_parse_double(number.data, number.size, &value)) {
            return "is not a list of pairs like 10:0.5,11:1";
        }
        if (!glpcore_finite_f64(&value)) return "has a number that is not finite";
        found = (const uint32_t *)bsearch(&layer, layers, n, sizeof layer, compare_u32);
        if (found == NULL) return "names a layer that the file does not carry";
        if (seen[found - layers]) return "names a layer twice";
        seen[found - layers] = 1;
        if (scales != NULL) scales[found - layers] = value;
    }
    return NULL;
}

static void check_scales(judge *it) {
    static const char *const advice = "Export again with sound glp.*_scales. %s %s.";
    glpcore_where where;
    const char *problem;
    if (is_present(it, GLPCORE_KEY_DIR_SCALES)) {
        where = at_key(it, GLPCORE_KEY_DIR_SCALES);
        problem = glpcore_parse_dir_scales(value_of(it, GLPCORE_KEY_DIR_SCALES)->text, NULL,
                                           it->rank);
        if (problem != NULL) {
            glpcore_report_add(it->report, REFUSE, "scales", &where, advice, "glp.dir_scales",
                               problem);
        }
    }
    if (is_present(it, GLPCORE_KEY_LAYER_SCALES)) {
        unsigned char *seen = (unsigned char *)malloc(it->n_layers + 1);
        if (seen == NULL) {
            glpcore_report_out_of_memory(it->report);
            return;
        }
        where = at_key(it, GLPCORE_KEY_LAYER_SCALES);
        problem = glpcore_parse_layer_scales(value_of(it, GLPCORE_KEY_LAYER_SCALES)->text,
                                             it->layers, NULL, seen, it->n_layers);
        free(seen);
        if (problem != NULL) {
            glpcore_report_add(it->report, REFUSE, "scales", &where, advice, "glp.layer_scales",
                               problem);
        }
    }
}

/* ---- Content ---- */

static void digest(const glpcore_file *file, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[32];
    glpcore_sha256 hash;
    size_t i;
    glpcore_sha256_init(&hash);
    for (i = 0; i < file->n_named; i++) {
        const glpcore_named *named = &file->named[i];
        glpcore_sha256_update(&hash, named->data, (size_t)named->tensor->n_bytes);
    }
    glpcore_sha256_final(&hash, bytes);
    for (i = 0; i < 32; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[64] = '\0';
}

static int all_sized(const glpcore_file *file) {
    size_t i;
    for (i = 0; i < file->n_named; i++) {
        if (!file->named[i].tensor->sized) return 0;
    }
    return 1;
}

static void check_content_hash(judge *it) {
    const glpcore_value *declared = value_of(it, GLPCORE_KEY_CONTENT_SHA256);
    const glpcore_where where = at_key(it, GLPCORE_KEY_CONTENT_SHA256);
    char hex[65], quoted[GLPCORE_QUOTE_SIZE];
    if (declared->state == GLPCORE_ABSENT && it->mode != GLPCORE_MODE_ADD) {
        glpcore_report_add(it->report, WARN, "hash-missing", &where,
                           "Export again with glp.content_sha256. Without it nobody can tell "
                           "whether the directions are the author's.");
    }
    if (declared->state != GLPCORE_PRESENT) return;
    if (!it->own && it->target->skip_hash) {
        glpcore_report_add(it->report, WARN, "hash-unverified", &where,
                           "Verify the hash before you trust the file. The caller switched the "
                           "check of glp.content_sha256 off.");
        return;
    }
    if (!all_sized(it->file)) return; /* refused already: direction-type */
    digest(it->file, hex);
    if (!glpcore_text_is(declared->text, hex)) {
        glpcore_report_add(it->report, REFUSE, "content-hash", &where,
                           "Download the vector again: its directions changed. "
                           "glp.content_sha256 is %s and the tensors hash to %s.",
                           glpcore_quote(declared->text, quoted), hex);
    }
}

/* ---- The model ---- */

static void check_width(judge *it) {
    const uint64_t wanted = it->target->n_embd;
    uint64_t width = it->file->n_sound > 0 ? it->file->sound[0].n_embd : 0;
    if (it->file->raw) width = it->file->raw_n_embd;
    if (wanted == 0 || width == 0 || width == wanted) return;
    if (width % wanted == 0) {
        glpcore_report_add(it->report, REFUSE, "width-mismatch", NULL,
                           "Use a vector for n_embd %llu; this one has %llu. It may be for "
                           "flattened streams of %llu x %llu, which are steered as a whole.",
                           (unsigned long long)wanted, (unsigned long long)width,
                           (unsigned long long)(width / wanted), (unsigned long long)wanted);
    } else {
        glpcore_report_add(it->report, REFUSE, "width-mismatch", NULL,
                           "Use a vector for n_embd %llu; this one has %llu. A direction fits "
                           "only the checkpoint it was derived from.",
                           (unsigned long long)wanted, (unsigned long long)width);
    }
}

static void check_depth(judge *it) {
    const int steps = it->target->structure == GLPCORE_STRUCTURE_PER_EXECUTION_STEP;
    const uint64_t most = it->target->n_layers;
    const glpcore_named *last;
    if (most == 0 || it->file->n_named == 0) return;
    last = &it->file->named[it->file->n_named - 1];
    if (steps ? last->layer > most : last->layer >= most) {
        const glpcore_where where = at_tensor(last->tensor, last->offset);
        glpcore_report_add(it->report, REFUSE, "depth-mismatch", &where,
                           "Use a vector for a model of %llu %s. This one steers %s %lu, and "
                           "the last there is %llu.",
                           (unsigned long long)most, steps ? "steps" : "layers",
                           steps ? "step" : "layer",
                           (unsigned long)(steps ? last->layer - 1 : last->layer),
                           (unsigned long long)(most - 1));
    }
}

static int is_a_base_name(const glpcore_target *target, glpcore_text name) {
    size_t i;
    for (i = 0; i < target->n_base_names; i++) {
        if (glpcore_same_base(name, as_text(target->base_names[i]))) return 1;
    }
    return 0;
}

/* A file may name its base by two keys; each that is there must agree. */
static void check_base_name(judge *it, glpcore_key key) {
    const glpcore_target *target = it->target;
    const glpcore_text name = value_of(it, key)->text;
    const glpcore_severity severity = target->allow_base_mismatch ? WARN : REFUSE;
    const glpcore_where where = at_key(it, key);
    char ours[GLPCORE_QUOTE_SIZE], theirs[GLPCORE_QUOTE_SIZE];
    if (target->n_base_names == 0 || name.data == NULL || name.size == 0) return;
    if (is_a_base_name(target, name)) return;
    glpcore_report_add(it->report, severity, "base-mismatch", &where,
                       "Use a vector made for this model, or allow-base-mismatch. The file was "
                       "derived from %s and the target is %s.",
                       glpcore_quote(name, ours),
                       glpcore_quote(as_text(target->base_names[0]), theirs));
}

static void check_base_revision(judge *it, glpcore_key key) {
    const glpcore_text ours = value_of(it, key)->text;
    const glpcore_text theirs = as_text(it->target->base_revision);
    const glpcore_where where = at_key(it, key);
    char file_quoted[GLPCORE_QUOTE_SIZE], target_quoted[GLPCORE_QUOTE_SIZE];
    if (theirs.data == NULL || !glpcore_is_commit(ours) || !glpcore_is_commit(theirs)) return;
    if (glpcore_same_commit(ours, theirs)) return;
    glpcore_report_add(it->report, it->target->allow_base_mismatch ? WARN : REFUSE,
                       "base-mismatch", &where,
                       "Use the revision it was made for, or allow-base-mismatch. The file was "
                       "derived from %s and the target is %s.",
                       glpcore_quote(ours, file_quoted), glpcore_quote(theirs, target_quoted));
}

static void check_arch(judge *it) {
    const glpcore_value *hint = value_of(it, GLPCORE_KEY_MODEL_HINT);
    const glpcore_text theirs = as_text(it->target->arch);
    const glpcore_where where = at_key(it, GLPCORE_KEY_MODEL_HINT);
    char ours_quoted[GLPCORE_QUOTE_SIZE], theirs_quoted[GLPCORE_QUOTE_SIZE];
    glpcore_arch_match match;
    if (hint->state != GLPCORE_PRESENT || hint->text.size == 0 || theirs.size == 0) return;
    match = glpcore_compare_arch(hint->text, theirs);
    glpcore_quote(hint->text, ours_quoted);
    glpcore_quote(theirs, theirs_quoted);
    if (match == GLPCORE_ARCH_OTHER) {
        glpcore_report_add(it->report, it->target->allow_base_mismatch ? WARN : REFUSE,
                           "arch-mismatch", &where,
                           "Use a vector for this model, or pass allow-base-mismatch. The file "
                           "is for architecture %s and the model is %s.",
                           ours_quoted, theirs_quoted);
    } else if (match == GLPCORE_ARCH_UNSURE) {
        glpcore_report_add(it->report, WARN, "arch-mismatch", &where,
                           "Check that the architectures are the same. The file says %s and the "
                           "model %s, and glpcore does not know both.",
                           ours_quoted, theirs_quoted);
    }
}

static void check_base_missing(judge *it) {
    const glpcore_text name = glpcore_file_base_name(it->file);
    const glpcore_where where = at_key(it, GLPCORE_KEY_BASE_NAME);
    const int named_one = !it->own && it->target->n_base_names > 0;
    if (name.data != NULL && name.size > 0) return;
    if (value_of(it, GLPCORE_KEY_BASE_NAME)->state == GLPCORE_MISTYPED) return;
    if (named_one) {
        glpcore_report_add(it->report, WARN, "base-missing", &where,
                           "Make sure that the vector is for this model. It does not say which "
                           "checkpoint it was derived from.");
    } else if (it->mode != GLPCORE_MODE_ADD && !it->file->raw) {
        glpcore_report_add(it->report, WARN, "base-missing", &where,
                           "Export again with the base model's name. The file does not say which "
                           "checkpoint it was derived from.");
    }
}

/* ---- All of it ---- */

/* A headerless file states nothing, so the target must. */
static void judge_raw(judge *it) {
    if (it->own) {
        glpcore_report_add(it->report, WARN, "hook-missing", NULL,
                           "State the hook point when you apply it. A raw .f32 does not say where "
                           "it was derived.");
    } else {
        if (it->target->hook == GLPCORE_HOOK_UNKNOWN) {
            glpcore_report_add(it->report, it->target->allow_hook_mismatch ? WARN : REFUSE,
                               "hook-missing", NULL,
                               "State the hook point: a raw .f32 does not say it. At another one "
                               "the vector fails silently.");
        }
        if (it->target->structure == GLPCORE_STRUCTURE_PER_EXECUTION_STEP) {
            glpcore_report_add(it->report, REFUSE, "structure", NULL,
                               "Ask for structure per-layer. A raw .f32 has one row a layer.");
        }
    }
    check_any_direction(it);
    check_data(it);
}

static void judge_gguf(judge *it) {
    check_key_types(it);
    check_mode(it);
    check_version(it);
    check_version_gate(it);
    check_hook(it);
    check_derived_at(it);
    check_structure(it);
    check_any_direction(it);
    if (begins_as_direction(it)) check_names(it);
    check_shapes(it);
    check_data(it);
    check_rank(it);
    check_orthonormal(it);
    check_layer_ids(it);
    check_alpha(it);
    check_scales(it);
    check_content_hash(it);
}

void glpcore_find_faults(const glpcore_file *file, const glpcore_target *target,
                         glpcore_report *report) {
    judge it;
    memset(&it, 0, sizeof it);
    it.file = file;
    it.target = target;
    it.own = target == NULL;
    it.report = report;
    it.mode = glpcore_file_mode(file);
    it.asked = it.own ? it.mode : target->mode;
    it.layers = (uint32_t *)malloc((file->n_named + 1) * sizeof *it.layers);
    if (it.layers == NULL) {
        glpcore_report_out_of_memory(report);
        return;
    }
    it.n_layers = glpcore_list_layers(file, it.layers);
    if (file->raw) {
        judge_raw(&it);
    } else {
        judge_gguf(&it);
    }
    if (!it.own) {
        check_width(&it);
        check_depth(&it);
        check_base_name(&it, GLPCORE_KEY_BASE_NAME);
        check_base_name(&it, GLPCORE_KEY_GLP_BASE_MODEL);
        check_base_revision(&it, GLPCORE_KEY_BASE_VERSION);
        check_base_revision(&it, GLPCORE_KEY_GLP_BASE_REVISION);
        check_arch(&it);
    }
    check_base_missing(&it);
    check_unknown_keys(&it);
    free(it.layers);
}

static int is_flag(int value) { return value == 0 || value == 1; }

glpcore_status glpcore_read_target(const glpcore_target *caller, glpcore_target *target,
                                   char *message, size_t message_size) {
    const char *problem = NULL;
    size_t i;
    if (!glpcore_struct_in(target, sizeof *target, caller)) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Set struct_size of the target, and zero the rest.");
    }
    if (target->mode == GLPCORE_MODE_UNKNOWN) target->mode = GLPCORE_MODE_PROJECT;
    if (glpcore_mode_name(target->mode) == NULL) problem = "Set target.mode to project or add.";
    if (target->hook != GLPCORE_HOOK_UNKNOWN && glpcore_hook_name(target->hook) == NULL) {
        problem = "Set target.hook to a hook point of glpcore.h.";
    }
    if (target->structure != GLPCORE_STRUCTURE_PER_LAYER &&
        target->structure != GLPCORE_STRUCTURE_PER_EXECUTION_STEP) {
        problem = "Set target.structure to per layer or per execution step.";
    }
    if (!is_flag(target->allow_hook_mismatch) || !is_flag(target->allow_base_mismatch) ||
        !is_flag(target->renormalise) || !is_flag(target->skip_hash)) {
        problem = "Set the target's flags to 0 or 1.";
    }
    if (target->renormalise && target->mode == GLPCORE_MODE_ADD) {
        problem = "Drop renormalise: an additive vector's strength is its norm.";
    }
    if (target->n_base_names > 0 && target->base_names == NULL) {
        problem = "Set target.base_names, or n_base_names to 0.";
    }
    for (i = 0; problem == NULL && i < target->n_base_names; i++) {
        if (glpcore_base_is_empty(as_text(target->base_names[i]))) {
            problem = "Name the base model: an empty name matches nothing.";
        }
    }
    if (problem != NULL) return glpcore_fail(GLPCORE_INVALID, message, message_size, problem);
    return GLPCORE_OK;
}

glpcore_status glpcore_judge(const glpcore_file *file, const glpcore_target *target,
                             glpcore_report **out, char *message, size_t message_size) {
    glpcore_target known;
    glpcore_report *report;
    if (out != NULL) *out = NULL;
    if (file == NULL) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size, "Pass a file: got NULL.");
    }
    if (target != NULL) {
        const glpcore_status status = glpcore_read_target(target, &known, message, message_size);
        if (status != GLPCORE_OK) return status;
    }
    report = glpcore_report_new();
    if (report != NULL) {
        glpcore_report_append(report, file->warnings);
        glpcore_find_faults(file, target == NULL ? NULL : &known, report);
    }
    return glpcore_report_finish(report, out, message, message_size);
}
