#!/usr/bin/perl
# Good output with much noise beside it on standard error, before, within and after.
use strict;
use warnings;

print STDERR "noise: before the header\n";
$| = 1;
print "Content-Type: text/plain\n\n";
for my $line (1 .. 20) {
    print "line $line\n";
    warn "noise: line $line ", 'x' x 200, "\n";
}
my $nothing;
print "nothing is [", $nothing // "", "]\n";
print STDERR "noise: no line end behind this";
