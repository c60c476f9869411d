/* The checks of one width, included with BITS 32 and 64; there are no templates in C. */
#define PASTE_(first, second, third) first##second##third
#define PASTE(first, second, third) PASTE_(first, second, third)
#define LIMITER(function) PASTE(tidegate_limiter, BITS, _##function)
#define TABLE(function) PASTE(tidegate_table, BITS, _##function)
#define NAMED(function) PASTE(function, BITS, )
#define limiter_type PASTE(tidegate_limiter, BITS, )
#define table_type PASTE(tidegate_table, BITS, )

static void NAMED(case_rows)(const struct row *rows, size_t count)
{
    static limiter_type limiter;
    static table_type table;
    static tidegate_line lines[2];
    for (const struct row *row = rows; row < rows + count; row++) {
        CHECK(LIMITER(init)(&limiter, sizeof limiter, &row->config) == TIDEGATE_OK);
        CHECK(TABLE(init)(&table, sizeof table, lines, sizeof lines, TIDEGATE_ON_FULL_DENY, &row->config)
              == TIDEGATE_OK);
        for (const struct step *step = row->steps; step < row->steps + COUNT(row->steps); step++) {
            tidegate_decision single, keyed, bytes, peeked;
            int peek, status;
            peek = LIMITER(peek_n)(&limiter, step->at, step->cost, &peeked);
            CHECK(peek == step->status);
            status = LIMITER(check_n)(&limiter, step->at, step->cost, &single);
            CHECK(as_expected(status, &single, row, step));
            status = TABLE(check_n)(&table, 7, step->at, step->cost, &keyed);
            CHECK(as_expected(status, &keyed, row, step));
            status = TABLE(check_n_bytes)(&table, (const uint8_t *)"seven", 5, step->at, step->cost, &bytes);
            CHECK(as_expected(status, &bytes, row, step));
        }
    }
}

static void NAMED(giving_back)(void)
{
    static limiter_type limiter;
    static table_type table;
    static tidegate_line lines[1];
    const uint8_t *bob = (const uint8_t *)"bob";
    tidegate_config config = {TIDEGATE_TOKEN_BUCKET, 10, TIDEGATE_SECOND, 0};
    tidegate_decision decision;
    uint64_t now = 5 * TIDEGATE_SECOND;

    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_OK);
    CHECK(LIMITER(refund)(&limiter, now, 1) == TIDEGATE_UNCHANGED);
    CHECK(LIMITER(check_n)(&limiter, now, 10, NULL) == TIDEGATE_OK);
    CHECK(LIMITER(sweep)(&limiter, now) == TIDEGATE_UNCHANGED);
    CHECK(LIMITER(refund)(&limiter, now, 4) == TIDEGATE_OK);
    CHECK(LIMITER(check_n)(&limiter, now, 5, &decision) == TIDEGATE_LIMITED);
    CHECK(decision.remaining == 4);
    CHECK(LIMITER(reset)(&limiter) == TIDEGATE_OK);
    CHECK(LIMITER(check_n)(&limiter, now, 10, &decision) == TIDEGATE_OK);
    CHECK(LIMITER(sweep)(&limiter, now + 10 * TIDEGATE_SECOND) == TIDEGATE_OK);

    CHECK(TABLE(init)(&table, sizeof table, lines, sizeof lines, TIDEGATE_ON_FULL_DENY, &config)
          == TIDEGATE_OK);
    CHECK(TABLE(reseed)(&table, 1, 2) == TIDEGATE_OK);
    CHECK(TABLE(check_n)(&table, 1, now, 10, NULL) == TIDEGATE_OK);
    CHECK(TABLE(check_n_bytes)(&table, bob, 3, now, 10, NULL) == TIDEGATE_OK);
    CHECK(TABLE(live)(&table, now) == 2);
    CHECK(TABLE(refund)(&table, 2, now, 4) == TIDEGATE_UNCHANGED);
    CHECK(TABLE(refund)(&table, 1, now, 4) == TIDEGATE_OK);
    CHECK(TABLE(refund_bytes)(&table, bob, 3, now, 3) == TIDEGATE_OK);
    CHECK(TABLE(peek_n)(&table, 1, now, 0, &decision) == TIDEGATE_OK);
    CHECK(decision.remaining == 4);
    CHECK(TABLE(peek_n_bytes)(&table, bob, 3, now, 0, &decision) == TIDEGATE_OK);
    CHECK(decision.remaining == 3);
    CHECK(TABLE(reset)(&table, 1) == TIDEGATE_OK);
    CHECK(TABLE(live)(&table, now) == 1);
    CHECK(TABLE(reset_bytes)(&table, bob, 3) == TIDEGATE_OK);
    CHECK(TABLE(live)(&table, now) == 0);
    CHECK(TABLE(check_n)(&table, 1, now, 10, NULL) == TIDEGATE_OK);
    CHECK(TABLE(sweep)(&table, now) == TIDEGATE_OK);
    CHECK(TABLE(live)(&table, now) == 1);
    CHECK(TABLE(clear)(&table) == TIDEGATE_OK);
    CHECK(TABLE(live)(&table, now) == 0);
}

