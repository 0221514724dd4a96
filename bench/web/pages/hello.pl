#!/usr/bin/perl
# A small CGI script: it reads a parameter, and prints a header and a line.
use strict;
use warnings;
use CGI;

my $cgi  = CGI->new;
my $name = $cgi->param('name') // 'nobody';
print $cgi->header('text/plain'), "Hello, $name.\n";
