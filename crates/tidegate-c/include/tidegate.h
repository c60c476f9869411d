/*
 * tidegate: lock-free rate limiters, in memory of yours, that never allocate and never read a clock.
 *
 *     static tidegate_limiter32 logins;
 *
 *     tidegate_config config = {TIDEGATE_TOKEN_BUCKET, 5, 60 * TIDEGATE_SECOND, 2};
 *     int status = tidegate_limiter32_init(&logins, sizeof logins, &config);
 *     if (status != TIDEGATE_OK)
 *         puts(tidegate_status_text(status));
 *
 *     tidegate_decision decision;
 *     if (tidegate_limiter32_check_n(&logins, now_ns, 1, &decision) != TIDEGATE_OK)
 *         wait(decision.retry_after_ns);
 *
 * A status of 0 is a yes, one above 0 a no, and one below 0 a mistake in the call, which has changed nothing.
 * Whoever treats all but 0 as a refusal is on the safe side.
 *
 * Time is nanoseconds since any epoch, from a monotonic clock. Late or wrong timestamps never admit more.
 *
 * Threads and interrupts: while an object is being initialised, nobody else may use it, nor its lines; hand it on as
 * you would any other memory. From then on every function but init may be called on it by any number of threads and
 * interrupt handlers at once, also by a handler that has interrupted the same function on the same object. Nothing
 * here takes a lock, but for the back ends of portable-atomic that the library may have been built with.
 * Decisions promise no ordering of other memory accesses.
 *
 * Memory: an object stays where it was initialised; it must not be copied or moved. It holds no resources: to be rid
 * of it, stop using it. One that is all zero, as a static one is at first, answers TIDEGATE_ERROR_UNINITIALISED;
 * other memory that was never initialised must not be passed.
 *
 * limiter32 and table32 keep 32-bit words: for chips whose widest atomics have 32 bits, and for tables of half the
 * size. limiter64 and table64 keep 64-bit words: exact at every rate up to four permits a microsecond. The library has
 * them only if it was built with its feature `wide`, which it is by default.
 */


#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && __cplusplus >= 201103L
#define TIDEGATE_ALIGNED(bytes) alignas(bytes)
#elif defined(_MSC_VER)
#define TIDEGATE_ALIGNED(bytes) __declspec(align(bytes))
#else
#define TIDEGATE_ALIGNED(bytes) __attribute__((aligned(bytes)))
#endif

/** Nanoseconds in a second. */
#define TIDEGATE_SECOND ((uint64_t)1000000000)

/** A wait that never ends. */
#define TIDEGATE_NEVER ((uint64_t)-1)

/**
 * Size of a tidegate_limiter32 and of a tidegate_limiter64, in bytes.
 */
#define TIDEGATE_LIMITER_SIZE 128

/**
 * Size of a tidegate_table32 and of a tidegate_table64, in bytes.
 */
#define TIDEGATE_TABLE_SIZE 256

/**
 * Size and alignment of a tidegate_line, in bytes.
 */
#define TIDEGATE_LINE_SIZE 64

/**
 * What a function answers: 0 is a yes, a number above 0 a no, one below 0 a mistake in the call.
 */
