#!/usr/bin/perl
# What runs behind the last line of a program: END blocks in their order, a destructor, and buffers that are written out last.
use strict;
use warnings;

package Noted {
    sub new { bless { name => $_[1] }, $_[0] }
    sub DESTROY { print "destroyed $_[0]{name}\n" }
}

our $kept = Noted->new('at the end of all');
BEGIN { print "Content-Type: text/plain\n\nBEGIN\n" }
INIT { print "INIT\n" }
END { print "END that was compiled first\n" }
END { print "END that was compiled last\n" }

{
    my $short = Noted->new('at the end of its block');
}
print "body\n";
exit 0;
