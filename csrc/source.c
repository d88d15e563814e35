#if !defined(_WIN32) && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L
#endif

#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define DEFAULT_MAX_BYTES ((uint64_t)1 << 30)

/* The usual reasons in words; strerror would bring the locale and shared state with it. */
static const char *reason(int system_errno) {
    switch (system_errno) {
        case 0: return "";
        case ENOENT: return " (no such file)";
        case EACCES:
        case EPERM: return " (permission denied)";
        case EISDIR: return " (is a directory)";
        case ENOTDIR: return " (a part of the path is not a directory)";
        case ENAMETOOLONG: return " (the name is too long)";
        case EMFILE:
        case ENFILE: return " (too many open files)";
        case ENOMEM: return " (out of memory)";
        case EIO: return " (input/output error)";
        case EINVAL: return ""; /* ours, and the advice says it all */
        default: return " (the system gives another reason: see errno)";
    }
}

static glpcore_status io_failure(glpcore_report *report, int system_errno, const char *advice,
                                 const char *path) {
    char quoted[GLPCORE_QUOTE_SIZE];
    glpcore_text text;
    text.data = path;
    text.size = path == NULL ? 0 : strlen(path);
    glpcore_report_set_errno(report, system_errno);
    glpcore_report_add(report, GLPCORE_SEVERITY_FORMAT, "io", NULL, "%s. Cannot read %s%s.", advice,
                       glpcore_quote(text, quoted), reason(system_errno));
    return GLPCORE_IO;
}

static glpcore_status check_size(uint64_t size, const glpcore_open_options *options,
                                 glpcore_report *report) {
    uint64_t limit = options != NULL && options->max_bytes != 0 ? options->max_bytes
                                                                : DEFAULT_MAX_BYTES;
    if (size > limit || size > SIZE_MAX) {
        glpcore_report_add(report, GLPCORE_SEVERITY_FORMAT, "too-big", NULL,
                           "Pass a steering vector, or raise the limit (max_bytes). The file has "
                           "%llu bytes and the limit is %llu: did you pass the model?",
                           (unsigned long long)size, (unsigned long long)limit);
        return GLPCORE_FORMAT;
    }
    return GLPCORE_OK;
}

glpcore_status glpcore_source_memory(const void *data, size_t size,
                                     const glpcore_open_options *options, glpcore_source *source,
                                     glpcore_report *report) {
    glpcore_status status;
    memset(source, 0, sizeof *source);
    if (size == 0) {
        return io_failure(report, 0, "Pass a file that is not empty", "memory");
    }
    status = check_size(size, options, report);
    if (status != GLPCORE_OK) return status;
    source->size = size;
    source->data = (const unsigned char *)data;
    source->kind = GLPCORE_SOURCE_BORROWED;
    /* Directions are handed out as float pointers, so the bytes must be aligned as floats. */
    if ((options != NULL && options->copy) || (uintptr_t)data % 4 != 0) {
        unsigned char *copy = (unsigned char *)malloc(size);
        if (copy == NULL) {
            memset(source, 0, sizeof *source);
            return GLPCORE_NOMEM;
        }
        memcpy(copy, data, size);
        source->data = copy;
        source->kind = GLPCORE_SOURCE_OWNED;
    }
    return GLPCORE_OK;
}

#ifdef _WIN32

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static int windows_errno(DWORD error) {
    switch (error) {
        case ERROR_FILE_NOT_FOUND:
        case ERROR_PATH_NOT_FOUND: return ENOENT;
        case ERROR_ACCESS_DENIED:
        case ERROR_SHARING_VIOLATION: return EACCES;
        case ERROR_NOT_ENOUGH_MEMORY: return ENOMEM;
        default: return EIO;
    }
}

static glpcore_status read_all(HANDLE file, const char *path, glpcore_source *source,
                               glpcore_report *report) {
    unsigned char *data = (unsigned char *)malloc(source->size);
    size_t done = 0;
    if (data == NULL) return GLPCORE_NOMEM;
    while (done < source->size) {
        DWORD got = 0;
        DWORD want = source->size - done > 1u << 30 ? 1u << 30 : (DWORD)(source->size - done);
        if (!ReadFile(file, data + done, want, &got, NULL) || got == 0) {
            free(data);
            return io_failure(report, EIO, "Try again when nothing writes to the file", path);
        }
        done += got;
    }
    source->data = data;
    source->kind = GLPCORE_SOURCE_OWNED;
    return GLPCORE_OK;
}

static glpcore_status map_all(HANDLE file, const char *path, glpcore_source *source,
                              glpcore_report *report) {
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    const void *data = NULL;
    if (mapping != NULL) {
        data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
        CloseHandle(mapping);
    }
    if (data == NULL) {
        return io_failure(report, windows_errno(GetLastError()),
                          "Read the file instead of mapping it", path);
    }
    source->data = (const unsigned char *)data;
    source->kind = GLPCORE_SOURCE_MAPPED;
    return GLPCORE_OK;
}

