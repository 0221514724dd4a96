#!/usr/bin/perl
# Reads the cookies of a request and sets three.
use strict;
use warnings;
use CGI;
use CGI::Cookie;

my %had = CGI::Cookie->fetch;
my $page = CGI->new;
my @cookies = (
    CGI::Cookie->new(-name => 'session', -value => 'a b;c', -path => '/', -httponly => 1),
    CGI::Cookie->new(-name => 'count', -value => 1 + ($had{count} ? $had{count}->value : 0), -path => '/'),
    CGI::Cookie->new(-name => 'gone', -value => '', -path => '/', -samesite => 'Lax'),
);
print $page->header(-type => 'text/plain', -cookie => \@cookies);
print "$_=", join('&', $had{$_}->value), "\n" for sort keys %had;
