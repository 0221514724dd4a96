#!/usr/bin/perl
# A process that serves a request has served none before: what a program leaves behind in itself is never there.
use strict;
use warnings;

our ($count, %seen, @list);
$count++;
push @list, $count;
my $state = do { use feature 'state'; state $calls = 0; ++$calls };
print "Content-Type: text/plain\n\n";
print "count $count, list @list, state $state, seen ", scalar keys %seen, "\n";
print 'name ', $0 =~ s{.*/}{}r, ', caller ', defined caller() ? 'some' : 'none', ', line ', __LINE__, "\n";
print 'variable ', exists $ENV{REGROW_LEFT} ? 'left behind' : 'not there', ', directory ', -e 'left' ? 'x' : 'clean', "\n";
print 'input at ', tell(STDIN) <= 0 ? 'start' : 'somewhere', ', umask ', defined umask() ? 'there' : 'none', "\n";
print 'handlers ', join(',', grep { defined $SIG{$_} && $SIG{$_} ne 'IGNORE' && $SIG{$_} ne '' } sort keys %SIG), "\n";
print 'separator ', defined $, ? 'set' : 'unset', ', children ', wait(), "\n";
$seen{$count} = $ENV{REGROW_LEFT} = 1;
$SIG{ALRM} = sub { };
umask 0777;
