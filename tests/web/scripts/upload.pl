#!/usr/bin/perl
# An upload of files as CGI.pm reads it: each file's name, type, size and digest, and the fields beside them.
use strict;
use warnings;
use CGI;
use Digest::MD5;

my $form = CGI->new;
print $form->header('text/plain');
for my $name (sort $form->multi_param) {
    my @files = $form->upload($name);
    print "$name=", join(',', $form->multi_param($name)), "\n" unless @files;
    for my $file (@files) {
        binmode $file;
        my $content = do { local $/; <$file> };
        my $type = $form->uploadInfo($file)->{'Content-Type'};
        printf "%s: %s, %s, %d bytes, %s\n", $name, "$file", $type, length $content, Digest::MD5::md5_hex($content);
    }
}
