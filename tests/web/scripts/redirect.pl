#!/usr/bin/perl
# The three ways to send a client elsewhere (RFC 3875, 6.2.2 to 6.2.4); the query says which.
use strict;
use warnings;

# A body that nobody reads is trouble for Apache.
1 while read STDIN, my $body, 65536;
my %replies = (
    client => "Location: http://www.example.org/there?a=1&b=2\n\n",
    document => "Status: 301 Moved Permanently\nLocation: http://www.example.org/there\n"
        . "Content-Type: text/html\n\n<p>There.</p>\n",
    other => "Status: 303 See Other\nLocation: http://www.example.org/done\nContent-Type: text/plain\n\nDone.\n",
    local => "Location: /query.pl?from=local&a=%20b\n\n",
    info => "Location: /pathinfo.py/from/local?x=1\n\n",
    missing => "Location: /there/is/none.pl\n\n",
);
print $replies{ $ENV{QUERY_STRING} } // "Status: 400\nContent-Type: text/plain\n\nwhich?\n";
