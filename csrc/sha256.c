#include "sha256.h"

#include <string.h>

#include "cpu.h"

static const uint32_t SHA_K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t sha_load(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void sha_store(unsigned char *bytes, uint32_t word) {
    bytes[0] = (unsigned char)(word >> 24);
    bytes[1] = (unsigned char)(word >> 16);
    bytes[2] = (unsigned char)(word >> 8);
    bytes[3] = (unsigned char)word;
}

static uint32_t sha_rotate(uint32_t word, int by) {
    return word >> by | word << (32 - by);
}

/* One round; the caller renames the registers, so that nothing is moved between them. */
#define SHA_ROUND(a, b, c, d, e, f, g, h, k, w)                                                    \
    do {                                                                                           \
        uint32_t t = (h) + (sha_rotate(e, 6) ^ sha_rotate(e, 11) ^ sha_rotate(e, 25)) +            \
                     ((g) ^ ((e) & ((f) ^ (g)))) + (k) + (w);                                      \
        (d) += t;                                                                                  \
        (h) = t + (sha_rotate(a, 2) ^ sha_rotate(a, 13) ^ sha_rotate(a, 22)) +                     \
              (((a) & (b)) | ((c) & ((a) | (b))));                                                 \
    } while (0)

#define SHA_EIGHT_ROUNDS(k, w)                                                                     \
    do {                                                                                           \
        SHA_ROUND(a, b, c, d, e, f, g, h, (k)[0], (w)[0]);                                         \
        SHA_ROUND(h, a, b, c, d, e, f, g, (k)[1], (w)[1]);                                         \
        SHA_ROUND(g, h, a, b, c, d, e, f, (k)[2], (w)[2]);                                         \
        SHA_ROUND(f, g, h, a, b, c, d, e, (k)[3], (w)[3]);                                         \
        SHA_ROUND(e, f, g, h, a, b, c, d, (k)[4], (w)[4]);                                         \
        SHA_ROUND(d, e, f, g, h, a, b, c, (k)[5], (w)[5]);                                         \
        SHA_ROUND(c, d, e, f, g, h, a, b, (k)[6], (w)[6]);                                         \
        SHA_ROUND(b, c, d, e, f, g, h, a, (k)[7], (w)[7]);                                         \
    } while (0)

static void sha_compress_portable(uint32_t state[8], const unsigned char *data, size_t n_blocks) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    for (; n_blocks > 0; n_blocks--, data += 64) {
        uint32_t w[16];
        int i, round;

        for (i = 0; i < 16; i++) {
            w[i] = sha_load(data + 4 * i);
        }
        SHA_EIGHT_ROUNDS(SHA_K, w);
        SHA_EIGHT_ROUNDS(SHA_K + 8, w + 8);
        for (round = 16; round < 64; round += 16) {
            for (i = 0; i < 16; i++) {
                uint32_t early = w[(i + 1) & 15], late = w[(i + 14) & 15];
                w[i] += (sha_rotate(early, 7) ^ sha_rotate(early, 18) ^ early >> 3) +
                        w[(i + 9) & 15] +
                        (sha_rotate(late, 17) ^ sha_rotate(late, 19) ^ late >> 10);
            }
            SHA_EIGHT_ROUNDS(SHA_K + round, w);
            SHA_EIGHT_ROUNDS(SHA_K + round + 8, w + 8);
        }
        a = state[0] += a;
        b = state[1] += b;
        c = state[2] += c;
        d = state[3] += d;
        e = state[4] += e;
        f = state[5] += f;
        g = state[6] += g;
        h = state[7] += h;
    }
}

#ifdef GLPCORE_X86

#include <immintrin.h>

/* The instructions want the state as (A,B,E,F) and (C,D,G,H), high word first, and do two rounds
 * each; w0..w3 hold the sixteen live words of the message schedule. */
#define SHA_ROUNDS(w, k)                                                                           \
    do {                                                                                           \
        __m128i sum = _mm_add_epi32((w), _mm_loadu_si128((const __m128i *)(const void *)(k)));     \
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);                                             \
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));                    \
    } while (0)