enum tidegate_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Admitted, or done.
   */
  TIDEGATE_OK = 0,
  /**
   * Refused for now: it passes after the decision's retry_after_ns.
   */
  TIDEGATE_LIMITED = 1,
  /**
   * Refused for ever: the cost is above the limit, or above the burst.
   */
  TIDEGATE_TOO_COSTLY = 2,
  /**
   * Refused: the table has no room for another live key.
   */
  TIDEGATE_TABLE_FULL = 3,
  /**
   * There was nothing to give back.
   */
  TIDEGATE_UNCHANGED = 4,
  /**
   * A pointer is null that must not be.
   */
  TIDEGATE_ERROR_NULL = -1,
  /**
   * A pointer is not aligned for what it points to.
   */
  TIDEGATE_ERROR_MISALIGNED = -2,
  /**
   * The size is not that of the object, or that of the lines is 0, not a multiple of one line's, or too large; or
   * a key is longer than memory is.
   */
  TIDEGATE_ERROR_SIZE = -3,
  /**
   * The object was never initialised, or is of another type.
   */
  TIDEGATE_ERROR_UNINITIALISED = -4,
  /**
   * There is no such tidegate_algorithm.
   */
  TIDEGATE_ERROR_ALGORITHM = -5,
  /**
   * There is no such tidegate_on_full.
   */
  TIDEGATE_ERROR_ON_FULL = -6,
  /**
   * The limit is 0: nothing would ever pass.
   */
  TIDEGATE_ERROR_ZERO_LIMIT = -16,
  /**
   * The period is 0: the rate would be infinite.
   */
  TIDEGATE_ERROR_ZERO_PERIOD = -17,
  /**
   * A window has no burst: leave it 0.
   */
  TIDEGATE_ERROR_BURST_OF_WINDOW = -18,
  /**
   * Filling the burst takes longer than the word can measure: 2.2 years for 64 bits.
   */
  TIDEGATE_ERROR_BURST_TOO_LONG = -19,
  /**
   * No fraction that the word can hold is within a millionth below the rate, which is above four permits a
   * microsecond.
   */
  TIDEGATE_ERROR_RATE_TOO_FINE = -20,
  /**
   * Burst and permits a minute together exceed 65536, the most that a 32-bit token bucket can tell apart.
   */
  TIDEGATE_ERROR_NARROW_TOO_FAST = -21,
  /**
   * Counting to this limit leaves fewer than 16 bits of the word for time.
   */
  TIDEGATE_ERROR_LIMIT_TOO_LARGE = -22,
  /**
   * The period is too short for this word to tell late timestamps from old states.
   */
  TIDEGATE_ERROR_PERIOD_TOO_SHORT = -23,
  /**
   * The period is longer than 146 years.
   */
  TIDEGATE_ERROR_PERIOD_TOO_LONG = -24,
  /**
   * The limits cannot be represented, for another reason.
   */
  TIDEGATE_ERROR_LIMITS = -25,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tidegate_status tidegate_status;
#else
typedef int32_t tidegate_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How a limit counts.
 */
enum tidegate_algorithm
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * At most `burst + limit * d / period` in any stretch of time `d`. Starts full.
   */
  TIDEGATE_TOKEN_BUCKET = 0,
  /**
   * At most `limit` in each window; windows begin at whole multiples of the period since the epoch. Up to twice
   * the limit around a boundary.
   */
  TIDEGATE_FIXED_WINDOW = 1,
  /**
   * The same, but a window begins with the first admitted request after the last has ended.
   */
  TIDEGATE_ANCHORED_WINDOW = 2,
  /**
   * About `limit` in any period, and less than twice that: the last window fades out as the current one ages.
   */
  TIDEGATE_SLIDING_WINDOW = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tidegate_algorithm tidegate_algorithm;
#else
typedef int32_t tidegate_algorithm;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * What becomes of a new key when every slot of a table that it may have is live.
 */
enum tidegate_on_full
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * It is refused, as TIDEGATE_TABLE_FULL.
   */
  TIDEGATE_ON_FULL_DENY = 0,
  /**
   * It passes uncounted.
   */
  TIDEGATE_ON_FULL_ALLOW = 1,
  /**
   * It displaces the key that would be idle first, whose budget is so handed back early.
   */
  TIDEGATE_ON_FULL_EVICT = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tidegate_on_full tidegate_on_full;
#else
typedef int32_t tidegate_on_full;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * One limiter in a 32-bit word, shared by everyone who has its address.
 */
typedef struct TIDEGATE_ALIGNED(8) tidegate_limiter32 {
  uint64_t opaque[16];
} tidegate_limiter32;

/**
 * The limits of a limiter, or of each key of a table.
 */
