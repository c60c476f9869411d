#include "semantics.h"

#include "../include/tidegate.h"

#define MS (TIDEGATE_SECOND / 1000)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CHECK(truth)                                                                               \
    do {                                                                                           \
        checks += 1;                                                                               \
        if (!(truth))                                                                              \
            failed(__FILE__, __LINE__, #truth);                                                    \
    } while (0)

struct step {
    uint64_t at;
    uint64_t cost;
    int status;
    uint64_t remaining;
    uint64_t retry;
    uint64_t reset;
};

struct row {
    tidegate_config config;
    struct step steps[6];
};

static void (*failed)(const char *file, int line, const char *what);
static unsigned checks;

/* Windows are exact in both words. */
static const struct row windows[] = {
    /* Two a second: the boundary at 2 s lets two more pass. */
    {{TIDEGATE_FIXED_WINDOW, 2, TIDEGATE_SECOND, 0},
     {{1900 * MS, 1, TIDEGATE_OK, 1, 0, 100 * MS},
      {1950 * MS, 1, TIDEGATE_OK, 0, 0, 50 * MS},
      {1990 * MS, 1, TIDEGATE_LIMITED, 0, 10 * MS, 10 * MS},
      {1990 * MS, 3, TIDEGATE_TOO_COSTLY, 0, TIDEGATE_NEVER, 10 * MS},
      {2000 * MS, 2, TIDEGATE_OK, 0, 0, 1000 * MS},
      {2000 * MS, 0, TIDEGATE_OK, 0, 0, 1000 * MS}}},
    /* Ten a second: when a tenth of the next has passed, nine tenths of the last ten still count. */
    {{TIDEGATE_SLIDING_WINDOW, 10, TIDEGATE_SECOND, 0},
     {{1500 * MS, 10, TIDEGATE_OK, 0, 0, 1500 * MS},
      {1500 * MS, 1, TIDEGATE_LIMITED, 0, 600 * MS, 1500 * MS},
      {2100 * MS - 1, 1, TIDEGATE_LIMITED, 0, 1, 900 * MS + 1},
      {2100 * MS, 1, TIDEGATE_OK, 0, 0, 1900 * MS},
      {2100 * MS, 11, TIDEGATE_TOO_COSTLY, 0, TIDEGATE_NEVER, 1900 * MS},
      {4000 * MS, 10, TIDEGATE_OK, 0, 0, 2000 * MS}}},
};

/* These are exact in 64 bits. */
#if defined(TEST_WIDE)
static const struct row wide[] = {
    /* Five a minute, two at once: one in 12 s. */
    {{TIDEGATE_TOKEN_BUCKET, 5, 60 * TIDEGATE_SECOND, 2},
     {{10 * MS, 1, TIDEGATE_OK, 1, 0, 12000 * MS},
      {20 * MS, 1, TIDEGATE_OK, 0, 0, 23990 * MS},
      {30 * MS, 1, TIDEGATE_LIMITED, 0, 11980 * MS, 23980 * MS},
      {12010 * MS - 1, 1, TIDEGATE_LIMITED, 0, 1, 12000 * MS + 1},
      {12010 * MS, 1, TIDEGATE_OK, 0, 0, 24000 * MS},
      {12010 * MS, 3, TIDEGATE_TOO_COSTLY, 0, TIDEGATE_NEVER, 24000 * MS}}},
    /* No burst stands for the limit; a late timestamp earns nothing. */
    {{TIDEGATE_TOKEN_BUCKET, 4, 4 * TIDEGATE_SECOND, 0},
     {{9000 * MS, 3, TIDEGATE_OK, 1, 0, 3000 * MS},
      {8000 * MS, 1, TIDEGATE_LIMITED, 0, 1000 * MS, 4000 * MS},
      {9000 * MS, 1, TIDEGATE_OK, 0, 0, 4000 * MS},
      {9500 * MS, 2, TIDEGATE_LIMITED, 0, 1500 * MS, 3500 * MS},
      {11000 * MS, 2, TIDEGATE_OK, 0, 0, 4000 * MS},
      {20000 * MS, 4, TIDEGATE_OK, 0, 0, 4000 * MS}}},
    /* A window that begins with its first request. */
    {{TIDEGATE_ANCHORED_WINDOW, 2, 60 * TIDEGATE_SECOND, 0},
     {{50000 * MS, 1, TIDEGATE_OK, 1, 0, 60000 * MS},
      {70000 * MS, 1, TIDEGATE_OK, 0, 0, 40000 * MS},
      {80000 * MS, 1, TIDEGATE_LIMITED, 0, 30000 * MS, 30000 * MS},
      {110000 * MS - 1, 1, TIDEGATE_LIMITED, 0, 1, 1},
      {110000 * MS, 1, TIDEGATE_OK, 1, 0, 60000 * MS},
      {110000 * MS, 1, TIDEGATE_OK, 0, 0, 60000 * MS}}},
};
#endif

static int as_expected(int status, const tidegate_decision *decision, const struct row *row, const struct step *step)
{
    uint64_t limit = row->config.burst != 0 ? row->config.burst : row->config.limit;
    return status == step->status && decision->limit == limit && decision->remaining == step->remaining
           && decision->retry_after_ns == step->retry && decision->reset_after_ns == step->reset;
}

#define BITS 32
#include "width.h"

#if defined(TEST_WIDE)
#define BITS 64
#include "width.h"
#endif

/* Every status has a text of its own. */
static void texts(void)
{
    const char *unknown = tidegate_status_text(99);
    for (int status = TIDEGATE_ERROR_LIMITS; status <= TIDEGATE_UNCHANGED; status++) {
        const char *text = tidegate_status_text(status);
        int gap = status > TIDEGATE_ERROR_ZERO_LIMIT && status < TIDEGATE_ERROR_ON_FULL;
        CHECK(text[0] != '\0');
        CHECK((text == unknown) == gap);
    }
}

unsigned semantics(void (*report)(const char *file, int line, const char *what))
{
    failed = report;
    checks = 0;
    width32();
#if defined(TEST_WIDE)
    width64();
    case_rows64(wide, COUNT(wide));
#endif
    texts();
    return checks;
}
