#!/usr/bin/perl
# What a script sees of itself, of its process and of its interpreter.
use strict;
use warnings;

print "arguments: ", join("|", map { "<$_>" } @ARGV), "\n";
print "$0 ", __FILE__, " ", __LINE__, " ", __PACKAGE__, "\n";
print "caller: ", scalar(() = caller), "\n";
print "process: pid=$$ ", getppid, "\n";
chomp(my $seen = `echo \$PPID`);
print "its child sees: pid=$seen\n";
print "begun: ", (abs(time - $^T) < 5 ? "now" : "at $^T"), "\n";
print "state: ", join("|", $^S, $@, $! + 0, $? + 0, $|, $., $^W, $^P, $^X), "\n";
print "evals: ", eval("__FILE__"), " ", eval("__FILE__"), "\n";
print "signals: ", join(",", grep { defined $SIG{$_} } sort keys %SIG), "\n";
print "modules: ", join(" ", map { "$_=$INC{$_}" } sort keys %INC), "\n";
print "paths: @INC\n";
for my $file (qw(comm cmdline environ)) {
    open my $handle, "<", "/proc/$$/$file" or die "$file: $!";
    print "$file: ", join("|", map { tr/\0/|/r } <$handle>), "\n";
}
opendir my $directory, "/proc/$$/fd" or die $!;
my @open = sort { $a <=> $b } grep { /^\d+$/ && (readlink("/proc/$$/fd/$_") // "") !~ m{^/proc/} } readdir $directory;
print "descriptors: ", join(" ", grep { (readlink("/proc/$$/fd/$_") // "") ne $0 } @open), "\n";
print "executable: ", readlink("/proc/$$/exe"), "\n";
print "directory: ", readlink("/proc/$$/cwd"), "\n";
printf "mask: %o\n", umask;
{
    local $0 = "another name";
    open my $handle, "<", "/proc/$$/comm" or die $!;
    print "renamed: ", <$handle>;
}
