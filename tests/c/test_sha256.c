/* SHA-256 against digests of Python's hashlib, on every path of this processor. Byte i of a message
 * is (7 i + 3) mod 256. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "sha256.h"

static long passed, failed;

static void check(int ok, const char *what, size_t n) {
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("FAIL %s, %lu bytes\n", what, (unsigned long)n);
    }
}

static void hex_of(const unsigned char digest[32], char hex[65]) {
    int i;
    for (i = 0; i < 32; i++) sprintf(hex + 2 * i, "%02x", digest[i]);
}

static void digest_of(uint32_t cpu, const unsigned char *data, size_t size, unsigned char out[32]) {
    glpcore_sha256 hash;
    glpcore_sha256_init_on(&hash, cpu);
    glpcore_sha256_update(&hash, data, size);
    glpcore_sha256_final(&hash, out);
}

static const struct {
    size_t size;
    const char *hex;
} known[] = {
    {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {1, "084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a9aadff29c5"},
    {55, "e7313d333c272e639f790978283f9eb392e843d0f29b7016828bb1daa4aac70b"},
    {56, "4324d65f3c103567f5589c710bc08f8523f929a9272e3af36fc968e52abc6c27"},
    {63, "81c80242132f230c3bd41b3e63bbcff16107339549214a99614ff26664625055"},
    {64, "39e3d7b6b5d075d37d053ad89b24b41bef4f3c29760c84447cab3f3be1882241"},
    {65, "aacca6ff74fdbb296d165a45cecfa04e5127bc008770fbbdd48006f2d2fae95e"},
    {119, "9ce7368e4daf32341631b492e80359dc9f594b48453cd0dd5bf0b19279cc177e"},
    {120, "7836b787757e95e58b3ca5aec90b1b004e8deba1e50e9675af9cabf1a13a04b5"},
    {1000, "1e9bc38cbf860b9ec31918b065f9b52476c549a782e0e7990bed8ce3868d2371"},
    {1048577, "75059752ce0b546127d584a3992627babb59950933c6d82d10ad46fec48e7c96"},
};

/* The digest of the digests of all messages of 0 to 300 bytes. */
static const char all_lengths[] =
    "7d917fbd2cf49ddff9ad0a8706bba32d204e92e71d2e369c5a03d6af29278c9f";

static void test_path(uint32_t cpu, const unsigned char *data) {
    glpcore_sha256 hash, outer;
    unsigned char digest[32], whole[32];
    char hex[65];
    size_t i, n, cut;

    for (i = 0; i < sizeof known / sizeof known[0]; i++) {
        digest_of(cpu, data, known[i].size, digest);
        hex_of(digest, hex);
        check(strcmp(hex, known[i].hex) == 0, "a known digest", known[i].size);
    }
    glpcore_sha256_init_on(&outer, cpu);
    for (n = 0; n <= 300; n++) {
        digest_of(cpu, data, n, digest);
        glpcore_sha256_update(&outer, digest, sizeof digest);
    }
    glpcore_sha256_final(&outer, digest);
    hex_of(digest, hex);
    check(strcmp(hex, all_lengths) == 0, "all lengths to 300", 300);

    /* Cut in two at every place, and taken a byte, 63 and 65 bytes at a time. */
    digest_of(cpu, data, 200, whole);
    for (cut = 0; cut <= 200; cut++) {
        glpcore_sha256_init_on(&hash, cpu);
        glpcore_sha256_update(&hash, data, cut);
        glpcore_sha256_update(&hash, NULL, 0);
        glpcore_sha256_update(&hash, data + cut, 200 - cut);
        glpcore_sha256_final(&hash, digest);
        check(memcmp(digest, whole, 32) == 0, "cut in two", cut);
    }
    for (cut = 1; cut <= 65; cut++) {
        glpcore_sha256_init_on(&hash, cpu);
        for (n = 0; n < 200; n += cut) {
            glpcore_sha256_update(&hash, data + n, 200 - n < cut ? 200 - n : cut);
        }
        glpcore_sha256_final(&hash, digest);
        check(memcmp(digest, whole, 32) == 0, "in pieces", cut);
    }
    /* At every alignment, ending with the allocation. */
    for (n = 0; n < 16; n++) {
        unsigned char *copy = malloc(200 + n);
        memcpy(copy + n, data, 200);
        digest_of(cpu, copy + n, 200, digest);
        check(memcmp(digest, whole, 32) == 0, "misaligned", n);
        free(copy);
    }
}

int main(void) {
    const size_t most = 1048577;
    unsigned char *data = malloc(most);
    size_t i;

    for (i = 0; i < most; i++) data[i] = (unsigned char)(7 * i + 3);
    test_path(0, data);
    test_path(glpcore_cpu(), data);
    free(data);
    printf("test_sha256: %ld passed, %ld failed\n", passed, failed);
    return failed != 0;
}
