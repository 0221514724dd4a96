# The front end for Perl: an interpreter that has loaded modules stops itself, and every run continues from there.
#
# Perl is given this by `-M`, so it runs when the interpreter has opened its script and has read none of it: what follows is the script as the
# main program that it is, with its `__END__`, its INIT and END blocks, its line numbers and no caller. What a front end is told and
# what it tells is the page `docs/warm.md`.
#
#     prepare: modules (and, where it is wanted, the script is compiled) -- report -- SIGSTOP -- wake: order, %ENV, @ARGV -- script
#
# All stands in one line when Perl reads it, since the script's first line is its first: comments have lines of their own, and a
# line ends where a space may stand. Nothing here leaves a name behind; an `eval` of a text would be counted.
#
# Before this stand `my ($skip, $compile, @modules)`: how many words of the run's argument vector come before `@ARGV`, whether
# the script is to be compiled before the stop, and what to load; a name with `?` behind it need not be there.

# System calls by their numbers: the module POSIX is large. (x86-64)
my ($READ, $WRITE, $OPEN, $CLOSE, $LSEEK, $DUP3) = (0, 1, 2, 3, 8, 292);
my $CLOEXEC = 0x80000;
my $fd = 63;
my $script = "$0\0";
my $piece = "\0" x 8192;

my $report = sub {
    my $record = "$_[0]\0";
    syscall($WRITE, $fd, $record, length $record);
};
my $refuse = sub {
    $report->("refuse $_[0]");
    exit 1;
};

# Who asks for a variable is noted: its value belongs to the image. What is changed is changed again in every run.
delete $ENV{REGROW_WARM};
my (%asked, %changed);
my %given = my %now = %ENV;
*Regrow::Noted::TIEHASH = sub { bless [] };
*Regrow::Noted::FETCH = sub { $asked{$_[1]} = 1; $now{$_[1]} };
*Regrow::Noted::EXISTS = sub { $asked{$_[1]} = 1; exists $now{$_[1]} };
*Regrow::Noted::STORE = sub { $now{$_[1]} = $_[2] };
*Regrow::Noted::DELETE = sub { delete $now{$_[1]} };
*Regrow::Noted::CLEAR = sub { %now = () };
*Regrow::Noted::FIRSTKEY = sub { $asked{"*"} = 1; keys %now; each %now };
*Regrow::Noted::NEXTKEY = sub { each %now };
*Regrow::Noted::SCALAR = sub { $asked{"*"} = 1; scalar %now };
tie %ENV, "Regrow::Noted";
my $end_of_notes = sub {
    untie %ENV;
    delete $main::{"Regrow::"};
    for my $name (keys %given) { $changed{$name} = undef unless exists $now{$name} }
    for my $name (keys %now) {
        $changed{$name} = $now{$name} unless exists $given{$name} && $given{$name} eq $now{$name};
    }
    # What a request says is another in every run.
    my @of_request = grep { $compile && /^(?:AUTH_TYPE|CONTENT_|HTTP_|PATH_INFO|PATH_TRANSLATED|QUERY_STRING|REMOTE_|REQUEST_)/ } sort keys %asked;
    $refuse->("the script reads $of_request[0] while it is compiled") if @of_request;
    $report->("env $_") for keys %asked;
};

for my $module (@modules) {
    my $optional = $module =~ s/\?\z//;
    (my $file = "$module.pm") =~ s{::}{/}g;
    next if eval { local $SIG{__DIE__}; require $file };
    my ($why) = split /\n/, $@;
    next if $optional && $why =~ /^Can't locate \Q$file\E in /;
    $refuse->("$module cannot be loaded: $why");
}

# The descriptor that the script is read from is not a run's: which one it is, and how far it was read.
my %open;
my $close = sub {
    for my $number (@_) {
        my $offset = syscall($LSEEK, $number, 0, 1);
        $open{$number} = $offset;
        syscall($CLOSE, $number);
    }
};
my $identity = sub { join ":", (stat $_[0])[0, 1] };
my $reopen = sub {
    for my $number (keys %open) {
        my $at = syscall($OPEN, $script, $CLOEXEC);
        return 0 if $at < 0;
        syscall($LSEEK, $at, $open{$number}, 0) if $open{$number};
        next if $at == $number;
        syscall($DUP3, $at, $number, $CLOEXEC);
        syscall($CLOSE, $at);
    }
    1;
};

my $stop = sub {
    $end_of_notes->();
    if ($compile) {
        # What follows `__END__` may still be to be read. Whatever else is open is seen, and refused.
        my $data = $main::{DATA};
        my $number = $data ? fileno $data : undef;
        $close->($number) if defined $number;
    } else {
        my $own = $identity->($0);
        $close->(grep { $identity->("/proc/self/fd/$_") eq $own } 3 .. 9);
    }
    $@ = "";
    kill STOP => $$;

    # Every run begins here.
    my $order = "";
    while ((my $read = syscall($READ, $fd, $piece, 8192)) > 0) { $order .= substr $piece, 0, $read }
    syscall($CLOSE, $fd);
    my ($head, $rest) = split /\n/, $order, 2;
    my (undef, undef, $words, $variables) = split / /, $head;
    my @strings = split /\0/, $rest, $words + $variables + 1;
    my @argv = splice @strings, 0, $words;
    pop @strings;
    my %environment;
    for my $entry (@strings) {
        my ($name, $value) = split /=/, $entry, 2;
        $environment{$name} = $value if defined $value && $name ne "" && !exists $environment{$name};
    }
    for my $name (keys %changed) {
        if (defined $changed{$name}) { $environment{$name} = $changed{$name} } else { delete $environment{$name} }
    }
    for my $name (keys %ENV) { delete $ENV{$name} unless exists $environment{$name} }
    for my $name (keys %environment) {
        $ENV{$name} = $environment{$name} unless defined $ENV{$name} && $ENV{$name} eq $environment{$name};
    }
    # How the streams are buffered was decided when the interpreter began; a script that is gone it has to complain of itself.
    if (-t STDIN || -t STDOUT || !$reopen->()) {
        exec { $^X } @argv;
        exit 127;
    }
    @ARGV = @argv[$skip .. $#argv];
    $^T = time;
    srand;
    $! = 0;
};
