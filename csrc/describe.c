/* The text that every front end prints for a file. */
#include <math.h>
#include <string.h>

#include "judge.h"
#include "text.h"

typedef struct describer {
    const glpcore_file *file;
    const glpcore_report *report;
    glpcore_info info;
    glpcore_sink sink;
} describer;

static void label(describer *it, const char *name) {
    glpcore_sink_printf(&it->sink, "  %-14s ", name);
}

static void put(describer *it, const char *text) {
    glpcore_sink_bytes(&it->sink, text, strlen(text));
}

static void put_escaped(describer *it, glpcore_text text) {
    glpcore_sink_escaped(&it->sink, text.data, text.size);
}

static void optional_line(describer *it, const char *name, glpcore_text text) {
    if (text.data == NULL || text.size == 0) return;
    label(it, name);
    put_escaped(it, text);
    put(it, "\n");
}

static void put_verdict(describer *it, const char *name) {
    glpcore_text text;
    text.data = name == NULL ? "" : name;
    text.size = strlen(text.data);
    put(it, glpcore_report_status(it->report) == GLPCORE_OK ? "applicable: " : "refused: ");
    put_escaped(it, text);
    put(it, "\n");
}

static void put_operation(describer *it) {
    const glpcore_info *info = &it->info;
    label(it, "mode");
    if (info->raw) {
        put(it, "project (not declared: a raw .f32 states nothing)\n");
    } else if (!info->mode_declared) {
        put(it, "add (not declared: without glp.mode a file is additive)\n");
    } else if (info->mode != GLPCORE_MODE_UNKNOWN) {
        glpcore_sink_printf(&it->sink, "%s (declared)\n", glpcore_mode_name(info->mode));
    } else {
        put_escaped(it, info->mode_text);
        put(it, " (declared; not a mode)\n");
    }

    label(it, "hook point");
    if (info->hook_text.data != NULL) {
        put_escaped(it, info->hook_text);
        put(it, info->hook == GLPCORE_HOOK_UNKNOWN ? " (not a known hook point)\n" : "\n");
    } else if (info->hook != GLPCORE_HOOK_UNKNOWN) {
        glpcore_sink_printf(&it->sink, "%s (not declared: where additive files apply)\n",
                            glpcore_hook_name(info->hook));
    } else {
        put(it, "not declared\n");
    }
    if (info->derived_at.data != NULL) {
        label(it, "derived at");
        put_escaped(it, info->derived_at);
        put(it, info->transferred ? " (TRANSFERRED)\n" : "\n");
    }
    optional_line(it, "structure", info->structure_text);
}

static void put_strength(describer *it) {
    char number[GLPCORE_NUMBER_SIZE];
    label(it, "alpha");
    if (it->info.has_alpha) {
        glpcore_sink_printf(&it->sink, "%s", glpcore_number(it->info.alpha, number));
        if (it->info.has_dir_scales) put(it, ", times glp.dir_scales");
        if (it->info.has_layer_scales) put(it, ", times glp.layer_scales");
        put(it, "\n");
    } else {
        put(it, "not declared\n");
    }
}

/* "1-4,7,9-12" */
static void put_layers(describer *it) {
    const glpcore_file *file = it->file;
    size_t i = 0;
    label(it, "layers");
    if (file->n_named == 0) put(it, "none");
    while (i < file->n_named) {
        const uint32_t first = file->named[i].layer;
        uint32_t last = first;
        while (i < file->n_named && file->named[i].layer - last <= 1) last = file->named[i++].layer;
        glpcore_sink_printf(&it->sink, "%lu", (unsigned long)first);
        if (last != first) glpcore_sink_printf(&it->sink, "-%lu", (unsigned long)last);
        if (i < file->n_named) put(it, ",");
    }
    put(it, "\n");
}

static void put_coverage(describer *it) {
    const glpcore_info *info = &it->info;
    char low[GLPCORE_NUMBER_SIZE], high[GLPCORE_NUMBER_SIZE];
    label(it, "rank");
    glpcore_sink_printf(&it->sink, "%lu\n", (unsigned long)info->rank);
    label(it, "coverage");
    glpcore_sink_printf(&it->sink, "%lu direction%s in %lu layer%s",
                        (unsigned long)info->n_directions, info->n_directions == 1 ? "" : "s",
                        (unsigned long)info->n_layers, info->n_layers == 1 ? "" : "s");
    if (info->raw) {
        glpcore_sink_printf(&it->sink, " of %lu", (unsigned long)it->file->raw_layers);
    }
    put(it, "\n");
    put_layers(it);
    label(it, "n_embd");
    glpcore_sink_printf(&it->sink, "%llu\n", (unsigned long long)info->n_embd);
    label(it, "norms");
    if (info->n_directions == 0) {
        put(it, "none\n");
    } else {
        glpcore_sink_printf(&it->sink, "%s..%s\n", glpcore_fixed(info->norm_min, 6, low),
                            glpcore_fixed(info->norm_max, 6, high));
    }
}

