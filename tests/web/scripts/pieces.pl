#!/usr/bin/perl
# Output that comes slowly, in pieces, with the header itself in two.
use strict;
use warnings;
use Time::HiRes 'sleep';

$| = 1;
print 'Content-Ty';
sleep 0.05;
print "pe: text/plain\nX-Pie";
sleep 0.05;
print "ce: two\n";
sleep 0.05;
print "\n";
for my $piece (1 .. 5) {
    sleep 0.05;
    print "piece $piece of 5", $piece % 2 ? "\n" : '; ';
}
