/* The list of findings that a reading or a judgement leaves behind. */
#ifndef GLPCORE_REPORT_H
#define GLPCORE_REPORT_H

#include "include/glpcore.h"

/* What a finding is about; zero-initialise with GLPCORE_NOWHERE and set what applies. */
typedef struct glpcore_where {
    uint64_t offset;
    glpcore_text key;
    glpcore_text tensor;
} glpcore_where;

#define GLPCORE_NOWHERE {GLPCORE_NO_OFFSET, {NULL, 0}, {NULL, 0}}

/* NULL when out of memory. */
glpcore_report *glpcore_report_new(void);

/* Appends a finding; `code` must have static storage. `where` may be NULL. Untrusted text in the
 * arguments must have been quoted (text.h). Out of memory is remembered, not reported here. */
#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
void glpcore_report_add(glpcore_report *report, glpcore_severity severity, const char *code,
                        const glpcore_where *where, const char *format, ...);

/* Appends copies of the findings of another report. */
void glpcore_report_append(glpcore_report *report, const glpcore_report *other);

/* Remembers that memory ran out: the report's status becomes GLPCORE_NOMEM. */
void glpcore_report_out_of_memory(glpcore_report *report);

void glpcore_report_set_errno(glpcore_report *report, int system_errno);

int glpcore_report_has(const glpcore_report *report, const char *code);
/* Out of memory wins over everything; then IO, format, refusal, ok. */
glpcore_status glpcore_report_status(const glpcore_report *report);

/* Ends a public call: writes the first finding that is not a warning to the caller's buffer, hands
 * the report over or frees it, and returns its status. `report` may be NULL (out of memory). */
glpcore_status glpcore_report_finish(glpcore_report *report, glpcore_report **out, char *message,
                                     size_t message_size);

/* Writes a message of our own making, for calls that have no report. Returns `status`. */
glpcore_status glpcore_fail(glpcore_status status, char *message, size_t message_size,
                            const char *text);

#endif
