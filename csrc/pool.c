/* Before any header: a strict C99 compiler hides what is used below. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#  define _GNU_SOURCE
#elif defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#  define _DARWIN_C_SOURCE
#elif !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif

#include "include/glpcore.h"

#include <limits.h>
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

static int pool_mutex_try(pool_mutex *m) { return TryEnterCriticalSection(m); }
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

/* Processors that this process may use. */
static size_t pool_processors(void) {
    DWORD_PTR process, system;
    size_t n = 0;

    if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system)) {
        for (; process; process &= process - 1) {
            n++;
        }
    }
    return n;
}

#else

#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#if defined(__linux__)
#  include <sched.h>
#endif

typedef pthread_mutex_t pool_mutex;
typedef pthread_cond_t pool_condition;
typedef pthread_t pool_thread;

static int pool_mutex_init(pool_mutex *m) { return pthread_mutex_init(m, NULL) == 0; }
static int pool_condition_init(pool_condition *c) { return pthread_cond_init(c, NULL) == 0; }
static int pool_mutex_try(pool_mutex *m) { return pthread_mutex_trylock(m) == 0; }
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

/* Processors that this process may use; 0 when that is unknown. */
static size_t pool_processors(void) {
    long n;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return (size_t)CPU_COUNT(&set);
    }
#endif
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (size_t)n : 0;
}

#endif

/* ---- Atomics -------------------------------------------------------------------------------- */

/* All sequentially consistent: what a job costs lies elsewhere. */
#if defined(_MSC_VER) && !defined(__clang__)

typedef volatile LONG pool_atomic;

static int pool_load(pool_atomic *a) { return (int)InterlockedOr(a, 0); }
static void pool_store(pool_atomic *a, int value) { InterlockedExchange(a, value); }
static int pool_add(pool_atomic *a, int n) { return (int)InterlockedExchangeAdd(a, n) + n; }
static int pool_swap(pool_atomic *a, int from, int to) {
    return InterlockedCompareExchange(a, to, from) == from;
}

#  define POOL_PAUSE() YieldProcessor()

#else

typedef int pool_atomic;

static int pool_load(pool_atomic *a) { return __atomic_load_n(a, __ATOMIC_SEQ_CST); }
static void pool_store(pool_atomic *a, int value) { __atomic_store_n(a, value, __ATOMIC_SEQ_CST); }
static int pool_add(pool_atomic *a, int n) { return __atomic_add_fetch(a, n, __ATOMIC_SEQ_CST); }
static int pool_swap(pool_atomic *a, int from, int to) {
    return __atomic_compare_exchange_n(a, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

#  if defined(__x86_64__) || defined(__i386__)
#    define POOL_PAUSE() __builtin_ia32_pause()
#  elif defined(__aarch64__)
#    define POOL_PAUSE() __asm__ volatile("isb") /* `yield` is no pause on most */
#  else
#    define POOL_PAUSE() ((void)0)
#  endif

#endif

/* ---- The pool ------------------------------------------------------------------------------- */

/* More is a mistake in the caller's arithmetic rather than a machine. */
#define POOL_MAX_THREADS 1024

/* Looks at the next job, or at the last task's end, before a thread sleeps: some 20 to 40 us. Waking
 * one takes as long, and the layers of a decode step follow each other faster. */
#define POOL_SPINS 1000

/* A job is published by storing in `left` how many of its tasks nobody has taken. A thread takes the
 * last of these by swapping the number for one less, and only then reads `task` and `context`, which
 * stay as they are while a task of the job is unfinished. So it does not matter whether the job is
 * still the one in which the thread saw the number: it has taken a task of the job that it reads. */
struct glpcore_pool {
    glpcore_executor executor;
    pool_mutex callers; /* held by the one caller whose tasks are run */
    void (*task)(void *context, size_t index);
    void *context;
    pool_atomic left;
    pool_atomic unfinished;
    pool_atomic asleep;  /* workers that must be woken */
    pool_atomic waiting; /* 1 when the caller must be */
    pool_atomic ending;
    int spins;
    pool_mutex lock;     /* for the two conditions */
    pool_condition work; /* left is not 0, or the end has come */
    pool_condition done; /* unfinished is 0 */
    size_t n_workers;
    pool_thread workers[]; /* n_workers of them */
};

static int pool_has_work(glpcore_pool *pool) {
    return pool_load(&pool->left) > 0 || pool_load(&pool->ending);
}

static void pool_take_tasks(glpcore_pool *pool) {
    int left;

    while ((left = pool_load(&pool->left)) > 0) {
        if (pool_swap(&pool->left, left, left - 1)) {
            pool->task(pool->context, (size_t)left - 1);
            if (pool_add(&pool->unfinished, -1) == 0 && pool_load(&pool->waiting)) {
                pool_mutex_lock(&pool->lock);
                pool_condition_broadcast(&pool->done);
                pool_mutex_unlock(&pool->lock);
            }
        }
    }
}

POOL_THREAD_BODY(pool_work, argument) {
    glpcore_pool *pool = argument;
    int spin;

    for (;;) {
        pool_take_tasks(pool);
        for (spin = 0; spin < pool->spins && !pool_has_work(pool); spin++) {
            POOL_PAUSE();
        }
        if (!pool_has_work(pool)) {
            /* A publisher either sees this thread asleep or is seen to have published. */
            pool_mutex_lock(&pool->lock);
            pool_add(&pool->asleep, 1);
            while (!pool_has_work(pool)) {
                pool_condition_wait(&pool->work, &pool->lock);
            }
            pool_add(&pool->asleep, -1);
            pool_mutex_unlock(&pool->lock);
        }
        if (pool_load(&pool->ending)) {
            return POOL_THREAD_END;
        }
    }
}

static void pool_run(void *self, void (*task)(void *context, size_t index), void *context,
                     size_t n_tasks) {
    glpcore_pool *pool = self;
    int spin;

    /* The pool is at work for another thread: its processors are taken, and this one is not. */
    if (n_tasks < 2 || n_tasks > INT_MAX || !pool_mutex_try(&pool->callers)) {
        size_t index;
        for (index = 0; index < n_tasks; index++) {
            task(context, index);
        }
        return;
    }
    pool->task = task;
    pool->context = context;
    pool_store(&pool->unfinished, (int)n_tasks);
    pool_store(&pool->left, (int)n_tasks);
    if (pool_load(&pool->asleep)) {
        pool_mutex_lock(&pool->lock);
        pool_condition_broadcast(&pool->work);
        pool_mutex_unlock(&pool->lock);
    }
    pool_take_tasks(pool);
    for (spin = 0; spin < pool->spins && pool_load(&pool->unfinished); spin++) {
        POOL_PAUSE();
    }
    if (pool_load(&pool->unfinished)) {
        pool_mutex_lock(&pool->lock);
        pool_store(&pool->waiting, 1);
        while (pool_load(&pool->unfinished)) {
            pool_condition_wait(&pool->done, &pool->lock);
        }
        pool_store(&pool->waiting, 0);
        pool_mutex_unlock(&pool->lock);
    }
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
    made->spins = pool_processors() >= n_threads ? POOL_SPINS : 0;
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
    pool_store(&pool->ending, 1);
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
