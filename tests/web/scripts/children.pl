#!/usr/bin/perl
# Starts others and waits for them: a pipe from a command, a child that writes before its parent does, and `system`.
use strict;
use warnings;

$| = 1;
print "Content-Type: text/plain\n\n";
open my $command, '-|', 'printf', '%s\n', 'from a pipe' or die;
print <$command>;
close $command;
print 'shell says ', `echo \$((6 * 7))`;
my $child = fork // die;
if (!$child) {
    print "the child\n";
    exit 3;
}
waitpid $child, 0;
print 'its end ', $? >> 8, "\n";
system 'sh', '-c', 'echo "by system"; exit 5';
print 'its end ', $? >> 8, "\n";
