#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- UTF-8 ---- */

/* Decodes one code point; returns its length in bytes, or 0 when malformed. */
static size_t decode(const unsigned char *p, size_t size, uint32_t *point) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length, i;
    if (p[0] < 0x80) {
        *point = p[0];
        return 1;
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        length = 2;
        *point = p[0] & 0x1fu;
    } else if ((p[0] & 0xf0) == 0xe0) {
        length = 3;
        *point = p[0] & 0x0fu;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        length = 4;
        *point = p[0] & 0x07u;
    } else {
        return 0;
    }
    if (length > size) return 0;
    for (i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        *point = (*point << 6) | (p[i] & 0x3fu);
    }
    if (*point < least[length] || *point > 0x10ffff) return 0;
    if (*point >= 0xd800 && *point <= 0xdfff) return 0;
    return length;
}

int glpcore_is_utf8(const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    while (size > 0) {
        uint32_t point;
        size_t length = decode(p, size, &point);
        if (length == 0 || point == 0) return 0;
        p += length;
        size -= length;
    }
    return 1;
}

/* Characters that move the cursor, reorder text or cannot be seen. */
static int is_unprintable(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c <= 0x9f)     /* C0, DEL, C1                        */
           || c == 0xad || c == 0x61c || c == 0x180e /* soft hyphen, Arabic letter mark    */
           || (c >= 0x200b && c <= 0x200f)           /* zero width, directional marks      */
           || (c >= 0x2028 && c <= 0x202e)           /* separators, embeddings, overrides  */
           || (c >= 0x2060 && c <= 0x206f)           /* invisible operators, isolates      */
           || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb)
           || (c >= 0xe0000 && c <= 0xe0fff);        /* tags, variation selectors          */
}

/* ---- Sink ---- */

void glpcore_sink_bytes(glpcore_sink *sink, const char *data, size_t size) {
    if (sink->needed < sink->size) {
        size_t room = sink->size - sink->needed;
        memcpy(sink->text + sink->needed, data, size < room ? size : room);
    }
    sink->needed += size;
}

