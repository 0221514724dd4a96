package Stand;
use strict;
use warnings;
use Carp qw(croak);

sub new { my ($class, %trees) = @_; return bless {trees => {%trees}}, $class }
sub total { my $self = shift; my $sum = 0; $sum += $_ for values %{$self->{trees}}; return $sum }
sub of { my ($self, $kind) = @_; return $self->{trees}{$kind} // croak "no $kind in this stand" }
sub DESTROY { print "stand of ", $_[0]->total, " felled\n" }
1;
