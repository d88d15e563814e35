/* Every finding about a file, for a target or by its own declarations. */
#ifndef GLPCORE_JUDGE_H
#define GLPCORE_JUDGE_H

#include "glp.h"

/* Checks the caller's struct and copies it. NULL options state nothing. GLPCORE_INVALID, with a
 * message, when it contradicts the header. */
glpcore_status glpcore_read_target(const glpcore_target *caller, glpcore_target *target,
                                   char *message, size_t message_size);

/* Appends all findings to the report. target NULL: by the file's own mode, hook and structure. */
void glpcore_find_faults(const glpcore_file *file, const glpcore_target *target,
                         glpcore_report *report);

/* Parses glp.dir_scales (exactly n numbers) or glp.layer_scales (pairs L:m over `layers`,
 * ascending) into `scales` of n numbers, preset by the caller; scales may be NULL to only check.
 * NULL when sound, else what is wrong. */
const char *glpcore_parse_dir_scales(glpcore_text text, double *scales, size_t n);
const char *glpcore_parse_layer_scales(glpcore_text text, const uint32_t *layers, double *scales,
                                       unsigned char *seen, size_t n);

/* The layers that carry directions, ascending, each once: n_named numbers at most. */
size_t glpcore_list_layers(const glpcore_file *file, uint32_t *layers);

/* An off-unit norm, or one that is zero. */
int glpcore_is_off_unit(double norm);

#endif
