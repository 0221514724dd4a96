#!/usr/bin/perl
# Reads what follows its own end.
use strict;
use warnings;
my ($lines, $sum) = (0, 0);
while (my $line = <DATA>) {
    $lines++;
    $sum += $1 if $line =~ /^number (\d+)$/;
    if ($lines == 10) {
        print "line $.\n";
        # A child shares the descriptor and its place.
        system("true");
    }
}
print "$lines lines, sum $sum\n";
seek DATA, 0, 0;
print "first: ", scalar(<DATA>);
__END__
