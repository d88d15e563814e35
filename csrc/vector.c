/* A file accepted for a target: directions, strengths, the dense table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "judge.h"
#include "text.h"

struct glpcore_vector {
    const glpcore_file *file;
    glpcore_vector_info info;
    uint32_t *layers;       /* ascending; direction j of layers[i] is file->sound[i * rank + j] */
    double *dir_scales;     /* rank numbers */
    double *layer_scales;   /* one for each layer */
    float *renormalised;    /* every direction, when any was scaled; else NULL */
};

static glpcore_status out_of_memory(char *message, size_t message_size) {
    return glpcore_report_finish(NULL, NULL, message, message_size);
}

void glpcore_vector_free(glpcore_vector *vector) {
    if (vector == NULL) return;
    free(vector->layers);
    free(vector->dir_scales);
    free(vector->layer_scales);
    free(vector->renormalised);
    free(vector);
}

static size_t count_off_unit(const glpcore_file *file) {
    size_t i, count = 0;
    for (i = 0; i < file->n_sound; i++) {
        count += glpcore_is_off_unit(
            glpcore_norm(file->sound[i].data, (size_t)file->sound[i].n_embd));
    }
    return count;
}

/* Directions within the tolerance keep their bits. */
static int renormalise(glpcore_vector *vector) {
    const glpcore_file *file = vector->file;
    const size_t n_embd = (size_t)vector->info.n_embd;
    size_t i, k;
    vector->info.n_renormalised = count_off_unit(file);
    if (vector->info.n_renormalised == 0) return 1;
    vector->renormalised = (float *)malloc(file->n_sound * n_embd * sizeof(float));
    if (vector->renormalised == NULL) return 0;
    for (i = 0; i < file->n_sound; i++) {
        float *copy = vector->renormalised + i * n_embd;
        const double norm = glpcore_norm(file->sound[i].data, n_embd);
        memcpy(copy, file->sound[i].data, n_embd * sizeof(float));
        if (!glpcore_is_off_unit(norm)) continue;
        for (k = 0; k < n_embd; k++) copy[k] = (float)((double)copy[k] / norm);
    }
    return 1;
}

static int read_scales(glpcore_vector *vector) {
    const glpcore_value *values = vector->file->values;
    const size_t n_layers = vector->info.n_layers;
    unsigned char *seen = (unsigned char *)malloc(n_layers);
    size_t i;
    vector->dir_scales = (double *)malloc(vector->info.rank * sizeof(double));
    vector->layer_scales = (double *)malloc(n_layers * sizeof(double));
    if (seen == NULL || vector->dir_scales == NULL || vector->layer_scales == NULL) {
        free(seen);
        return 0;
    }
    for (i = 0; i < vector->info.rank; i++) vector->dir_scales[i] = 1.0;
    for (i = 0; i < n_layers; i++) vector->layer_scales[i] = 1.0;
    if (values[GLPCORE_KEY_DIR_SCALES].state == GLPCORE_PRESENT) {
        glpcore_parse_dir_scales(values[GLPCORE_KEY_DIR_SCALES].text, vector->dir_scales,
                                 vector->info.rank);
    }
    if (values[GLPCORE_KEY_LAYER_SCALES].state == GLPCORE_PRESENT) {
        glpcore_parse_layer_scales(values[GLPCORE_KEY_LAYER_SCALES].text, vector->layers,
                                   vector->layer_scales, seen, n_layers);
    }
    free(seen);
    return 1;
}

