#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "text.h"

/* A file of a million bad tensors must not become a report of a million findings. */
#define MOST_OF_ONE_CODE 8

typedef struct entry {
    const char *code;
    glpcore_severity severity;
    uint64_t offset;
    char *message;  /* one allocation: message, NUL, key, tensor */
    glpcore_text key;
    glpcore_text tensor;
    size_t more;    /* > 0: stands for this many findings of the code */
} entry;

struct glpcore_report {
    entry *entries;
    size_t count, capacity;
    int system_errno;
    int out_of_memory;
};

glpcore_report *glpcore_report_new(void) {
    return (glpcore_report *)calloc(1, sizeof(glpcore_report));
}

void glpcore_report_free(glpcore_report *report) {
    size_t i;
    if (report == NULL) return;
    for (i = 0; i < report->count; i++) free(report->entries[i].message);
    free(report->entries);
    free(report);
}

static glpcore_text copy_text(char **to, glpcore_text text) {
    glpcore_text copy = {NULL, 0};
    if (text.data == NULL) return copy;
    memcpy(*to, text.data, text.size);
    copy.data = *to;
    copy.size = text.size;
    *to += text.size;
    return copy;
}

static void append(glpcore_report *report, glpcore_severity severity, const char *code,
                   const glpcore_where *where, const char *message, size_t more) {
    static const glpcore_where nowhere = GLPCORE_NOWHERE;
    const size_t length = strlen(message) + 1;
    entry *e;
    char *text;
    if (where == NULL) where = &nowhere;
    if (report->count == report->capacity) {
        size_t capacity = report->capacity == 0 ? 8 : 2 * report->capacity;
        entry *grown = (entry *)realloc(report->entries, capacity * sizeof *grown);
        if (grown == NULL) {
            report->out_of_memory = 1;
            return;
        }
        report->entries = grown;
        report->capacity = capacity;
    }
    text = (char *)malloc(length + where->key.size + where->tensor.size);
    if (text == NULL) {
        report->out_of_memory = 1;
        return;
    }
    e = &report->entries[report->count++];
    memcpy(text, message, length);
    e->code = code;
    e->severity = severity;
    e->offset = where->offset;
    e->message = text;
    e->more = more;
    text += length;
    e->key = copy_text(&text, where->key);
    e->tensor = copy_text(&text, where->tensor);
}

/* The entry that counts the findings of this code and severity beyond the first eight, made when
 * first needed; NULL while there is room for another finding. */
static entry *overflow_of(glpcore_report *report, const char *code, glpcore_severity severity) {
    size_t i, seen = 0;
    for (i = 0; i < report->count; i++) {
        entry *e = &report->entries[i];
        if (e->severity != severity || strcmp(e->code, code) != 0) continue;
        if (e->more > 0) return e;
        seen++;
    }
    if (seen < MOST_OF_ONE_CODE) return NULL;
    append(report, severity, code, NULL,
           "See the findings above: 18446744073709551615 more have the same code.", 1);
    if (report->out_of_memory) return NULL;
    i = report->count - 1;
    report->entries[i].more = 0;
    return &report->entries[i];
}

static void count_more(entry *e, size_t more) {
    e->more += more;
    sprintf(e->message, "See the findings above: %lu more have the same code.",
            (unsigned long)e->more);
}

void glpcore_report_add(glpcore_report *report, glpcore_severity severity, const char *code,
                        const glpcore_where *where, const char *format, ...) {
    char message[1024];
    entry *overflow = overflow_of(report, code, severity);
    va_list arguments;
    if (report->out_of_memory) return;
    if (overflow != NULL) {
        count_more(overflow, 1);
        return;
    }
    va_start(arguments, format);
    if (vsnprintf(message, sizeof message, format, arguments) < 0) message[0] = '\0';
    va_end(arguments);
    append(report, severity, code, where, message, 0);
}

void glpcore_report_append(glpcore_report *report, const glpcore_report *other) {
    size_t i;
    for (i = 0; i < other->count; i++) {
        const entry *e = &other->entries[i];
        glpcore_where where = GLPCORE_NOWHERE;
        where.offset = e->offset;
        where.key = e->key;
        where.tensor = e->tensor;
        append(report, e->severity, e->code, &where, e->message, e->more);
    }
    report->out_of_memory |= other->out_of_memory;
}

void glpcore_report_out_of_memory(glpcore_report *report) { report->out_of_memory = 1; }

void glpcore_report_set_errno(glpcore_report *report, int system_errno) {
    report->system_errno = system_errno;
}

int glpcore_report_errno(const glpcore_report *report) {
    return report == NULL ? 0 : report->system_errno;
}

size_t glpcore_finding_count(const glpcore_report *report) {
    return report == NULL ? 0 : report->count;
}

glpcore_status glpcore_finding_at(const glpcore_report *report, size_t index,
                                  glpcore_finding *finding) {
    const entry *e;
    glpcore_finding full;
    if (report == NULL || index >= report->count) return GLPCORE_INVALID;
    e = &report->entries[index];
    full.struct_size = sizeof full;
    full.code = e->code;
    full.severity = e->severity;
    full.message = e->message;
    full.offset = e->offset;
    full.key = e->key;
    full.tensor = e->tensor;
    return glpcore_struct_out(finding, &full, sizeof full) ? GLPCORE_OK : GLPCORE_INVALID;
}

int glpcore_report_has(const glpcore_report *report, const char *code) {
    size_t i;
    for (i = 0; report != NULL && i < report->count; i++) {
        if (strcmp(report->entries[i].code, code) == 0) return 1;
    }
    return 0;
}

static const entry *first_error(const glpcore_report *report) {
    size_t i;
    for (i = 0; i < report->count; i++) {
        if (report->entries[i].severity != GLPCORE_SEVERITY_WARNING) return &report->entries[i];
    }
    return NULL;
}

glpcore_status glpcore_report_status(const glpcore_report *report) {
    const entry *first;
    if (report == NULL || report->out_of_memory) return GLPCORE_NOMEM;
    first = first_error(report);
    if (first == NULL) return GLPCORE_OK;
    if (first->severity == GLPCORE_SEVERITY_REFUSAL) return GLPCORE_REFUSED;
    return strcmp(first->code, "io") == 0 ? GLPCORE_IO : GLPCORE_FORMAT;
}

static void write_message(char *message, size_t message_size, const char *text, const char *code) {
    glpcore_sink sink = {NULL, 0, 0};
    if (message == NULL || message_size == 0) return;
    sink.text = message;
    sink.size = message_size;
    glpcore_sink_bytes(&sink, text, strlen(text));
    if (code != NULL) glpcore_sink_printf(&sink, " [%s]", code);
    glpcore_sink_end(&sink);
}

glpcore_status glpcore_fail(glpcore_status status, char *message, size_t message_size,
                            const char *text) {
    write_message(message, message_size, text, NULL);
    return status;
}

glpcore_status glpcore_report_finish(glpcore_report *report, glpcore_report **out, char *message,
                                     size_t message_size) {
    const glpcore_status status = glpcore_report_status(report);
    const entry *first = status == GLPCORE_NOMEM ? NULL : first_error(report);
    if (status == GLPCORE_NOMEM) {
        write_message(message, message_size, "Free some memory and try again.", NULL);
        glpcore_report_free(report);
        report = NULL;
    } else if (first != NULL) {
        write_message(message, message_size, first->message, first->code);
    } else {
        write_message(message, message_size, "", NULL);
    }
    if (out != NULL) {
        *out = report;
    } else {
        glpcore_report_free(report);
    }
    return status;
}
