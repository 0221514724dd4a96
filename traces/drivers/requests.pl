#!/usr/bin/env perl
# Asks a web server for pages, in one process: one at a time with pauses, then ten at a time, as visitors come.
# Usage: requests.pl PORT REQUESTS
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(sleep);

my ($port, $requests) = @ARGV;
# The same visitors every time.
srand 20040401;

# What is asked for, and how often in a hundred.
my @pages = ([45, '/counter.pl'], [65, '/guests.pl?%d'], [90, '/page.sh'], [100, '/search.sh?%d']);

sub page {
    my $number = rand 100;
    my ($page) = grep { $number < $_->[0] } @pages;
    return $page->[1] =~ s/%d/int rand 20/er;
}

sub ask {
    for (1 .. 200) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
        if ($socket) {
            print $socket 'GET ' . page() . " HTTP/1.0\r\nHost: localhost\r\n\r\n";
            return $socket;
        }
        sleep 0.05;
    }
    die "the server does not answer\n";
}

sub answer {
    my $socket = shift;
    my $text = join '', <$socket>;
    die "no page: $text\n" unless $text =~ m{^HTTP/1\.\d 200 };
}

my $asked = 0;
while ($asked < $requests) {
    # A burst of ten, then twenty visitors who come by themselves.
    answer($_) for map { ask() } 1 .. 10;
    for (1 .. 20) {
        answer(ask());
        sleep rand 0.03;
    }
    $asked += 30;
}