glpcore_status glpcore_source_open(const char *path, const glpcore_open_options *options,
                                   glpcore_source *source, glpcore_report *report) {
    glpcore_status status;
    LARGE_INTEGER size;
    HANDLE file;
    wchar_t *wide;
    int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    memset(source, 0, sizeof *source);
    if (length <= 0) return io_failure(report, EINVAL, "Pass the path in UTF-8", path);
    wide = (wchar_t *)malloc((size_t)length * sizeof *wide);
    if (wide == NULL) return GLPCORE_NOMEM;
    MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, length);
    file = CreateFileW(wide, GENERIC_READ,
                       FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        DWORD error = GetLastError();
        DWORD attributes = GetFileAttributesW(wide);
        free(wide);
        if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY)) {
            return io_failure(report, EISDIR, "Pass a file, not a directory", path);
        }
        return io_failure(report, windows_errno(error), "Check the path and its permissions", path);
    }
    free(wide);
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &size)) {
        CloseHandle(file);
        return io_failure(report, EINVAL, "Pass a regular file, or its bytes", path);
    }
    if (size.QuadPart == 0) {
        status = io_failure(report, 0, "Pass a file that is not empty", path);
    } else {
        status = check_size((uint64_t)size.QuadPart, options, report);
    }
    if (status == GLPCORE_OK) {
        source->size = (size_t)size.QuadPart;
        status = options != NULL && options->read ? read_all(file, path, source, report)
                                                  : map_all(file, path, source, report);
    }
    if (status != GLPCORE_OK) memset(source, 0, sizeof *source);
    CloseHandle(file);
    return status;
}

static void unmap(glpcore_source *source) { UnmapViewOfFile(source->data); }

#else /* POSIX */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static glpcore_status read_all(int fd, const char *path, glpcore_source *source,
                               glpcore_report *report) {
    unsigned char *data = (unsigned char *)malloc(source->size);
    size_t done = 0;
    if (data == NULL) return GLPCORE_NOMEM;
    while (done < source->size) {
        size_t want = source->size - done;
        ssize_t got = read(fd, data + done, want < (size_t)1 << 30 ? want : (size_t)1 << 30);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            int system_errno = got < 0 ? errno : 0;
            free(data);
            return io_failure(report, system_errno, "Try again when nothing writes to the file",
                              path);
        }
        done += (size_t)got;
    }
    source->data = data;
    source->kind = GLPCORE_SOURCE_OWNED;
    return GLPCORE_OK;
}

static glpcore_status map_all(int fd, const char *path, glpcore_source *source,
                              glpcore_report *report) {
    void *data = mmap(NULL, source->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return io_failure(report, errno, "Read the file instead of mapping it", path);
    }
    source->data = (const unsigned char *)data;
    source->kind = GLPCORE_SOURCE_MAPPED;
    return GLPCORE_OK;
}

/* Anything but a regular file is refused before it is opened: opening a fifo waits for a writer,
 * and opening a device may do something. */
static glpcore_status check_kind(const struct stat *status, const char *path,
                                 glpcore_report *report) {
    if (S_ISDIR(status->st_mode)) {
        return io_failure(report, EISDIR, "Pass a file, not a directory", path);
    }
    if (!S_ISREG(status->st_mode)) {
        return io_failure(report, EINVAL,
                          "Pass a regular file; for a pipe or device, read its bytes first", path);
    }
    if (status->st_size == 0) return io_failure(report, 0, "Pass a file that is not empty", path);
    return GLPCORE_OK;
}

glpcore_status glpcore_source_open(const char *path, const glpcore_open_options *options,
                                   glpcore_source *source, glpcore_report *report) {
    struct stat information;
    glpcore_status status;
    int fd;
    memset(source, 0, sizeof *source);
    if (stat(path, &information) != 0) {
        return io_failure(report, errno, "Check the path and its permissions", path);
    }
    status = check_kind(&information, path, report);
    if (status != GLPCORE_OK) return status;
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return io_failure(report, errno, "Check the path and its permissions", path);
    /* Once more on what was opened, which may have been swapped since. */
    if (fstat(fd, &information) != 0) {
        status = io_failure(report, errno, "Check the path and its permissions", path);
    } else {
        status = check_kind(&information, path, report);
    }
    if (status == GLPCORE_OK) status = check_size((uint64_t)information.st_size, options, report);
    if (status == GLPCORE_OK) {
        source->size = (size_t)information.st_size;
        status = options != NULL && options->read ? read_all(fd, path, source, report)
                                                  : map_all(fd, path, source, report);
    }
    if (status != GLPCORE_OK) memset(source, 0, sizeof *source);
    close(fd);
    return status;
}

static void unmap(glpcore_source *source) {
    munmap((void *)(uintptr_t)source->data, source->size);
}

#endif

void glpcore_source_close(glpcore_source *source) {
    if (source->kind == GLPCORE_SOURCE_OWNED) free((void *)(uintptr_t)source->data);
    if (source->kind == GLPCORE_SOURCE_MAPPED) unmap(source);
    memset(source, 0, sizeof *source);
}