/* Replaces w0 by the four words that follow w3. */
#define SHA_SCHEDULE(w0, w1, w2, w3)                                                               \
    ((w0) = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32((w0), (w1)),                   \
                                               _mm_alignr_epi8((w3), (w2), 4)),                    \
                                 (w3)))

GLPCORE_TARGET("sha,sse4.1,ssse3")
static void sha_compress_ni(uint32_t state[8], const unsigned char *data, size_t n_blocks) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i *in = (const __m128i *)(const void *)data;
    __m128i *out = (__m128i *)(void *)state;
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(out), 0xb1);
    __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(out + 1), 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, badc, 0xf0);

    for (; n_blocks > 0; n_blocks--, in += 4) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w0 = _mm_shuffle_epi8(_mm_loadu_si128(in), big_endian);
        __m128i w1 = _mm_shuffle_epi8(_mm_loadu_si128(in + 1), big_endian);
        __m128i w2 = _mm_shuffle_epi8(_mm_loadu_si128(in + 2), big_endian);
        __m128i w3 = _mm_shuffle_epi8(_mm_loadu_si128(in + 3), big_endian);
        int round;

        SHA_ROUNDS(w0, SHA_K);
        SHA_ROUNDS(w1, SHA_K + 4);
        SHA_ROUNDS(w2, SHA_K + 8);
        SHA_ROUNDS(w3, SHA_K + 12);
        for (round = 16; round < 64; round += 16) {
            SHA_SCHEDULE(w0, w1, w2, w3);
            SHA_ROUNDS(w0, SHA_K + round);
            SHA_SCHEDULE(w1, w2, w3, w0);
            SHA_ROUNDS(w1, SHA_K + round + 4);
            SHA_SCHEDULE(w2, w3, w0, w1);
            SHA_ROUNDS(w2, SHA_K + round + 8);
            SHA_SCHEDULE(w3, w0, w1, w2);
            SHA_ROUNDS(w3, SHA_K + round + 12);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    {
        __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
        _mm_storeu_si128(out, _mm_blend_epi16(feba, dchg, 0xf0));
        _mm_storeu_si128(out + 1, _mm_alignr_epi8(dchg, feba, 8));
    }
}

#endif

void glpcore_sha256_init_on(glpcore_sha256 *hash, uint32_t cpu) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(hash->state, initial, sizeof initial);
    hash->size = 0;
    hash->compress = sha_compress_portable;
#ifdef GLPCORE_X86
    if (cpu & GLPCORE_CPU_SHA) {
        hash->compress = sha_compress_ni;
    }
#else
    (void)cpu;
#endif
}

void glpcore_sha256_init(glpcore_sha256 *hash) {
    glpcore_sha256_init_on(hash, glpcore_cpu());
}

void glpcore_sha256_update(glpcore_sha256 *hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    size_t held = (size_t)(hash->size & 63);

    if (size == 0) {
        return;
    }
    hash->size += size;
    if (held > 0) {
        size_t room = 64 - held, take = size < room ? size : room;
        memcpy(hash->block + held, bytes, take);
        if (take < room) {
            return;
        }
        hash->compress(hash->state, hash->block, 1);
        bytes += take;
        size -= take;
    }
    if (size >= 64) {
        hash->compress(hash->state, bytes, size / 64);
        bytes += size - size % 64;
        size %= 64;
    }
    if (size > 0) {
        memcpy(hash->block, bytes, size);
    }
}

void glpcore_sha256_final(glpcore_sha256 *hash, unsigned char digest[32]) {
    size_t held = (size_t)(hash->size & 63);
    uint64_t bits = hash->size << 3;
    int i;

    hash->block[held++] = 0x80;
    if (held > 56) {
        memset(hash->block + held, 0, 64 - held);
        hash->compress(hash->state, hash->block, 1);
        held = 0;
    }
    memset(hash->block + held, 0, 56 - held);
    sha_store(hash->block + 56, (uint32_t)(bits >> 32));
    sha_store(hash->block + 60, (uint32_t)bits);
    hash->compress(hash->state, hash->block, 1);
    for (i = 0; i < 8; i++) {
        sha_store(digest + 4 * i, hash->state[i]);
    }
}
