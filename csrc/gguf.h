/* The container: a bounded reader of GGUF v3 over bytes in memory. Knows nothing of steering.
 *
 * Nothing is copied: keys, values and names point into the bytes, which must outlive the struct.
 * Memory is in proportion to the number of entries, which is checked against the size first. */
#ifndef GLPCORE_GGUF_H
#define GLPCORE_GGUF_H

#include "report.h"

/* Value types of metadata, numbered as in the file. */
enum {
    GLPCORE_GGUF_UINT8 = 0,
    GLPCORE_GGUF_INT8,
    GLPCORE_GGUF_UINT16,
    GLPCORE_GGUF_INT16,
    GLPCORE_GGUF_UINT32,
    GLPCORE_GGUF_INT32,
    GLPCORE_GGUF_FLOAT32,
    GLPCORE_GGUF_BOOL,
    GLPCORE_GGUF_STRING,
    GLPCORE_GGUF_ARRAY,
    GLPCORE_GGUF_UINT64,
    GLPCORE_GGUF_INT64,
    GLPCORE_GGUF_FLOAT64
};

#define GLPCORE_GGML_F32 0u

typedef struct glpcore_gguf_kv {
    glpcore_text key;
    const unsigned char *value; /* encoded, after its type */
    size_t value_size;
    uint32_t type;
} glpcore_gguf_kv;

typedef struct glpcore_gguf_tensor {
    glpcore_text name;
    uint64_t dims[4];
    uint64_t offset;  /* of the data in the file */
    uint64_t n_bytes; /* 0 when the type's size is not known (sized == 0) */
    uint32_t type;
    uint16_t n_dims;
    uint16_t sized;
} glpcore_gguf_tensor;

typedef struct glpcore_gguf {
    const unsigned char *data;
    size_t size;
    glpcore_gguf_kv *kvs;
    size_t n_kvs;
    glpcore_gguf_tensor *tensors;
    size_t n_tensors;
    uint64_t data_start;
} glpcore_gguf;

/* 1 when the bytes begin with the magic, whatever follows. */
int glpcore_gguf_sniff(const unsigned char *data, size_t size);

/* Reads the header. On failure *gguf is empty and the report holds one error; on success it may
 * hold warnings (`padding`, `trailing`). */
glpcore_status glpcore_gguf_read(const unsigned char *data, size_t size, glpcore_gguf *gguf,
                                 glpcore_report *report);
void glpcore_gguf_free(glpcore_gguf *gguf);

/* Elements in a block and bytes of a block of a ggml type; 0 when the type is not known. */
int glpcore_ggml_block(uint32_t type, uint32_t *elements, uint32_t *bytes);

/* Little-endian numbers at any alignment. */
uint32_t glpcore_load_u32(const unsigned char *p);
uint64_t glpcore_load_u64(const unsigned char *p);

#endif
