#!/usr/bin/perl
# A script whose name says that it writes the whole reply itself, status line and all (RFC 3875, 5).
use strict;
use warnings;

my $body = "nobody parsed this header\n";
print "HTTP/1.1 203 As I Say\r\nContent-Type: text/plain\r\nX-Own: yes\r\nContent-Length: ", length $body, "\r\n",
    "Connection: close\r\n\r\n", $body;
