/* Has the kernel write into constants and data when the run ends: its thread word and its robust list. */
#include "hostile.h"

static void strike(void)
{
    static struct {
        void *next;
        long offset;
        void *pending;
    } list;
    static struct {
        void *next;
        uint32_t word;
    } lock;
    lock.word = (uint32_t)getpid();
    lock.next = &list;
    list.next = &lock;
    list.offset = (long)((char *)&data[8] - (char *)&lock);
    data[8] = (uint32_t)getpid();
    syscall(SYS_set_robust_list, &list, 24);
    data[16] = 0x57414c45;
    syscall(SYS_set_tid_address, &data[16]);
    of_thread = 0x57414c45;
    of_thread_zero = 1;
}
