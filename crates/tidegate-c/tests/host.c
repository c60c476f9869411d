/* The checks under an operating system, and threads that share limiters. */
#include "semantics.h"

#include <pthread.h>
#include <stdio.h>

#include "../include/tidegate.h"

enum { THREADS = 2, ROUNDS = 20000, PERMITS = 7001, KEYS = 5 };

static int failures;

static void failed(const char *file, int line, const char *what)
{
    failures += 1;
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
}

static tidegate_limiter64 shared64;
static tidegate_limiter32 shared32;
static tidegate_table64 table64;
static tidegate_table32 table32;
static tidegate_line lines64[16], lines32[16];

typedef struct {
    unsigned single64, single32, keyed64[KEYS], keyed32[KEYS];
} admitted;

/* Everybody asks for everything at one instant, so that nothing comes back. */
static void *worker(void *argument)
{
    admitted *mine = argument;
    const uint64_t now = 100 * TIDEGATE_SECOND;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned key = round % KEYS;
        mine->single64 += tidegate_limiter64_check_n(&shared64, now, 1, NULL) == TIDEGATE_OK;
        mine->single32 += tidegate_limiter32_check_n(&shared32, now, 1, NULL) == TIDEGATE_OK;
        mine->keyed64[key] += tidegate_table64_check_n(&table64, key, now, 1, NULL) == TIDEGATE_OK;
        mine->keyed32[key] += tidegate_table32_check_n(&table32, key, now, 1, NULL) == TIDEGATE_OK;
    }
    return NULL;
}

static void expect(const char *what, unsigned got, unsigned expected)
{
    if (got != expected) {
        failures += 1;
        fprintf(stderr, "%s: %u admitted, and not %u\n", what, got, expected);
    }
}

static void threads(void)
{
    static admitted all[THREADS];
    pthread_t handles[THREADS];
    tidegate_config config = {TIDEGATE_TOKEN_BUCKET, PERMITS, 60 * TIDEGATE_SECOND, 0};
    tidegate_config each = {TIDEGATE_FIXED_WINDOW, PERMITS / KEYS, 60 * TIDEGATE_SECOND, 0};
    int made = 0;

    made += tidegate_limiter64_init(&shared64, sizeof shared64, &config) == TIDEGATE_OK;
    made += tidegate_limiter32_init(&shared32, sizeof shared32, &config) == TIDEGATE_OK;
    made += tidegate_table64_init(&table64, sizeof table64, lines64, sizeof lines64, TIDEGATE_ON_FULL_DENY, &each)
            == TIDEGATE_OK;
    made += tidegate_table32_init(&table32, sizeof table32, lines32, sizeof lines32, TIDEGATE_ON_FULL_DENY, &each)
            == TIDEGATE_OK;
    expect("objects", (unsigned)made, 4);

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&handles[i], NULL, worker, &all[i]) != 0)
            failed(__FILE__, __LINE__, "a thread could be made");
    for (int i = 0; i < THREADS; i++)
        pthread_join(handles[i], NULL);

    for (int i = 1; i < THREADS; i++) {
        all[0].single64 += all[i].single64;
        all[0].single32 += all[i].single32;
        for (int key = 0; key < KEYS; key++) {
            all[0].keyed64[key] += all[i].keyed64[key];
            all[0].keyed32[key] += all[i].keyed32[key];
        }
    }
    expect("64 bits, shared", all[0].single64, PERMITS);
    expect("32 bits, shared", all[0].single32, PERMITS);
    for (int key = 0; key < KEYS; key++) {
        expect("64 bits, a key", all[0].keyed64[key], PERMITS / KEYS);
        expect("32 bits, a key", all[0].keyed32[key], PERMITS / KEYS);
    }
}

int main(void)
{
    unsigned checks = semantics(failed);
    threads();
    printf("%u checks and %d threads, %d failures\n", checks, THREADS, failures);
    return failures != 0;
}
