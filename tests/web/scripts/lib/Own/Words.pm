# A module that a script of the same folder loads.
package Own::Words;
use strict;
use warnings;

sub greeting {
    my ($whom) = @_;
    return "hello, $whom";
}

1;
