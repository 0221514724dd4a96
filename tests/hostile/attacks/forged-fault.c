/* Writes the number of a fault point into the control area, and goes on with it when the run is over. */
#define LINGERS
#include "hostile.h"

static volatile uint32_t *word;


static void linger(void)
{
    if (word != NULL)
        *word = 5;
}

static void strike(void)
{
    word = control_word("fault");
    linger();
}