/* The file has been judged: every named direction is sound and every layer has `rank` of them. */
static glpcore_vector *make_vector(const glpcore_file *file, const glpcore_target *target) {
    const glpcore_hook hook = glpcore_file_hook(file);
    const glpcore_value *alpha = &file->values[GLPCORE_KEY_ALPHA_DEFAULT];
    glpcore_vector *vector = (glpcore_vector *)calloc(1, sizeof *vector);
    if (vector == NULL) return NULL;
    vector->file = file;
    vector->layers = (uint32_t *)malloc((file->n_sound + 1) * sizeof *vector->layers);
    if (vector->layers == NULL) {
        glpcore_vector_free(vector);
        return NULL;
    }
    vector->info.n_layers = glpcore_list_layers(file, vector->layers);
    vector->info.mode = target->mode;
    vector->info.hook = target->hook != GLPCORE_HOOK_UNKNOWN ? target->hook : hook;
    vector->info.structure = target->structure;
    vector->info.n_embd = file->sound[0].n_embd;
    vector->info.rank = (uint32_t)(file->n_sound / vector->info.n_layers);
    vector->info.layer_min = vector->layers[0];
    vector->info.layer_max = vector->layers[vector->info.n_layers - 1];
    vector->info.adoptable = alpha->state == GLPCORE_PRESENT &&
                             target->hook != GLPCORE_HOOK_UNKNOWN && target->hook == hook;
    vector->info.alpha_default = vector->info.adoptable ? alpha->number : 0.0;
    if (!read_scales(vector) || (target->renormalise && !renormalise(vector))) {
        glpcore_vector_free(vector);
        return NULL;
    }
    return vector;
}

glpcore_status glpcore_accept(const glpcore_file *file, const glpcore_target *target,
                              glpcore_vector **vector, glpcore_report **report, char *message,
                              size_t message_size) {
    glpcore_target known;
    glpcore_status status;
    if (report != NULL) *report = NULL;
    if (vector == NULL) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a place for the vector handle.");
    }
    *vector = NULL;
    status = glpcore_read_target(target, &known, message, message_size);
    if (status != GLPCORE_OK) return status;
    status = glpcore_judge(file, &known, report, message, message_size);
    if (status != GLPCORE_OK) return status;
    *vector = make_vector(file, &known);
    if (*vector != NULL) return GLPCORE_OK;
    if (report != NULL) {
        glpcore_report_free(*report);
        *report = NULL;
    }
    return out_of_memory(message, message_size);
}

glpcore_status glpcore_vector_info_get(const glpcore_vector *vector, glpcore_vector_info *info) {
    if (vector == NULL) return GLPCORE_INVALID;
    return glpcore_struct_out(info, &vector->info, sizeof vector->info) ? GLPCORE_OK
                                                                        : GLPCORE_INVALID;
}

uint32_t glpcore_vector_layer(const glpcore_vector *vector, size_t index) {
    if (vector == NULL || index >= vector->info.n_layers) return UINT32_MAX;
    return vector->layers[index];
}

/* The place of a layer among those that carry directions, or n_layers. */
static size_t find_layer(const glpcore_vector *vector, uint32_t layer) {
    size_t low = 0, high = vector->info.n_layers;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (vector->layers[middle] < layer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < vector->info.n_layers && vector->layers[low] == layer ? low
                                                                       : vector->info.n_layers;
}

const float *glpcore_direction(const glpcore_vector *vector, uint32_t layer, uint32_t j) {
    size_t at;
    if (vector == NULL || j >= vector->info.rank) return NULL;
    at = find_layer(vector, layer);
    if (at == vector->info.n_layers) return NULL;
    at = at * vector->info.rank + j;
    if (vector->renormalised != NULL) {
        return vector->renormalised + at * (size_t)vector->info.n_embd;
    }
    return (const float *)(const void *)vector->file->sound[at].data;
}

/* ---- Strength ---- */

/* Which strength counts, before the scales. */
static glpcore_status choose_strength(const glpcore_vector *vector,
                                      const glpcore_strength *caller, double *alpha, int *adopted,
                                      char *message, size_t message_size) {
    glpcore_strength strength;
    *adopted = 0;
    if (!glpcore_struct_in(&strength, sizeof strength, caller)) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Set struct_size of the strength, and zero the rest.");
    }
    if ((strength.has_alpha && !glpcore_finite_f64(&strength.alpha)) ||
        (strength.has_fallback && !glpcore_finite_f64(&strength.fallback))) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a finite strength: alpha or fallback is NaN or Inf.");
    }
    if (strength.has_alpha) {
        *alpha = strength.alpha;
    } else if (vector->info.adoptable) {
        *alpha = vector->info.alpha_default;
        *adopted = 1;
    } else if (strength.has_fallback) {
        *alpha = strength.fallback;
    } else {
        const int declared =
            vector->file->values[GLPCORE_KEY_ALPHA_DEFAULT].state == GLPCORE_PRESENT;
        return glpcore_fail(GLPCORE_REFUSED, message, message_size,
                            declared ? "Pass alpha or a fallback: the file's may not be adopted. "
                                       "alpha_default counts only at the hook point that was "
                                       "named and is the file's. [alpha-missing]"
                                     : "Pass alpha or a fallback: the file declares no strength. "
                                       "[alpha-missing]");
    }
    return GLPCORE_OK;
}

