/* Text in and out: escaping what comes from a file, numbers without the locale. */
#ifndef GLPCORE_TEXT_H
#define GLPCORE_TEXT_H

#include "include/glpcore.h"
#include "strict.h"

/* Room for a quoted excerpt in a message. */
#define GLPCORE_QUOTE_SIZE 112

/* Writes `text` escaped between double quotes, shortened with "..." when it does not fit, and
 * returns `out`, so that it can stand in a printf argument list. */
const char *glpcore_quote(glpcore_text text, char out[GLPCORE_QUOTE_SIZE]);

/* 1 when the bytes are well-formed UTF-8 (no surrogates, no overlong forms) without a NUL. */
int glpcore_is_utf8(const char *data, size_t size);

/* Exactly equal to the C string, by length and bytes. */
int glpcore_text_is(glpcore_text text, const char *expected);
int glpcore_text_equal(glpcore_text a, glpcore_text b);
int glpcore_text_has_prefix(glpcore_text text, const char *prefix);

#define GLPCORE_NUMBER_SIZE 40

/* The shortest decimal that reads back as the same number (as a float32 when it is one). */
const char *glpcore_number(double value, char out[GLPCORE_NUMBER_SIZE]);
/* With a fixed count of decimals. */
const char *glpcore_fixed(double value, int decimals, char out[GLPCORE_NUMBER_SIZE]);

/* Canonical unsigned decimal: ASCII digits, no sign, no leading zero, at most `max`; 1 if it is. */
int glpcore_parse_u32(const char *data, size_t size, uint32_t max, uint32_t *value);

/* A plain ASCII decimal number, optionally signed and with an exponent, correctly rounded to
 * float64; 0 when malformed or longer than 128 bytes. Beyond the range it yields +-Inf. */
int glpcore_parse_double(const char *data, size_t size, double *value);

/* Tested on the bits, and NaN made of them, which holds under -ffast-math too. By pointer, because
 * clang then takes any number that is passed by value as finite. */
int glpcore_finite_f64(const double *value);
double glpcore_nan(void);

/* A bounded text that counts what it would need, like snprintf. */
typedef struct glpcore_sink {
    char *text;
    size_t size;
    size_t needed;
} glpcore_sink;

void glpcore_sink_bytes(glpcore_sink *sink, const char *data, size_t size);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void glpcore_sink_printf(glpcore_sink *sink, const char *format, ...);
void glpcore_sink_escaped(glpcore_sink *sink, const char *data, size_t size);
/* Terminates the text and returns what the whole would need, without the terminator. */
size_t glpcore_sink_end(glpcore_sink *sink);

#endif
