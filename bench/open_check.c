/* Times open + accept of one file in C. Prints "name microseconds" lines, the least of many runs.
 * Used by bench_open.py; usage: open_check FILE N_RUNS */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "glpcore.h"

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double open_accept(const char *path, int skip_hash) {
    glpcore_file *file;
    glpcore_vector *vector;
    glpcore_target target;
    char message[256];
    double start = now_us();
    memset(&target, 0, sizeof target);
    target.struct_size = sizeof target;
    target.skip_hash = skip_hash;
    if (glpcore_open(path, NULL, &file, NULL, message, sizeof message) != GLPCORE_OK ||
        glpcore_accept(file, &target, &vector, NULL, message, sizeof message) != GLPCORE_OK) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
    start = now_us() - start;
    glpcore_vector_free(vector);
    glpcore_close(file);
    return start;
}

int main(int argc, char **argv) {
    double before_hash = 1e12, with_hash = 1e12;
    int i, runs = argc > 2 ? atoi(argv[2]) : 200;
    if (argc < 2) return 64;
    for (i = 0; i < runs; i++) {
        const double a = open_accept(argv[1], 1), b = open_accept(argv[1], 0);
        if (a < before_hash) before_hash = a;
        if (b < with_hash) with_hash = b;
    }
    printf("c_before_hash %.1f\nc_with_hash %.1f\n", before_hash, with_hash);
    return 0;
}
