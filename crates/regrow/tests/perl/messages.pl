#!/usr/bin/perl
# What is said by warnings, errors and the end.
use strict;
use warnings;
use Carp qw(carp confess);

sub deep { confess "confessed" }
warn "warned";
warn "with a line\n";
carp "carped";
eval { die { code => 7 } };
print "code $@->{code}\n";
eval { deep(1, "two") };
print "confessed: $@";
eval "1 +* 2";
print "syntax: $@";
eval "\n\ndie 'in text'";
print "text: $@";
local $SIG{__WARN__} = sub { print "caught: $_[0]" };
warn "for the handler";
my $text = "abc";
print $text + 1, "\n";
open my $missing, "<", "/nonexistent/file" or print "error: $! ", $! + 0, "\n";
my $how = shift @ARGV // "";
exit $1 if $how =~ /^exit (\d+)$/;
kill $1 => $$ if $how =~ /^signal (\w+)$/;
sleep 5 if $how =~ /^signal/;
$! = $1 if $how =~ /^error (\d+)$/;
{ package Failure; use overload '""' => sub { "a failure of $_[0]{of}\n" } }
die $how eq "object" ? bless({ of => "its own" }, "Failure") : "died of $how";
