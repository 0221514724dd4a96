#!/usr/bin/perl
# A script that reads its own end, and a module from its own folder.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use Own::Words;

print "Content-Type: text/plain\n\n";
print 'greeting: ', Own::Words::greeting('world'), "\n";
while (my $line = <DATA>) {
    chomp $line;
    print "$.: $line\n";
}
my ($file) = $INC{'Own/Words.pm'} =~ m{([^/]+/[^/]+)\z};
print 'module: ', $file, "\n";
__DATA__
one
two
and three