typedef struct tidegate_config {
  /**
   * A tidegate_algorithm.
   */
  int32_t algorithm;
  /**
   * Permits in each period; at least 1.
   */
  uint64_t limit;
  /**
   * The period, in nanoseconds; at least 1.
   */
  uint64_t period_ns;
  /**
   * The most permits that a token bucket holds; 0 stands for the limit. Of windows it must be 0.
   */
  uint64_t burst;
} tidegate_config;

/**
 * The numbers that go with an answer. After a mistake in the call, all are 0 but the wait, which is TIDEGATE_NEVER.
 */
typedef struct tidegate_decision {
  /**
   * The most permits that can ever be left: the burst of a token bucket, the limit of a window.
   */
  uint64_t limit;
  /**
   * How many more requests of cost 1 would pass at this same instant. Exact.
   */
  uint64_t remaining;
  /**
   * How long until the same request passes, if nothing else does meanwhile: exact to the nanosecond. 0 if it was
   * admitted, TIDEGATE_NEVER if waiting is no cure.
   */
  uint64_t retry_after_ns;
  /**
   * How long until everything used so far has come back, if nothing more is taken.
   */
  uint64_t reset_after_ns;
} tidegate_decision;

/**
 * One limiter in a 64-bit word, shared by everyone who has its address.
 */
typedef struct TIDEGATE_ALIGNED(8) tidegate_limiter64 {
  uint64_t opaque[16];
} tidegate_limiter64;

/**
 * One limiter for every key, in 32-bit words: twice the keys in the same memory, told apart by 26 bits of a hash.
 */
typedef struct TIDEGATE_ALIGNED(64) tidegate_table32 {
  uint64_t opaque[32];
} tidegate_table32;

/**
 * Room for eight keys of a tidegate_table32, or four of a tidegate_table64. Set aside lines for twice the keys that
 * are live at once in a tidegate_table64, for half as many again in a tidegate_table32.
 */
typedef struct TIDEGATE_ALIGNED(64) tidegate_line {
  uint64_t opaque[8];
} tidegate_line;

/**
 * One limiter for every key, in 64-bit words: keys are told apart by 58 bits of a hash.
 */
typedef struct TIDEGATE_ALIGNED(64) tidegate_table64 {
  uint64_t opaque[32];
} tidegate_table64;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a fresh limiter. `size` is `sizeof *limiter`. Unless it answers TIDEGATE_OK, the memory is as it was.
 *
 * # Safety
 *
 * `limiter` is valid for writing, `config` for reading, and nobody else uses either meanwhile.
 */
tidegate_status tidegate_limiter32_init(struct tidegate_limiter32 *limiter,
                                        size_t size,
                                        const struct tidegate_config *config);

/**
 * May a request of this cost pass now? If so, it is counted; all or nothing. Cost 0 always passes, and changes
 * nothing. `decision` may be null, which saves its divisions.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_limiter32_check_n(struct tidegate_limiter32 *limiter,
                                           uint64_t now_ns,
                                           uint64_t cost,
                                           struct tidegate_decision *decision);

/**
 * What check_n would answer now; changes nothing.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_limiter32_peek_n(const struct tidegate_limiter32 *limiter,
                                          uint64_t now_ns,
                                          uint64_t cost,
                                          struct tidegate_decision *decision);

/**
 * Gives back permits that were taken with the timestamp `taken_at_ns` and not used: never more than was
 * taken, nor above full. TIDEGATE_UNCHANGED if there was nothing to give back.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero.
 */
tidegate_status tidegate_limiter32_refund(struct tidegate_limiter32 *limiter,
                                          uint64_t taken_at_ns,
                                          uint64_t cost);

/**
 * Forgets everything: full again.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero.
 */
tidegate_status tidegate_limiter32_reset(struct tidegate_limiter32 *limiter);

/**
 * Makes an idle state fresh, which changes no answer: TIDEGATE_OK if it was idle, else TIDEGATE_UNCHANGED.
 * For limiters that are left alone so long that the time in their word wraps: in 32 bits
 * after at least 256 times as long as it takes to recover, in 64 after at least 16 times as long.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero.
 */
