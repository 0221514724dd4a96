#!/usr/bin/perl
# Standard input and output are bytes: what comes goes out turned around byte by byte, behind all bytes there are.
use strict;
use warnings;

binmode STDIN;
binmode STDOUT;
my $body = do { local $/; <STDIN> } // '';
print "Content-Type: application/octet-stream\n\n", pack('C*', 0 .. 255), scalar reverse $body;
