#include "tally.h"

/* The sum of the squares of 1 to n. */
unsigned long tally(unsigned n)
{
	unsigned long sum = 0;
	for (unsigned i = 1; i <= n; i++)
		sum += (unsigned long)i * i;
	return sum;
}
