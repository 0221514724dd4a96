#ifndef TALLY_H
#define TALLY_H
#define LIMIT 20
unsigned long tally(unsigned n);
#endif
