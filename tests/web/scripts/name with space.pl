#!/usr/bin/perl
# A script whose name has spaces in it.
use strict;
use warnings;

print "Content-Type: text/plain\n\n";
print 'file ', $0 =~ s{.*/}{}r, "\nname $ENV{SCRIPT_NAME}\ninfo $ENV{PATH_INFO}\n";