/* One line: as many keys as it has slots, and one more. */
static void NAMED(full)(int on_full, int expected)
{
    static table_type table;
    static tidegate_line lines[1];
    const unsigned slots = 256 / BITS;
    tidegate_config config = {TIDEGATE_ANCHORED_WINDOW, 3, 60 * TIDEGATE_SECOND, 0};
    tidegate_decision decision;
    uint64_t now = TIDEGATE_SECOND;

    CHECK(TABLE(init)(&table, sizeof table, lines, sizeof lines, on_full, &config) == TIDEGATE_OK);
    for (uint64_t key = 0; key < slots; key++)
        CHECK(TABLE(check_n)(&table, key, now, 3, NULL) == TIDEGATE_OK);
    CHECK(TABLE(live)(&table, now) == slots);
    CHECK(TABLE(check_n)(&table, slots, now, 1, &decision) == expected);
    CHECK(decision.limit == 3);
    CHECK(decision.retry_after_ns == (expected == TIDEGATE_OK ? 0 : TIDEGATE_NEVER));
    CHECK(TABLE(live)(&table, now) == slots);
    /* Hours later all slots are free again. */
    now += 10000 * TIDEGATE_SECOND;
    CHECK(TABLE(live)(&table, now) == 0);
    CHECK(TABLE(check_n)(&table, slots, now, 3, NULL) == TIDEGATE_OK);
}

