#!/usr/bin/perl
# A form of CGI.pm, with what was filled in.
use strict;
use warnings;
use CGI;

my $query = CGI->new;
print $query->header(-type => "text/html", -charset => "utf-8");
print $query->start_html("A form"), $query->h1("Hello, ", CGI::escapeHTML($query->param("name") // "nobody"));
print $query->start_form(-action => "/form"), $query->textfield("name"), $query->submit, $query->end_form;
print "<ul>", map({ "<li>$_ = " . CGI::escapeHTML(join ",", $query->multi_param($_)) . "</li>" } sort $query->param), "</ul>";
print "<p>", join(" ", $query->request_method, $query->remote_addr, $query->self_url, $query->user_agent // "none"), "</p>";
print $query->end_html, "\n";
