#!/usr/bin/perl
# Prints the parameters of a GET request's query, decoded by hand, and what else the request's line says.
use strict;
use warnings;

binmode STDOUT;
print "Content-Type: text/plain; charset=utf-8\n\n";
print "method=$ENV{REQUEST_METHOD}\n";
print "raw=$ENV{QUERY_STRING}\n";
for my $pair (split /[&;]/, $ENV{QUERY_STRING}) {
    my ($name, $value) = map { tr/+/ /; s/%([0-9A-Fa-f]{2})/chr hex $1/ger } split /=/, $pair, 2;
    printf "%s -> %s\n", $name, defined $value ? "[$value]" : "nothing";
}