static void NAMED(mistakes)(void)
{
    static limiter_type limiter, *no_limiter;
    static table_type table, *no_table;
    static tidegate_line lines[2];
    static union {
        table_type table;
        tidegate_line line;
        unsigned char bytes[2 * sizeof(table_type)];
    } odd;
    limiter_type *odd_limiter = (void *)(odd.bytes + 4);
    table_type *odd_table = (void *)(odd.bytes + 8);
    tidegate_line *odd_line = (void *)(odd.bytes + 8);
    tidegate_config config = {TIDEGATE_TOKEN_BUCKET, 10, TIDEGATE_SECOND, 0};
    tidegate_decision decision = {1, 1, 1, 1};

    CHECK(LIMITER(check_n)(&limiter, 1, 1, &decision) == TIDEGATE_ERROR_UNINITIALISED);
    CHECK(decision.limit == 0 && decision.remaining == 0 && decision.retry_after_ns == TIDEGATE_NEVER);
    CHECK(LIMITER(peek_n)(&limiter, 1, 1, NULL) == TIDEGATE_ERROR_UNINITIALISED);
    CHECK(LIMITER(refund)(&limiter, 1, 1) == TIDEGATE_ERROR_UNINITIALISED);
    CHECK(LIMITER(init)(no_limiter, sizeof limiter, &config) == TIDEGATE_ERROR_NULL);
    CHECK(LIMITER(init)(&limiter, sizeof limiter, NULL) == TIDEGATE_ERROR_NULL);
    CHECK(LIMITER(init)(&limiter, sizeof limiter - 1, &config) == TIDEGATE_ERROR_SIZE);
    CHECK(LIMITER(init)(odd_limiter, sizeof limiter, &config) == TIDEGATE_ERROR_MISALIGNED);
    CHECK(LIMITER(check_n)(odd_limiter, 1, 1, NULL) == TIDEGATE_ERROR_MISALIGNED);
    CHECK(LIMITER(check_n)(no_limiter, 1, 1, &decision) == TIDEGATE_ERROR_NULL);
    CHECK(LIMITER(peek_n)(no_limiter, 1, 1, NULL) == TIDEGATE_ERROR_NULL);
    CHECK(LIMITER(refund)(no_limiter, 1, 1) == TIDEGATE_ERROR_NULL);
    CHECK(LIMITER(reset)(no_limiter) == TIDEGATE_ERROR_NULL);
    CHECK(LIMITER(sweep)(no_limiter, 1) == TIDEGATE_ERROR_NULL);

    config.algorithm = 4;
    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_ERROR_ALGORITHM);
    config.algorithm = TIDEGATE_FIXED_WINDOW;
    config.limit = 0;
    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_ERROR_ZERO_LIMIT);
    config.limit = UINT64_MAX;
    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_ERROR_LIMIT_TOO_LARGE);
    config.limit = 1;
    config.period_ns = 0;
    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_ERROR_ZERO_PERIOD);
    config.period_ns = UINT64_MAX;
    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_ERROR_PERIOD_TOO_LONG);
    config.period_ns = 1;
    config.burst = 1;
    CHECK(LIMITER(init)(&limiter, sizeof limiter, &config) == TIDEGATE_ERROR_BURST_OF_WINDOW);
    /* None of these has made one. */
    CHECK(LIMITER(check_n)(&limiter, 1, 1, NULL) == TIDEGATE_ERROR_UNINITIALISED);

    config.burst = 0;
    config.period_ns = 60 * TIDEGATE_SECOND;
    CHECK(TABLE(check_n)(&table, 1, 1, 1, &decision) == TIDEGATE_ERROR_UNINITIALISED);
    CHECK(TABLE(live)(&table, 1) == 0);
    CHECK(TABLE(init)(no_table, sizeof table, lines, sizeof lines, 0, &config) == TIDEGATE_ERROR_NULL);
    CHECK(TABLE(init)(&table, sizeof table, NULL, sizeof lines, 0, &config) == TIDEGATE_ERROR_NULL);
    CHECK(TABLE(init)(&table, sizeof table, lines, sizeof lines, 0, NULL) == TIDEGATE_ERROR_NULL);
    CHECK(TABLE(init)(&table, sizeof table, lines, 0, 0, &config) == TIDEGATE_ERROR_SIZE);
    CHECK(TABLE(init)(&table, sizeof table, lines, 65, 0, &config) == TIDEGATE_ERROR_SIZE);
    CHECK(TABLE(init)(&table, sizeof table, lines, SIZE_MAX - 63, 0, &config) == TIDEGATE_ERROR_SIZE);
    CHECK(TABLE(init)(&table, sizeof lines, lines, sizeof lines, 0, &config) == TIDEGATE_ERROR_SIZE);
    CHECK(TABLE(init)(odd_table, sizeof table, lines, sizeof lines, 0, &config) == TIDEGATE_ERROR_MISALIGNED);
    CHECK(TABLE(init)(&table, sizeof table, odd_line, sizeof lines, 0, &config) == TIDEGATE_ERROR_MISALIGNED);
    CHECK(TABLE(init)(&table, sizeof table, lines, sizeof lines, 3, &config) == TIDEGATE_ERROR_ON_FULL);
    CHECK(TABLE(check_n)(&table, 1, 1, 1, &decision) == TIDEGATE_ERROR_UNINITIALISED);
    CHECK(TABLE(init)(&table, sizeof table, lines, sizeof lines, 0, &config) == TIDEGATE_OK);
    CHECK(TABLE(check_n)(no_table, 1, 1, 1, NULL) == TIDEGATE_ERROR_NULL);
    CHECK(TABLE(check_n_bytes)(&table, NULL, 1, 1, 1, &decision) == TIDEGATE_ERROR_NULL);
    CHECK(decision.retry_after_ns == TIDEGATE_NEVER);
    CHECK(TABLE(refund_bytes)(&table, NULL, 1, 1, 1) == TIDEGATE_ERROR_NULL);
    CHECK(TABLE(reseed)(no_table, 1, 1) == TIDEGATE_ERROR_NULL);
    /* The empty key is one as any other, and not the number 0. */
    CHECK(TABLE(check_n_bytes)(&table, NULL, 0, 1, 1, NULL) == TIDEGATE_OK);
    CHECK(TABLE(check_n_bytes)(&table, NULL, 0, 1, 1, NULL) == TIDEGATE_LIMITED);
    CHECK(TABLE(check_n)(&table, 0, 1, 1, NULL) == TIDEGATE_OK);
    /* A table is not a limiter. */
    CHECK(LIMITER(check_n)((void *)&table, 1, 1, NULL) == TIDEGATE_ERROR_UNINITIALISED);
}

static void NAMED(width)(void)
{
    NAMED(case_rows)(windows, COUNT(windows));
    NAMED(giving_back)();
    NAMED(full)(TIDEGATE_ON_FULL_DENY, TIDEGATE_TABLE_FULL);
    NAMED(full)(TIDEGATE_ON_FULL_ALLOW, TIDEGATE_OK);
    NAMED(full)(TIDEGATE_ON_FULL_EVICT, TIDEGATE_OK);
    NAMED(mistakes)();
}

#undef PASTE_
#undef PASTE
#undef LIMITER
#undef TABLE
#undef NAMED
#undef limiter_type
#undef table_type
#undef BITS
