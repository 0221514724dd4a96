#!/usr/bin/perl
# The environment as a script sees it, changes it, and passes it on.
print map { "$_=$ENV{$_}\n" } sort keys %ENV;
print "passed on:\n", `env`;
$ENV{CHANGED} = "by the script";
delete $ENV{HOME};
{
    local $ENV{PATH} = "/bin:/usr/bin";
    print "local:\n", `env`;
}
print "changed:\n", `env`;
print "exists\n" if exists $ENV{EMPTY} && !length $ENV{EMPTY};
%ENV = (PATH => "/usr/bin", ONLY => "this");
print "cleared:\n", `env | sort`;