glpcore_status glpcore_alpha(const glpcore_vector *vector, uint32_t layer, uint32_t j,
                             const glpcore_strength *strength, double *alpha, int *adopted,
                             char *message, size_t message_size) {
    glpcore_status status;
    double chosen = 0.0;
    int was_adopted;
    size_t at;
    if (vector == NULL || alpha == NULL) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a vector and a place for alpha: got NULL.");
    }
    at = find_layer(vector, layer);
    if (at == vector->info.n_layers || j >= vector->info.rank) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a layer and a direction that the vector has.");
    }
    status = choose_strength(vector, strength, &chosen, &was_adopted, message, message_size);
    if (status != GLPCORE_OK) return status;
    *alpha = chosen * vector->dir_scales[j] * vector->layer_scales[at];
    if (!glpcore_finite_f64(alpha)) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a smaller strength: with the file's scales it overflows.");
    }
    if (adopted != NULL) *adopted = was_adopted;
    if (message != NULL && message_size > 0) message[0] = '\0';
    return GLPCORE_OK;
}

/* ---- The dense table ---- */

static glpcore_status check_dense(const glpcore_vector *vector, size_t n_rows, size_t n_embd,
                                  const double *alphas, char *message, size_t message_size) {
    const int steps = vector->info.structure == GLPCORE_STRUCTURE_PER_EXECUTION_STEP;
    if (n_embd != vector->info.n_embd ||
        (uint64_t)vector->info.layer_max + (steps ? 0 : 1) > n_rows) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Make the table n_embd wide and reach the vector's last layer.");
    }
    if (vector->info.rank > 1) {
        return glpcore_fail(GLPCORE_REFUSED, message, message_size,
                            "Apply the directions one by one: the rank is above 1. A dense table "
                            "has one direction for each layer. [rank]");
    }
    if (alphas == NULL &&
        vector->file->values[GLPCORE_KEY_LAYER_SCALES].state == GLPCORE_PRESENT) {
        return glpcore_fail(GLPCORE_REFUSED, message, message_size,
                            "Pass an array for the strengths of the layers. The file has "
                            "glp.layer_scales, and a table has one strength. [scales]");
    }
    return GLPCORE_OK;
}

glpcore_status glpcore_fill_dense(const glpcore_vector *vector, float *table, size_t n_rows,
                                  size_t n_embd, const glpcore_strength *strength, double *alphas,
                                  char *message, size_t message_size) {
    const int shift = vector != NULL &&
                      vector->info.structure == GLPCORE_STRUCTURE_PER_EXECUTION_STEP;
    glpcore_status status;
    size_t i;
    if (vector == NULL || table == NULL || n_embd == 0 || n_rows > SIZE_MAX / 4 / n_embd) {
        return glpcore_fail(GLPCORE_INVALID, message, message_size,
                            "Pass a vector and a table of n_rows x n_embd floats.");
    }
    memset(table, 0, n_rows * n_embd * sizeof *table);
    if (alphas != NULL) memset(alphas, 0, n_rows * sizeof *alphas);
    status = check_dense(vector, n_rows, n_embd, alphas, message, message_size);
    /* Strengths first: a refusal must leave the table all zero. */
    for (i = 0; alphas != NULL && i < vector->info.n_layers && status == GLPCORE_OK; i++) {
        status = glpcore_alpha(vector, vector->layers[i], 0, strength,
                               &alphas[vector->layers[i] - (size_t)shift], NULL, message,
                               message_size);
    }
    if (status != GLPCORE_OK) {
        if (alphas != NULL) memset(alphas, 0, n_rows * sizeof *alphas);
        return status;
    }
    for (i = 0; i < vector->info.n_layers; i++) {
        memcpy(table + (vector->layers[i] - (size_t)shift) * n_embd,
               glpcore_direction(vector, vector->layers[i], 0), n_embd * sizeof *table);
    }
    if (message != NULL && message_size > 0) message[0] = '\0';
    return GLPCORE_OK;
}
