#!/usr/bin/perl -w
# Blocks in their order, a warning of the first line's option, a status that is changed at the end.
our @order;
BEGIN { push @order, "begin " . ${^GLOBAL_PHASE} }
UNITCHECK { push @order, "unitcheck" }
CHECK { push @order, "check " . ${^GLOBAL_PHASE} }
INIT { push @order, "init " . ${^GLOBAL_PHASE} }
END { print "end ", ${^GLOBAL_PHASE}, " $?\n"; $? = $ARGV[0] || 0 }
END { print "earlier end\n" }
push @order, "run " . ${^GLOBAL_PHASE};
print "$_\n" for @order;
my $undefined;
print "text $undefined\n";
print "warnings $^W\n";
{
    package Object;
    sub new { bless {} }
    sub DESTROY { print "destroyed ", ${^GLOBAL_PHASE}, "\n" }
}
our $global = Object->new;
my $lexical = Object->new;