tidegate_status tidegate_limiter32_sweep(struct tidegate_limiter32 *limiter, uint64_t now_ns);

/**
 * Makes a fresh limiter. `size` is `sizeof *limiter`. Unless it answers TIDEGATE_OK, the memory is as it was.
 *
 * # Safety
 *
 * `limiter` is valid for writing, `config` for reading, and nobody else uses either meanwhile.
 */
tidegate_status tidegate_limiter64_init(struct tidegate_limiter64 *limiter,
                                        size_t size,
                                        const struct tidegate_config *config);

/**
 * May a request of this cost pass now? If so, it is counted; all or nothing. Cost 0 always passes, and changes
 * nothing. `decision` may be null, which saves its divisions.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_limiter64_check_n(struct tidegate_limiter64 *limiter,
                                           uint64_t now_ns,
                                           uint64_t cost,
                                           struct tidegate_decision *decision);

/**
 * What check_n would answer now; changes nothing.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_limiter64_peek_n(const struct tidegate_limiter64 *limiter,
                                          uint64_t now_ns,
                                          uint64_t cost,
                                          struct tidegate_decision *decision);

/**
 * Gives back permits that were taken with the timestamp `taken_at_ns` and not used: never more than was
 * taken, nor above full. TIDEGATE_UNCHANGED if there was nothing to give back.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero.
 */
tidegate_status tidegate_limiter64_refund(struct tidegate_limiter64 *limiter,
                                          uint64_t taken_at_ns,
                                          uint64_t cost);

/**
 * Forgets everything: full again.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero.
 */
tidegate_status tidegate_limiter64_reset(struct tidegate_limiter64 *limiter);

/**
 * Makes an idle state fresh, which changes no answer: TIDEGATE_OK if it was idle, else TIDEGATE_UNCHANGED.
 * For limiters that are left alone so long that the time in their word wraps: in 32 bits
 * after at least 256 times as long as it takes to recover, in 64 after at least 16 times as long.
 *
 * # Safety
 *
 * `limiter` is initialised, or all zero.
 */
tidegate_status tidegate_limiter64_sweep(struct tidegate_limiter64 *limiter, uint64_t now_ns);

/**
 * What a status means, in English, for a log. Any number has a text; it is never null, and need not be freed.
 */
const char *tidegate_status_text(int32_t status);

/**
 * Makes an empty table over lines. `size` is `sizeof *table`, `lines_size` that of all lines in bytes;
 * `on_full` is a tidegate_on_full. Unless it answers TIDEGATE_OK, the memory is as it was.
 *
 * It begins with seeds that everybody knows: see reseed.
 *
 * # Safety
 *
 * `table` and `lines` are valid for writing, `config` for reading, and nobody else uses them meanwhile.
 * `lines` are the table's alone as long as it is used.
 */
tidegate_status tidegate_table32_init(struct tidegate_table32 *table,
                                      size_t size,
                                      struct tidegate_line *lines,
                                      size_t lines_size,
                                      int32_t on_full,
                                      const struct tidegate_config *config);

