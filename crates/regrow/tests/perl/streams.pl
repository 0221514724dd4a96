#!/usr/bin/perl
# The standard streams: lines, layers, places in files, and what a child leaves of them.
use strict;
use warnings;

print "at ", join(" ", map { tell $_ } *STDIN, *STDOUT), "\n";
my $first = <STDIN>;
print "first: $first";
print "line $. of input, at ", tell(STDIN), "\n";
# The child goes on reading where the script is: the stream gives back what it has read ahead.
system("head -n 1 | tr a-z A-Z") if -f STDIN;
binmode STDOUT, ":encoding(UTF-8)";
print "snowman \x{2603}\n";
binmode STDOUT;
print "bytes \xe9\xff\n";
{
    local $| = 1;
    print "not buffered ";
    system("echo child");
}
print "buffered ";
system("echo child");
print STDERR "to standard error\n";
printf STDERR "%s\n", join ",", PerlIO::get_layers(*STDOUT);
local $/;
my $rest = <STDIN>;
print "rest: ", length $rest, " bytes\n";
print eof(STDIN) ? "end\n" : "more\n";
open STDOUT, ">&", \*STDERR or die $!;
print "redirected\n";
close STDIN;
print "closed\n" unless defined fileno STDIN;