static void put_provenance(describer *it) {
    const glpcore_info *info = &it->info;
    label(it, "base model");
    if (info->base_name.data == NULL || info->base_name.size == 0) {
        put(it, "not declared");
    } else {
        if (info->base_organization.size > 0) {
            put_escaped(it, info->base_organization);
            put(it, "/");
        }
        put_escaped(it, info->base_name);
    }
    if (info->base_revision.size > 0) {
        put(it, " at ");
        put_escaped(it, info->base_revision);
    }
    put(it, "\n");
    optional_line(it, "base url", info->base_url);
    optional_line(it, "model hint", info->model_hint);
    optional_line(it, "name", info->name);
    optional_line(it, "method", info->method);
    optional_line(it, "contrast", info->contrast);
    optional_line(it, "generator", info->generator);
    optional_line(it, "created", info->created);
}

static void put_hash(describer *it) {
    label(it, "content hash");
    if (it->info.content_sha256.data == NULL) {
        put(it, "not declared\n");
        return;
    }
    if (glpcore_report_has(it->report, "content-hash")) {
        put(it, "MISMATCH, declared ");
    } else if (glpcore_report_has(it->report, "hash-unverified") ||
               it->file->n_sound != it->file->n_named) {
        put(it, "not verified, declared ");
    } else {
        put(it, "verified ");
    }
    put_escaped(it, it->info.content_sha256);
    put(it, "\n");
}

static int is_projecting(const describer *it) {
    return !it->info.raw && it->info.mode == GLPCORE_MODE_PROJECT;
}

/* One row for each direction. The strength shown is the file's own. */
static void put_table(describer *it) {
    const glpcore_file *file = it->file;
    glpcore_vector *vector = NULL;
    glpcore_target target;
    glpcore_strength strength;
    size_t i;
    memset(&target, 0, sizeof target);
    target.struct_size = sizeof target;
    target.mode = it->info.mode;
    target.structure = it->info.structure == GLPCORE_STRUCTURE_PER_EXECUTION_STEP
                           ? GLPCORE_STRUCTURE_PER_EXECUTION_STEP
                           : GLPCORE_STRUCTURE_PER_LAYER;
    target.skip_hash = 1;
    target.allow_hook_mismatch = 1;
    memset(&strength, 0, sizeof strength);
    strength.struct_size = sizeof strength;
    strength.has_alpha = it->info.has_alpha;
    strength.alpha = it->info.alpha;
    /* Only an applicable file has strengths; the others show norms and cosines alone. */
    glpcore_accept(file, &target, &vector, NULL, NULL, 0);
    put(it, "\n   layer   j         norm   cos to prev        alpha\n");
    for (i = 0; i < file->n_sound; i++) {
        char norm[GLPCORE_NUMBER_SIZE], cosine[GLPCORE_NUMBER_SIZE], shown[GLPCORE_NUMBER_SIZE];
        glpcore_payload row;
        double alpha;
        row.struct_size = sizeof row;
        glpcore_payload_at(file, i, &row);
        if (glpcore_finite_f64(&row.cosine)) {
            glpcore_fixed(row.cosine, 6, cosine);
        } else {
            strcpy(cosine, "-");
        }
        strcpy(shown, "-");
        if (vector != NULL && glpcore_alpha(vector, row.layer, row.j, &strength, &alpha, NULL,
                                            NULL, 0) == GLPCORE_OK) {
            glpcore_number(alpha, shown);
        }
        glpcore_sink_printf(&it->sink, "  %6lu %3lu %12s %13s %12s\n", (unsigned long)row.layer,
                            (unsigned long)row.j, glpcore_fixed(row.norm, 6, norm), cosine, shown);
    }
    glpcore_vector_free(vector);
}

size_t glpcore_describe(const glpcore_file *file, const glpcore_report *report, const char *name,
                        unsigned flags, char *text, size_t size) {
    describer it;
    memset(&it, 0, sizeof it);
    it.file = file;
    it.report = report;
    it.info.struct_size = sizeof it.info;
    if (text != NULL) {
        it.sink.text = text;
        it.sink.size = size;
    }
    if (file == NULL || report == NULL) return glpcore_sink_end(&it.sink);
    glpcore_info_get(file, &it.info);
    put_verdict(&it, name != NULL ? name : file->name);
    put_operation(&it);
    put_strength(&it);
    put_coverage(&it);
    put_provenance(&it);
    put_hash(&it);
    if (is_projecting(&it)) {
        label(&it, "note");
        put(&it, "a reader that only adds (stock llama.cpp) would misapply this file\n");
    }
    if (flags & GLPCORE_DESCRIBE_LAYERS) put_table(&it);
    return glpcore_sink_end(&it.sink);
}
