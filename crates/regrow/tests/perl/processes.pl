#!/usr/bin/perl
# Processes that a script starts, signals that it gets, and what comes of them.
use strict;
use warnings;

my $own = $$;
my $child = fork // die $!;
unless ($child) {
    print "child of ", (getppid == $own ? "its parent" : "another"), "\n";
    exit 5;
}
print "waited for: ", (waitpid($child, 0) == $child ? "it" : "another"), " ", $? >> 8, "\n";
print "system: ", system("exit 3") >> 8, "\n";
print "signalled: ", system('kill -9 $$') & 127, "\n";
print "missing: ", system { "/nonexistent/program" } ("x"), " ", $! + 0, "\n";
print "list: ", join("|", `printf 'a\\nb\\n'`);
open my $from, "-|", "cat", "/proc/sys/kernel/ostype" or die $!;
print "from: ", <$from>;
close $from;
open my $to, "|-", "tr a-z A-Z" or die $!;
print $to "to a pipe\n";
close $to;
print "closed: $?\n";
my $count = 0;
local $SIG{USR1} = sub { $count++ };
kill USR1 => $$ for 1 .. 3;
print "caught: $count\n";
local $SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; sleep 10; };
print "after: $@";
local $SIG{CHLD} = sub { 1 while waitpid(-1, 1) > 0; $count = -1 };
unless (my $other = fork) { exit 0 }
for (1 .. 200) { last if $count < 0; select undef, undef, undef, 0.05 }
print "reaped: $count\n";
# Floating-point exceptions are ignored by the interpreter.
kill FPE => $$;
print "zombies: ", (wait == -1 ? "none" : "some"), "\n";
$| = 1;
exec "sh", "-c", 'echo executed $0; exit 9', "argument";
