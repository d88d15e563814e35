/* SHA-256 of a stream of bytes (FIPS 180-4). */
#ifndef GLPCORE_SHA256_H
#define GLPCORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct glpcore_sha256 {
    uint32_t state[8];
    uint64_t size;           /* bytes taken in so far */
    unsigned char block[64]; /* the first size % 64 bytes wait for a full block */
    void (*compress)(uint32_t state[8], const unsigned char *data, size_t n_blocks);
} glpcore_sha256;

void glpcore_sha256_init(glpcore_sha256 *hash);
/* The same, using at most the instructions of `cpu` (a subset of glpcore_cpu()). */
void glpcore_sha256_init_on(glpcore_sha256 *hash, uint32_t cpu);

/* data may be NULL when size is 0. */
void glpcore_sha256_update(glpcore_sha256 *hash, const void *data, size_t size);

/* Writes the digest; the state is spent and must be initialised before another use. */
void glpcore_sha256_final(glpcore_sha256 *hash, unsigned char digest[32]);

#endif /* GLPCORE_SHA256_H */
