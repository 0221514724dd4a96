/* Leaves a System V segment, attached in the place of its own memory. */
#include "hostile.h"
#include <sys/shm.h>

static void strike(void)
{
    int id = shmget(IPC_PRIVATE, 4 * PAGE, 0600 | IPC_CREAT);
    if (id < 0)
        LACK("shmget");
    MUST(shmat(id, (void *)zeroes, SHM_REMAP) == (void *)-1 ? -1 : 0);
    zeroes[0] = 0x57414c45;
    shmctl(id, IPC_RMID, NULL);
}
