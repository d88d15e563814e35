/* Where the bytes come from: a mapped file, a read file, or the caller's memory. */
#ifndef GLPCORE_SOURCE_H
#define GLPCORE_SOURCE_H

#include "report.h"

typedef struct glpcore_source {
    const unsigned char *data;
    size_t size;
    enum { GLPCORE_SOURCE_BORROWED, GLPCORE_SOURCE_OWNED, GLPCORE_SOURCE_MAPPED } kind;
} glpcore_source;

/* Each leaves *source empty and a finding (`io`, `too-big`) on failure. options has been checked;
 * may be NULL. */
glpcore_status glpcore_source_open(const char *path, const glpcore_open_options *options,
                                   glpcore_source *source, glpcore_report *report);
glpcore_status glpcore_source_memory(const void *data, size_t size,
                                     const glpcore_open_options *options, glpcore_source *source,
                                     glpcore_report *report);
void glpcore_source_close(glpcore_source *source);

#endif
