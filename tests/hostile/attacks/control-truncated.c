/* Cuts the file of the control area short, through /proc/self/map_files: whoever reads it gets SIGBUS. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    char path[80];
    if (!find_area("memfd:regrow-control", 0, &area))
        return;
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", area.low, area.high);
    int file = open(path, O_RDWR);
    if (file < 0)
        LACK(path);
    if (ftruncate(file, 0) != 0)
        fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SEAL);
}