/**
 * Changes the seeds of the hash. Whoever knows them can make up keys that share a budget or crowd the same
 * lines, so do it before the first decision, with numbers that others cannot guess. What was counted before
 * is lost to its keys.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table32_reseed(struct tidegate_table32 *table, uint64_t seed0, uint64_t seed1);

/**
 * May a request of this key and cost pass now? If so, it is counted; all or nothing. Cost 0 always passes, and
 * changes nothing. `decision` may be null, which saves its divisions.
 *
 * # Safety
 *
 * `table` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_table32_check_n(struct tidegate_table32 *table,
                                         uint64_t key,
                                         uint64_t now_ns,
                                         uint64_t cost,
                                         struct tidegate_decision *decision);

/**
 * What check_n would answer now; changes nothing. A full table is not foreseen.
 *
 * # Safety
 *
 * `table` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_table32_peek_n(const struct tidegate_table32 *table,
                                        uint64_t key,
                                        uint64_t now_ns,
                                        uint64_t cost,
                                        struct tidegate_decision *decision);

/**
 * Gives back permits that a key took with the timestamp `taken_at_ns` and did not use: never more than was
 * taken, nor above full. TIDEGATE_UNCHANGED if there was nothing to give back.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table32_refund(struct tidegate_table32 *table,
                                        uint64_t key,
                                        uint64_t taken_at_ns,
                                        uint64_t cost);

/**
 * Forgets what a key has used.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table32_reset(struct tidegate_table32 *table, uint64_t key);

/**
 * As check_n, of a key of so many bytes; it may be empty, and then null. Bytes are never the same key as a
 * number.
 *
 * # Safety
 *
 * As check_n; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table32_check_n_bytes(struct tidegate_table32 *table,
                                               const uint8_t *key,
                                               size_t key_size,
                                               uint64_t now_ns,
                                               uint64_t cost,
                                               struct tidegate_decision *decision);

/**
 * As peek_n, of a key of so many bytes.
 *
 * # Safety
 *
 * As peek_n; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table32_peek_n_bytes(const struct tidegate_table32 *table,
                                              const uint8_t *key,
                                              size_t key_size,
                                              uint64_t now_ns,
                                              uint64_t cost,
                                              struct tidegate_decision *decision);

/**
 * As refund, of a key of so many bytes.
 *
 * # Safety
 *
 * As refund; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table32_refund_bytes(struct tidegate_table32 *table,
                                              const uint8_t *key,
                                              size_t key_size,
                                              uint64_t taken_at_ns,
                                              uint64_t cost);

/**
 * As reset, of a key of so many bytes.
 *
 * # Safety
 *
 * As reset; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table32_reset_bytes(struct tidegate_table32 *table,
                                             const uint8_t *key,
                                             size_t key_size);

/**
 * Vacates the slots of idle keys, which changes no answer. The table never needs it to make room: it is for
 * keys that are left alone so long that the time in their words wraps. Visits every line.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table32_sweep(struct tidegate_table32 *table, uint64_t now_ns);

/**
 * Forgets every key. Visits every line.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table32_clear(struct tidegate_table32 *table);

/**
 * How many keys have used something that has not come back yet; 0 if there is no table there. Visits every
 * line.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
size_t tidegate_table32_live(const struct tidegate_table32 *table, uint64_t now_ns);

/**
 * Makes an empty table over lines. `size` is `sizeof *table`, `lines_size` that of all lines in bytes;
 * `on_full` is a tidegate_on_full. Unless it answers TIDEGATE_OK, the memory is as it was.
 *
 * It begins with seeds that everybody knows: see reseed.
 *
 * # Safety
 *
 * `table` and `lines` are valid for writing, `config` for reading, and nobody else uses them meanwhile.
 * `lines` are the table's alone as long as it is used.
 */
tidegate_status tidegate_table64_init(struct tidegate_table64 *table,
                                      size_t size,
                                      struct tidegate_line *lines,
                                      size_t lines_size,
                                      int32_t on_full,
                                      const struct tidegate_config *config);

/**
 * Changes the seeds of the hash. Whoever knows them can make up keys that share a budget or crowd the same
 * lines, so do it before the first decision, with numbers that others cannot guess. What was counted before
 * is lost to its keys.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table64_reseed(struct tidegate_table64 *table, uint64_t seed0, uint64_t seed1);

/**
 * May a request of this key and cost pass now? If so, it is counted; all or nothing. Cost 0 always passes, and
 * changes nothing. `decision` may be null, which saves its divisions.
 *
 * # Safety
 *
 * `table` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_table64_check_n(struct tidegate_table64 *table,
                                         uint64_t key,
                                         uint64_t now_ns,
                                         uint64_t cost,
                                         struct tidegate_decision *decision);

/**
 * What check_n would answer now; changes nothing. A full table is not foreseen.
 *
 * # Safety
 *
 * `table` is initialised, or all zero. `decision` is null, or valid for writing.
 */
