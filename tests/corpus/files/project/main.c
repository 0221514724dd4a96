#include <stdio.h>
#include <string.h>
#include "tally.h"

static const char *greeting = "squares";

int main(int argc, char **argv)
{
	if (argc > 1 && strlen(argv[1]) > 0)
		greeting = argv[1];
	for (unsigned n = 0; n <= LIMIT; n += 5)
		printf("%s %u: %lu\n", greeting, n, tally(n));
	return argc > 2;
}
