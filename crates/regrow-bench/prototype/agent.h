/* What the parts of the prototype share: the page of orders, and system calls without the C library.
 *
 * The keeper runs in the memory that it puts back, so it calls nothing of the C library once it has left main. */
#ifndef REGROW_PROTOTYPE_AGENT_H
#define REGROW_PROTOTYPE_AGENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* The page of orders, which the caller and the keeper map. `OrderSheet` in src/system/native.rs has the same fields. */
struct orders {
    _Atomic uint32_t go;    /* the caller: 1, run; the task sets it to 0 */
    _Atomic uint32_t armed; /* the task: 1, it waits for `go`; the caller sets it to 0 */
    _Atomic uint32_t reset; /* the caller: 1, the run has ended; the keeper sets it to 0 */
    _Atomic int32_t pid;    /* the armed task, from its clone on; the caller sets it to 0 when it has waited for it */
    _Atomic uint64_t main_ns; /* when the run was entered, in nanoseconds of the monotonic clock */
};
_Static_assert(sizeof(struct orders) == 24, "the caller has the same fields");

/* How the keeper ends when it cannot go on. */
#define CANNOT_GO_ON 125

static inline long call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define CALL(number, a, b, c, d) call6(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* Ends the process: the caller sees that it has no keeper. */
static inline void give_up(void)
{
    for (;;)
        CALL(SYS_exit_group, CANNOT_GO_ON, 0, 0, 0);
}

/* Makes the memory of the snapshot. Until the snapshot is taken, it may use the C library. */
void memory_prepare(void);
/* Takes the snapshot. Everything that is to be kept out of it is mapped as shared. */
void memory_take(void);
/* Puts the memory back as it was at the snapshot. */
void memory_put_back(void);
/* Closes what the snapshot has open, in a task that has descriptors of its own. */
void memory_close(void);

#endif
