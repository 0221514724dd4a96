#!/usr/bin/perl
# A script in a folder of a folder: that folder is where it runs.
use strict;
use warnings;
use Cwd;

print "Content-Type: text/plain\n\n";
print 'runs in ', getcwd() =~ s{.*/scripts}{}r, "\n";
print 'finds ', join(' ', sort grep { !/^\./ } glob '*'), "\n";
open my $file, '<', 'beside.txt' or die;
print <$file>;
print "name $ENV{SCRIPT_NAME}\n";
