#!/usr/bin/perl
# Good output, then an end with a failure: the reply is what was written.
use strict;
use warnings;

print "Content-Type: text/plain\n\nall is said\n";
die "and then it dies\n" if $ENV{QUERY_STRING} eq 'die';
exit 42;
