/* Floating point and vector state, and the flags: rounding, exceptions, precision, and no value of
 * an earlier run in any register. The run ends with everything set, by a raw system call. */
#define VICTIM_END
#include "maps.h"
#include <fenv.h>
#include <immintrin.h>

#define PATTERN 0xa7a7a7a7a7a7a7a7

static struct {
    unsigned short control, pad, status, pad2, tag, pad3[9];
} x87;
static unsigned long flags;
static unsigned int mxcsr;
static uint64_t vectors[16][4] __attribute__((aligned(32)));
static volatile uint64_t pattern[4] __attribute__((aligned(32)));

#define EACH(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15)
#define STORE_YMM(n) __asm__ volatile("vmovdqu %%ymm" #n ", %0" : "=m"(vectors[n]));
#define STORE_XMM(n) __asm__ volatile("movdqu %%xmm" #n ", %0" : "=m"(vectors[n]));
#define LOAD_YMM(n) __asm__ volatile("vmovdqu %0, %%ymm" #n : : "m"(pattern));
#define LOAD_XMM(n) __asm__ volatile("movdqu %0, %%xmm" #n : : "m"(pattern));

__attribute__((target("avx"))) static void store_avx(void) { EACH(STORE_YMM) }
__attribute__((target("avx"))) static void load_avx(void) { EACH(LOAD_YMM) }
static void store_sse(void) { EACH(STORE_XMM) }
static void load_sse(void) { EACH(LOAD_XMM) }

static void check(void)
{
    __asm__ volatile("fnstenv %0; fldenv %0; stmxcsr %1" : "+m"(x87), "=m"(mxcsr));
    __asm__ volatile("pushfq; popq %0" : "=r"(flags));
    __builtin_cpu_supports("avx") ? store_avx() : store_sse();
    same("MXCSR", mxcsr, 0x1f80);
    same("the x87 control word", x87.control, 0x37f);
    same("the x87 status word", x87.status, 0);
    same("the x87 tags (all empty)", x87.tag, 0xffff);
    same("the rounding mode", fegetround(), FE_TONEAREST);
    same("the raised exceptions", fetestexcept(FE_ALL_EXCEPT), 0);
    same("the trapped exceptions", fegetexcept(), 0);
    same("the direction flag", (long long)(flags & 0x400), 0);
    same("the alignment flag", (long long)(flags & 0x40000), 0);
    same("the ID and trap flags", (long long)(flags & 0x200100), 0);
    for (int i = 0; i < 16; i++)
        for (int word = 0; word < 4; word++)
            if (vectors[i][word] == PATTERN)
                fail("vector register %d holds an earlier run's value", i);
    volatile double tiny = 1e-310, third = 1.0 / 3, zero = 0;
    if (tiny / 2 == 0)
        fail("denormal numbers are flushed to zero");
    if (third * 3 != 1.0)
        fail("a third times three is not one");
    if (1 / zero < 1e308)
        fail("one by zero is not infinite");
    volatile long double precise = 1.0L;
    if (precise + 0x1p-63L == precise)
        fail("x87 computes with less than its full precision");
    feclearexcept(FE_ALL_EXCEPT);
}

static void dirty(void)
{
    for (int i = 0; i < 4; i++)
        pattern[i] = PATTERN;
    fesetround(FE_UPWARD);
    _mm_setcsr(_mm_getcsr() | 0x8040 | 0x3f); /* flush to zero, denormals are zero, all raised */
    unsigned short control = 0x0c7f;          /* single precision, round down */
    __asm__ volatile("fldcw %0; fld1; fldpi; fldl2e" : : "m"(control));
    __builtin_cpu_supports("avx") ? load_avx() : load_sse();
}

static void end(void)
{
    __asm__ volatile("pushfq; orq $0x240400, (%%rsp); popfq; syscall"
                     : : "a"(SYS_exit_group), "D"(0) : "memory");
}
