#!/usr/bin/perl -w
use strict;
my %count;
print "$0: @ARGV\n";
$count{length $_}++ for @ARGV;
printf "%d letters: %d\n", $_, $count{$_} for sort { $a <=> $b } keys %count;
exit(@ARGV > 3);