tidegate_status tidegate_table64_peek_n(const struct tidegate_table64 *table,
                                        uint64_t key,
                                        uint64_t now_ns,
                                        uint64_t cost,
                                        struct tidegate_decision *decision);

/**
 * Gives back permits that a key took with the timestamp `taken_at_ns` and did not use: never more than was
 * taken, nor above full. TIDEGATE_UNCHANGED if there was nothing to give back.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table64_refund(struct tidegate_table64 *table,
                                        uint64_t key,
                                        uint64_t taken_at_ns,
                                        uint64_t cost);

/**
 * Forgets what a key has used.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table64_reset(struct tidegate_table64 *table, uint64_t key);

/**
 * As check_n, of a key of so many bytes; it may be empty, and then null. Bytes are never the same key as a
 * number.
 *
 * # Safety
 *
 * As check_n; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table64_check_n_bytes(struct tidegate_table64 *table,
                                               const uint8_t *key,
                                               size_t key_size,
                                               uint64_t now_ns,
                                               uint64_t cost,
                                               struct tidegate_decision *decision);

/**
 * As peek_n, of a key of so many bytes.
 *
 * # Safety
 *
 * As peek_n; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table64_peek_n_bytes(const struct tidegate_table64 *table,
                                              const uint8_t *key,
                                              size_t key_size,
                                              uint64_t now_ns,
                                              uint64_t cost,
                                              struct tidegate_decision *decision);

/**
 * As refund, of a key of so many bytes.
 *
 * # Safety
 *
 * As refund; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table64_refund_bytes(struct tidegate_table64 *table,
                                              const uint8_t *key,
                                              size_t key_size,
                                              uint64_t taken_at_ns,
                                              uint64_t cost);

/**
 * As reset, of a key of so many bytes.
 *
 * # Safety
 *
 * As reset; and `key_size` bytes of `key` are valid for reading.
 */
tidegate_status tidegate_table64_reset_bytes(struct tidegate_table64 *table,
                                             const uint8_t *key,
                                             size_t key_size);

/**
 * Vacates the slots of idle keys, which changes no answer. The table never needs it to make room: it is for
 * keys that are left alone so long that the time in their words wraps. Visits every line.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table64_sweep(struct tidegate_table64 *table, uint64_t now_ns);

/**
 * Forgets every key. Visits every line.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
tidegate_status tidegate_table64_clear(struct tidegate_table64 *table);

/**
 * How many keys have used something that has not come back yet; 0 if there is no table there. Visits every
 * line.
 *
 * # Safety
 *
 * `table` is initialised, or all zero.
 */
size_t tidegate_table64_live(const struct tidegate_table64 *table, uint64_t now_ns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIDEGATE_H */

#if defined(__cplusplus) && __cplusplus >= 201103L
#define TIDEGATE_ASSERT(truth, text) static_assert(truth, text)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TIDEGATE_ASSERT(truth, text) _Static_assert(truth, text)
#endif

#if defined(TIDEGATE_ASSERT)
TIDEGATE_ASSERT(sizeof(tidegate_limiter32) == TIDEGATE_LIMITER_SIZE, "the size that the library expects");
TIDEGATE_ASSERT(sizeof(tidegate_limiter64) == TIDEGATE_LIMITER_SIZE, "the size that the library expects");
TIDEGATE_ASSERT(sizeof(tidegate_table32) == TIDEGATE_TABLE_SIZE, "the size that the library expects");
TIDEGATE_ASSERT(sizeof(tidegate_table64) == TIDEGATE_TABLE_SIZE, "the size that the library expects");
TIDEGATE_ASSERT(sizeof(tidegate_line) == TIDEGATE_LINE_SIZE, "the size that the library expects");
TIDEGATE_ASSERT(sizeof(tidegate_config) == 32 && sizeof(tidegate_decision) == 32, "no padding but after `algorithm`");
#undef TIDEGATE_ASSERT
#endif
