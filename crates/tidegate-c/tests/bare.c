/* The same checks on a Cortex-M3 without an operating system; answers over semihosting. */
#include "semantics.h"

#include <stddef.h>
#include <stdint.h>

extern uint32_t data_begin, data_end, data_source, bss_begin, bss_end;

/* An address, which the linker script sets. */
extern void stack_top(void);

static int failures;

static int semihosting(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void write0(const char *text)
{
    semihosting(0x04, text);
}

static void write_number(unsigned number)
{
    char digits[11];
    char *at = digits + sizeof digits - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    write0(at);
}

static void leave(int ok)
{
    /* SYS_EXIT, ADP_Stopped_ApplicationExit or ADP_Stopped_RunTimeErrorUnknown */
    semihosting(0x18, (const void *)(uintptr_t)(ok ? 0x20026 : 0x20023));
    for (;;) {
    }
}

static void failed(const char *file, int line, const char *what)
{
    failures += 1;
    write0(file);
    write0(":");
    write_number((unsigned)line);
    write0(": not so: ");
    write0(what);
    write0("\n");
}

void start(void)
{
    unsigned checks;
    uint32_t *from = &data_source;
    for (uint32_t *to = &data_begin; to < &data_end; to++)
        *to = *from++;
    for (uint32_t *to = &bss_begin; to < &bss_end; to++)
        *to = 0;

    checks = semantics(failed);
    write_number(checks);
    write0(" checks, ");
    write_number((unsigned)failures);
    write0(" failures\n");
    leave(failures == 0 && checks > 0);
}

static void fault(void)
{
    write0("fault\n");
    leave(0);
}

__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    stack_top, start, fault, fault, fault, fault, fault,
};
