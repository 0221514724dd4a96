#!/usr/bin/perl -CSA
# Characters beyond ASCII, out of the script and of the request, through layers.
use strict;
use warnings;
use utf8;
use Encode 'decode';

my $given = $ENV{QUERY_STRING} =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ger;
my $text = decode('UTF-8', $given);
print "Content-Type: text/plain; charset=utf-8\n\n";
print "größe → 漢字 ☃\n";
printf "%s has %d characters, upper case %s\n", $text, length $text, uc $text;
print "sorted: @{[sort { lc $a cmp lc $b } qw(ü a Z é)]}\n";
