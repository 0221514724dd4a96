#!/usr/bin/perl
# A form as CGI.pm reads it, from a query or from a body, and the page that CGI.pm makes of it.
use strict;
use warnings;
use CGI;

my $form = CGI->new;
print $form->header(-type => 'text/html', -charset => 'utf-8', -X_Fields => scalar(() = $form->multi_param));
print $form->start_html(-title => 'A form', -lang => 'en');
print $form->h1('What came by ' . $form->request_method), "\n";
for my $name (sort $form->multi_param) {
    print $form->p($form->escapeHTML($name), '=', map { $form->escapeHTML("[$_]") } $form->multi_param($name)), "\n";
}
print $form->p('self', $form->script_name), "\n";
print $form->start_form(-action => $form->script_name), $form->textfield(-name => 'name'), $form->submit, $form->end_form;
print $form->end_html, "\n";
