/* Before any header: a strict C99 compiler hides pthread_sigmask without it. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif

#include "include/glpcore.h"

#include <stdlib.h>

/* ---- The system's threads ------------------------------------------------------------------- */

#if defined(_WIN32)

#include <windows.h>

typedef CRITICAL_SECTION pool_mutex;
typedef CONDITION_VARIABLE pool_condition;
typedef HANDLE pool_thread;

static int pool_mutex_init(pool_mutex *m) {
    InitializeCriticalSection(m);
    return 1;
}

static int pool_condition_init(pool_condition *c) {
    InitializeConditionVariable(c);
    return 1;
}

static void pool_mutex_destroy(pool_mutex *m) { DeleteCriticalSection(m); }
static void pool_condition_destroy(pool_condition *c) { (void)c; }
static void pool_mutex_lock(pool_mutex *m) { EnterCriticalSection(m); }
static void pool_mutex_unlock(pool_mutex *m) { LeaveCriticalSection(m); }
static void pool_condition_wait(pool_condition *c, pool_mutex *m) {
    SleepConditionVariableCS(c, m, INFINITE);
}

static void pool_condition_broadcast(pool_condition *c) { WakeAllConditionVariable(c); }

#define POOL_THREAD_BODY(name, argument) static DWORD WINAPI name(LPVOID argument)
#define POOL_THREAD_END 0

static int pool_thread_start(pool_thread *t, LPTHREAD_START_ROUTINE body, void *argument) {
    *t = CreateThread(NULL, 0, body, argument, 0, NULL);
    return *t != NULL;
}

static void pool_thread_join(pool_thread t) {
    WaitForSingleObject(t, INFINITE);
    CloseHandle(t);
}

#else

#include <pthread.h>
#include <signal.h>

typedef pthread_mutex_t pool_mutex;
typedef pthread_cond_t pool_condition;
typedef pthread_t pool_thread;

static int pool_mutex_init(pool_mutex *m) { return pthread_mutex_init(m, NULL) == 0; }
static int pool_condition_init(pool_condition *c) { return pthread_cond_init(c, NULL) == 0; }
static void pool_mutex_destroy(pool_mutex *m) { pthread_mutex_destroy(m); }
static void pool_condition_destroy(pool_condition *c) { pthread_cond_destroy(c); }
static void pool_mutex_lock(pool_mutex *m) { pthread_mutex_lock(m); }
static void pool_mutex_unlock(pool_mutex *m) { pthread_mutex_unlock(m); }
static void pool_condition_wait(pool_condition *c, pool_mutex *m) { pthread_cond_wait(c, m); }
static void pool_condition_broadcast(pool_condition *c) { pthread_cond_broadcast(c); }

#define POOL_THREAD_BODY(name, argument) static void *name(void *argument)
#define POOL_THREAD_END NULL

/* The host's signals are for the host's threads: a handler that runs on one of ours could find
 * none of the thread-local state that it relies on. */
static int pool_thread_start(pool_thread *t, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(t, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

static void pool_thread_join(pool_thread t) { pthread_join(t, NULL); }

#endif

/* ---- The pool ------------------------------------------------------------------------------- */

/* More is a mistake in the caller's arithmetic rather than a machine. */
#define POOL_MAX_THREADS 1024

struct glpcore_pool {
    glpcore_executor executor;
    pool_mutex callers;  /* held by the one caller whose tasks are run */
    pool_mutex lock;     /* guards everything below */
    pool_condition work; /* a task is waiting, or the end has come */
    pool_condition done; /* no task is running or waiting */
    void (*task)(void *context, size_t index);
    void *context;
    size_t next, n_tasks; /* next to be taken */
    size_t unfinished;
    int ending;
    size_t n_workers;
    pool_thread workers[]; /* n_workers of them */
};

/* Called and left with the lock held. */
static void pool_take_tasks(glpcore_pool *pool) {
    while (pool->next < pool->n_tasks) {
        void (*task)(void *, size_t) = pool->task;
        void *context = pool->context;
        size_t index = pool->next++;

        pool_mutex_unlock(&pool->lock);
        task(context, index);
        pool_mutex_lock(&pool->lock);
        if (--pool->unfinished == 0) {
            pool_condition_broadcast(&pool->done);
        }
    }
}

POOL_THREAD_BODY(pool_work, argument) {
    glpcore_pool *pool = argument;

    pool_mutex_lock(&pool->lock);
    while (!pool->ending) {
        pool_take_tasks(pool);
        if (!pool->ending) {
            pool_condition_wait(&pool->work, &pool->lock);
        }
    }
    pool_mutex_unlock(&pool->lock);
    return POOL_THREAD_END;
}

static void pool_run(void *self, void (*task)(void *context, size_t index), void *context,
                size_t n_tasks) {
    glpcore_pool *pool = self;

    pool_mutex_lock(&pool->callers);
    pool_mutex_lock(&pool->lock);
    pool->task = task;
    pool->context = context;
    pool->next = 0;
    pool->n_tasks = n_tasks;
    pool->unfinished = n_tasks;
    pool_condition_broadcast(&pool->work);
    pool_take_tasks(pool);
    while (pool->unfinished > 0) {
        pool_condition_wait(&pool->done, &pool->lock);
    }
    pool_mutex_unlock(&pool->lock);
    pool_mutex_unlock(&pool->callers);
}

/* The synchronisation objects, all or none. */
static int pool_init(glpcore_pool *pool) {
    if (pool_mutex_init(&pool->callers)) {
        if (pool_mutex_init(&pool->lock)) {
            if (pool_condition_init(&pool->work)) {
                if (pool_condition_init(&pool->done)) {
                    return 1;
                }
                pool_condition_destroy(&pool->work);
            }
            pool_mutex_destroy(&pool->lock);
        }
        pool_mutex_destroy(&pool->callers);
    }
    return 0;
}

glpcore_status glpcore_pool_create(size_t n_threads, glpcore_pool **pool) {
    glpcore_pool *made;

    if (!pool) {
        return GLPCORE_INVALID;
    }
    *pool = NULL;
    if (n_threads == 0 || n_threads > POOL_MAX_THREADS) {
        return GLPCORE_INVALID;
    }
    made = calloc(1, sizeof *made + (n_threads - 1) * sizeof made->workers[0]);
    if (!made || !pool_init(made)) {
        free(made);
        return GLPCORE_NOMEM;
    }
    made->executor.struct_size = sizeof made->executor;
    made->executor.n_threads = n_threads;
    made->executor.run = pool_run;
    made->executor.self = made;
    while (made->n_workers < n_threads - 1) {
        if (!pool_thread_start(&made->workers[made->n_workers], pool_work, made)) {
            glpcore_pool_free(made);
            return GLPCORE_NOMEM;
        }
        made->n_workers++;
    }
    *pool = made;
    return GLPCORE_OK;
}

void glpcore_pool_free(glpcore_pool *pool) {
    size_t i;

    if (!pool) {
        return;
    }
    pool_mutex_lock(&pool->lock);
    pool->ending = 1;
    pool_condition_broadcast(&pool->work);
    pool_mutex_unlock(&pool->lock);
    for (i = 0; i < pool->n_workers; i++) {
        pool_thread_join(pool->workers[i]);
    }
    pool_condition_destroy(&pool->done);
    pool_condition_destroy(&pool->work);
    pool_mutex_destroy(&pool->lock);
    pool_mutex_destroy(&pool->callers);
    free(pool);
}

const glpcore_executor *glpcore_pool_executor(const glpcore_pool *pool) {
    return pool ? &pool->executor : NULL;
}
