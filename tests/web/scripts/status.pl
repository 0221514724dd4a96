#!/usr/bin/perl
# Answers with the status that the path says, with a reason of its own and, unless it is 204, a body.
use strict;
use warnings;

my ($status, $reason) = $ENV{PATH_INFO} =~ m{\A/([0-9]{3})(?:/(.*))?\z} or die 'no status';
print "Status: $status", defined $reason ? " $reason" : '', "\r\n";
if ($status == 204) {
    print "X-Why: nothing to say\r\n\r\n";
} else {
    print "Content-Type: text/plain\r\n\r\nThe status is $status.\n";
}
