/* Structs that cross the ABI carry their size, so that old callers and new libraries can meet. */
#ifndef GLPCORE_ABI_H
#define GLPCORE_ABI_H

#include <stddef.h>
#include <string.h>

/* Copies a caller's options into `local`, zeroed first; NULL options stay zero but for their size.
 * 0 when the caller did not set struct_size, or set a field that this library does not know. */
static inline int glpcore_struct_in(void *local, size_t local_size, const void *caller) {
    size_t size, i;
    memset(local, 0, local_size);
    if (caller != NULL) {
        memcpy(&size, caller, sizeof size);
        if (size < sizeof size || size > 4096) return 0;
        for (i = local_size; i < size; i++) {
            if (((const unsigned char *)caller)[i] != 0) return 0;
        }
        memcpy(local, caller, size < local_size ? size : local_size);
    }
    memcpy(local, &local_size, sizeof local_size);
    return 1;
}

/* Fills as much of the caller's struct as it has room for. 0 when struct_size was not set. */
static inline int glpcore_struct_out(void *caller, const void *local, size_t local_size) {
    size_t size;
    if (caller == NULL) return 0;
    memcpy(&size, caller, sizeof size);
    if (size < sizeof size || size > 4096) return 0;
    if (size < local_size) local_size = size;
    memcpy((char *)caller + sizeof size, (const char *)local + sizeof size,
           local_size - sizeof size);
    return 1;
}

#endif
