/* The pool: every task once, whoever runs it, and callers one at a time. Meant for ThreadSanitizer
 * too. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "glpcore.h"

static long passed, failed;

static void check(int ok, const char *what, size_t n) {
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("FAIL %s, %lu\n", what, (unsigned long)n);
    }
}

typedef struct work {
    int *runs;
    int sum;
} work;

static void count(void *context, size_t index) {
    work *w = context;
    w->runs[index]++; /* each index belongs to one task, so this is no race */
}

static void test_tasks(void) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 1000};
    size_t threads, s, i, round;

    for (threads = 1; threads <= 9; threads++) {
        glpcore_pool *pool = NULL;
        const glpcore_executor *executor;
        check(glpcore_pool_create(threads, &pool) == GLPCORE_OK && pool != NULL, "create", threads);
        executor = glpcore_pool_executor(pool);
        check(executor->n_threads == threads, "n_threads", threads);
        check(executor->struct_size == sizeof *executor, "struct_size", threads);
        for (s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (round = 0; round < 20; round++) {
                work w = {calloc(sizes[s] + 1, sizeof(int)), 0};
                executor->run(executor->self, count, &w, sizes[s]);
                for (i = 0; i < sizes[s]; i++) w.sum += w.runs[i] == 1;
                check((size_t)w.sum == sizes[s], "tasks that ran once", sizes[s]);
                free(w.runs);
            }
        }
        glpcore_pool_free(pool);
    }
}

enum { CALLERS = 4, CALLS = 200, ROWS = 512, N_EMBD = 512 };

typedef struct caller {
    const glpcore_executor *executor;
    const float *v;
    const float *expected;
    int wrong;
} caller;

static void fill(float *x, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) x[i] = (float)((i * 2654435761u) % 1000) / 500.0f - 1.0f;
}

static void *call(void *argument) {
    caller *c = argument;
    float *x = malloc(sizeof(float) * ROWS * N_EMBD);
    int i;
    for (i = 0; i < CALLS / 10; i++) {
        fill(x, ROWS * N_EMBD);
        glpcore_project_rows(x, GLPCORE_F32, ROWS, N_EMBD, N_EMBD, c->v, 1.0, c->executor);
        c->wrong += memcmp(x, c->expected, sizeof(float) * ROWS * N_EMBD) != 0;
    }
    free(x);
    return NULL;
}

static void test_callers(void) {
    float *expected = malloc(sizeof(float) * ROWS * N_EMBD), v[N_EMBD];
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    glpcore_pool *pool = NULL;
    int i;

    for (i = 0; i < N_EMBD; i++) v[i] = i % 3 == 0 ? 0.0765f : -0.01f;
    fill(expected, ROWS * N_EMBD);
    glpcore_project_rows(expected, GLPCORE_F32, ROWS, N_EMBD, N_EMBD, v, 1.0, NULL);
    glpcore_pool_create(3, &pool);
    for (i = 0; i < CALLERS; i++) {
        caller c = {glpcore_pool_executor(pool), v, expected, 0};
        callers[i] = c;
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    for (i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        check(callers[i].wrong == 0, "calls with other bits than alone", (size_t)callers[i].wrong);
    }
    glpcore_pool_free(pool);
    free(expected);
}

/* Jobs that find the workers looking, and jobs that find them asleep, in turn: what a task wrote is
 * there when run returns. */
static void test_rhythm(void) {
    glpcore_pool *pool = NULL;
    const glpcore_executor *executor;
    int round, i;

    glpcore_pool_create(4, &pool);
    executor = glpcore_pool_executor(pool);
    for (round = 0; round < 3000; round++) {
        size_t n = (size_t)(round % 5);
        work w = {calloc(n + 1, sizeof(int)), 0};

        if (round % 50 == 0) {
            struct timespec nap = {0, 2000000};
            nanosleep(&nap, NULL);
        }
        executor->run(executor->self, count, &w, n);
        for (i = 0; i < (int)n; i++) w.sum += w.runs[i];
        check((size_t)w.sum == n, "tasks of a short job", (size_t)round);
        free(w.runs);
    }
    glpcore_pool_free(pool);
}

/* A task that calls its own pool finds it busy, and runs what it asked for itself. */
typedef struct nest {
    const glpcore_executor *executor;
    int runs[2][3];
} nest;

static void nested(void *context, size_t index) {
    nest *n = context;
    work w = {n->runs[index], 0};

    n->executor->run(n->executor->self, count, &w, 3);
}

static void test_busy(void) {
    glpcore_pool *pool = NULL;
    nest n = {NULL, {{0}}};
    size_t i;

    glpcore_pool_create(2, &pool);
    n.executor = glpcore_pool_executor(pool);
    n.executor->run(n.executor->self, nested, &n, 2);
    for (i = 0; i < 6; i++) check(n.runs[i / 3][i % 3] == 1, "tasks of a task", i);
    glpcore_pool_free(pool);
}

static void test_arguments(void) {
    glpcore_pool *pool = (glpcore_pool *)&passed;
    check(glpcore_pool_create(0, &pool) == GLPCORE_INVALID && pool == NULL, "no thread", 0);
    check(glpcore_pool_create(1025, &pool) == GLPCORE_INVALID && pool == NULL, "too many", 1025);
    check(glpcore_pool_create((size_t)-1, &pool) == GLPCORE_INVALID, "far too many", 0);
    check(glpcore_pool_create(2, NULL) == GLPCORE_INVALID, "no place", 0);
    check(glpcore_pool_executor(NULL) == NULL, "no pool", 0);
    glpcore_pool_free(NULL);
}

int main(void) {
    test_arguments();
    test_tasks();
    test_callers();
    test_rhythm();
    test_busy();
    printf("test_pool: %ld passed, %ld failed\n", passed, failed);
    return failed != 0;
}