void glpcore_sink_printf(glpcore_sink *sink, const char *format, ...) {
    char line[512]; /* only for text of our own making, which is short */
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    glpcore_sink_bytes(sink, line,
                       (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

void glpcore_sink_escaped(glpcore_sink *sink, const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    while (size > 0) {
        uint32_t point;
        size_t length = decode(p, size, &point);
        if (length == 0) {
            glpcore_sink_printf(sink, "\\x%02x", p[0]);
            length = 1;
        } else if (point == '\\') {
            glpcore_sink_bytes(sink, "\\\\", 2);
        } else if (point == '\n') {
            glpcore_sink_bytes(sink, "\\n", 2);
        } else if (point == '\t') {
            glpcore_sink_bytes(sink, "\\t", 2);
        } else if (point == '\r') {
            glpcore_sink_bytes(sink, "\\r", 2);
        } else if (is_unprintable(point)) {
            if (point < 0x80) {
                glpcore_sink_printf(sink, "\\x%02x", (unsigned)point);
            } else {
                glpcore_sink_printf(sink, "\\u{%x}", (unsigned)point);
            }
        } else {
            glpcore_sink_bytes(sink, (const char *)p, length);
        }
        p += length;
        size -= length;
    }
}

size_t glpcore_sink_end(glpcore_sink *sink) {
    if (sink->size > 0) {
        size_t end = sink->needed < sink->size ? sink->needed : sink->size - 1;
        if (end < sink->needed) {
            /* Cut before a character, not inside it. */
            while (end > 0 && ((unsigned char)sink->text[end] & 0xc0) == 0x80) end--;
        }
        sink->text[end] = '\0';
    }
    return sink->needed;
}

size_t glpcore_escape(const char *data, size_t data_size, char *text, size_t size) {
    glpcore_sink sink = {NULL, 0, 0};
    if (text != NULL) {
        sink.text = text;
        sink.size = size;
    }
    if (data != NULL) glpcore_sink_escaped(&sink, data, data_size);
    return glpcore_sink_end(&sink);
}

const char *glpcore_quote(glpcore_text text, char out[GLPCORE_QUOTE_SIZE]) {
    glpcore_sink sink = {NULL, 0, 0};
    const size_t room = GLPCORE_QUOTE_SIZE - sizeof "\"...\"";
    size_t size = text.size;
    sink.text = out + 1;
    sink.size = room;
    out[0] = '"';
    /* One byte escapes to at most four (\xHH), three to eight (\u{200e}): what cannot fit even
     * unescaped need not be looked at, which keeps a quote of a huge value cheap. */
    if (size > room) size = room;
    if (text.data != NULL) glpcore_sink_escaped(&sink, text.data, size);
    if (glpcore_sink_end(&sink) < room && size == text.size) {
        strcpy(out + 1 + strlen(out + 1), "\"");
    } else {
        strcpy(out + 1 + strlen(out + 1), "...\"");
    }
    return out;
}

/* ---- Comparing ---- */

int glpcore_text_is(glpcore_text text, const char *expected) {
    size_t size = strlen(expected);
    return text.data != NULL && text.size == size && memcmp(text.data, expected, size) == 0;
}

int glpcore_text_equal(glpcore_text a, glpcore_text b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int glpcore_text_has_prefix(glpcore_text text, const char *prefix) {
    size_t size = strlen(prefix);
    return text.size >= size && memcmp(text.data, prefix, size) == 0;
}

/* ---- Numbers out ---- */

/* printf writes the locale's decimal point, which may be several bytes: make it a full stop. */
static void undo_locale(char *text) {
    char *from = text, *to = text;
    while (*from != '\0') {
        if (strchr("+-0123456789eE", *from) != NULL || (*from >= 'a' && *from <= 'z')) {
            *to++ = *from++;
        } else {
            while (*from != '\0' && strchr("+-0123456789eE", *from) == NULL) from++;
            *to++ = '.';
        }
    }
    *to = '\0';
}

int glpcore_finite_f64(const double *value) {
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    return (bits & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

static double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double glpcore_nan(void) { return from_bits(0x7ff8000000000000u); }

static double infinity(void) { return from_bits(0x7ff0000000000000u); }

static const char *nonfinite_name(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits & 0x000fffffffffffffu) return "nan";
    return bits >> 63 ? "-inf" : "inf";
}

const char *glpcore_number(double value, char out[GLPCORE_NUMBER_SIZE]) {
    int digits, is_single;
    if (!glpcore_finite_f64(&value)) return strcpy(out, nonfinite_name(value));
    is_single = fabs(value) <= 3.4028234663852886e38 && (double)(float)value == value;
    for (digits = 1; digits <= 17; digits++) {
        double back;
        snprintf(out, GLPCORE_NUMBER_SIZE, "%.*g", digits, value);
        undo_locale(out);
        if (!glpcore_parse_double(out, strlen(out), &back)) continue;
        if (back == value || (is_single && (float)back == (float)value)) break;
    }
    /* 100 took one digit and reads 1e+02: a round number of ordinary size is written out. */
    if (strchr(out, 'e') != NULL && fabs(value) >= 1.0 && fabs(value) < 1e15) {
        snprintf(out, GLPCORE_NUMBER_SIZE, "%.0f", value);
        undo_locale(out);
    }
    return out;
}

const char *glpcore_fixed(double value, int decimals, char out[GLPCORE_NUMBER_SIZE]) {
    if (!glpcore_finite_f64(&value)) return strcpy(out, nonfinite_name(value));
    if (fabs(value) >= 1e15) {
        snprintf(out, GLPCORE_NUMBER_SIZE, "%.*e", decimals, value);
    } else {
        snprintf(out, GLPCORE_NUMBER_SIZE, "%.*f", decimals, value);
    }
    undo_locale(out);
    return out;
}

/* ---- Numbers in ---- */

int glpcore_parse_u32(const char *data, size_t size, uint32_t max, uint32_t *value) {
    uint64_t total = 0;
    size_t i;
    if (size == 0 || size > 10 || (size > 1 && data[0] == '0')) return 0;
    for (i = 0; i < size; i++) {
        if (data[i] < '0' || data[i] > '9') return 0;
        total = total * 10 + (uint64_t)(data[i] - '0');
    }
    if (total > max) return 0;
    *value = (uint32_t)total;
    return 1;
}

/* A natural number in base 2^32, least significant first. 128 digits and a decimal exponent clamped
 * to +-450 need 128*3.33 + 450*3.33 < 1930 bits; division shifts by at most 1200 more. */
#define BIG_WORDS 112

typedef struct big {
    uint32_t word[BIG_WORDS];
    int n;
} big;

static void big_multiply_add(big *a, uint32_t factor, uint32_t addend) {
    uint64_t carry = addend;
    int i;
    for (i = 0; i < a->n; i++) {
        carry += (uint64_t)a->word[i] * factor;
        a->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0) a->word[a->n++] = (uint32_t)carry;
}

static void big_shift_left(big *a, int bits) {
    int words = bits / 32, rest = bits % 32, i;
    if (a->n == 0) return;
    if (rest != 0) big_multiply_add(a, (uint32_t)1 << rest, 0);
    for (i = a->n - 1; i >= 0; i--) a->word[i + words] = a->word[i];
    for (i = 0; i < words; i++) a->word[i] = 0;
    a->n += words;
}

static int big_bits(const big *a) {
    int bits = 32 * (a->n - 1);
    uint32_t top = a->word[a->n - 1];
    while (top != 0) {
        bits++;
        top >>= 1;
    }
    return bits;
}

static int big_compare(const big *a, const big *b) {
    int i;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (i = a->n - 1; i >= 0; i--) {
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    }
    return 0;
}

static void big_subtract(big *a, const big *b) {
    int64_t borrow = 0;
    int i;
    for (i = 0; i < a->n; i++) {
        int64_t d = (int64_t)a->word[i] - (i < b->n ? (int64_t)b->word[i] : 0) + borrow;
        a->word[i] = (uint32_t)d;
        borrow = d < 0 ? -1 : 0;
    }
    while (a->n > 0 && a->word[a->n - 1] == 0) a->n--;
}

/* numerator / denominator, both non-zero, rounded to nearest even. One quotient bit at a time:
 * some 60 steps, and numbers in metadata are few. */
static double big_divide(big *numerator, big *denominator) {
    int exponent = big_bits(numerator) - big_bits(denominator), precision = 53, i;
    uint64_t quotient = 0;
    if (exponent > 0) big_shift_left(denominator, exponent);
    if (exponent < 0) big_shift_left(numerator, -exponent);
    if (big_compare(numerator, denominator) < 0) {
        big_shift_left(numerator, 1);
        exponent--;
    }
    /* Now 1 <= numerator/denominator < 2, and the value is that times 2^exponent. */
    if (exponent > 1023) return infinity();
    if (exponent < -1022) precision = 53 - (-1022 - exponent); /* subnormal: fewer bits */
    if (precision < 0) return 0.0;
    for (i = 0; i < precision; i++) {
        quotient <<= 1;
        if (big_compare(numerator, denominator) >= 0) {
            quotient |= 1;
            big_subtract(numerator, denominator);
        }
        big_shift_left(numerator, 1);
    }
    /* numerator/denominator is now the rest, in units of the bit after the last. */
    i = numerator->n == 0 ? -1 : big_compare(numerator, denominator);
    if (i > 0 || (i == 0 && (quotient & 1))) quotient++;
    return ldexp((double)quotient, exponent - precision + 1);
}

int glpcore_parse_double(const char *data, size_t size, double *value) {
    big numerator, denominator;
    long exponent = 0, written = 0;
    int negative = 0, digits = 0, seen_point = 0, i;
    size_t at = 0;
    numerator.n = 0;
    if (size == 0 || size > 128) return 0;
    if (data[at] == '+' || data[at] == '-') negative = data[at++] == '-';
    for (; at < size; at++) {
        if (data[at] == '.' && !seen_point) {
            seen_point = 1;
        } else if (data[at] >= '0' && data[at] <= '9') {
            big_multiply_add(&numerator, 10, (uint32_t)(data[at] - '0'));
            digits++;
            if (seen_point) exponent--;
        } else {
            break;
        }
    }
    if (digits == 0) return 0;
    if (at < size) {
        int sign = 1, exponent_digits = 0;
        if (data[at] != 'e' && data[at] != 'E') return 0;
        at++;
        if (at < size && (data[at] == '+' || data[at] == '-')) sign = data[at++] == '-' ? -1 : 1;
        for (; at < size && data[at] >= '0' && data[at] <= '9'; at++) {
            if (written < 100000) written = written * 10 + (data[at] - '0');
            exponent_digits++;
        }
        if (exponent_digits == 0 || at != size) return 0;
        exponent += sign * written;
    }
    if (numerator.n == 0) {
        *value = negative ? -0.0 : 0.0;
        return 1;
    }
    /* With at most 128 digits, beyond these exponents the result is known. */
    if (exponent > 450) {
        *value = negative ? -infinity() : infinity();
        return 1;
    }
    if (exponent < -450) {
        *value = negative ? -0.0 : 0.0;
        return 1;
    }
    denominator.n = 1;
    denominator.word[0] = 1;
    for (i = 0; i < exponent; i++) big_multiply_add(&numerator, 10, 0);
    for (i = 0; i > exponent; i--) big_multiply_add(&denominator, 10, 0);
    *value = big_divide(&numerator, &denominator);
    if (negative) *value = -*value;
    return 1;
}
