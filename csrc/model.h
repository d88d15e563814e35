/* Whether two names speak of the same model. Names of checkpoints are written in many ways. */
#ifndef GLPCORE_MODEL_H
#define GLPCORE_MODEL_H

#include "include/glpcore.h"

/* Equal once the organisation ("org/"), case and the separators - _ . and space are dropped. */
int glpcore_same_base(glpcore_text a, glpcore_text b);
/* 1 when nothing is left of a name after that. */
int glpcore_base_is_empty(glpcore_text name);

/* A git commit: 40 hexadecimal digits. */
int glpcore_is_commit(glpcore_text revision);
int glpcore_same_commit(glpcore_text a, glpcore_text b);

typedef enum glpcore_arch_match {
    GLPCORE_ARCH_SAME,
    GLPCORE_ARCH_OTHER,  /* both are known, and they differ */
    GLPCORE_ARCH_UNSURE  /* they are spelled differently, and at least one is not known */
} glpcore_arch_match;

/* Compares GGUF architectures and Hugging Face model types in any combination. */
glpcore_arch_match glpcore_compare_arch(glpcore_text a, glpcore_text b);

#endif
