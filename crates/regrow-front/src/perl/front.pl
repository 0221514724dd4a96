# The front end for Perl: an interpreter that has loaded modules stops itself, and every run continues from there.
#
# Regrow gives this to Perl by `-M`. Perl runs it when it has opened its script and has read none of it. The script that follows is
# the main program, with its `__END__`, its INIT and END blocks and its line numbers, and without a caller. The page `docs/warm.md`
# says what a front end is told and what it tells.
#
#     prepare: modules (and, where it is wanted, the script is compiled) -- report -- SIGSTOP -- wake: order, %ENV, @ARGV -- script
#
# Perl reads all of this as one line, so that the script's first line stays the first. So a comment has a line of its own, and a
# line ends where a space may stand. Nothing here leaves a name behind. Perl counts each `eval` of a text, so there is none.
#
# In front of this Regrow puts `my ($skip, $compile, @modules)`: how many words of the run's argument vector come before `@ARGV`,
# whether Perl compiles the script before the stop, and the modules to load. A module with `?` behind its name may be missing.

# This code refers to itself, so that Perl never frees it: that would write to its memory in every run.
my @kept;
@kept = (\@kept, CORE::__SUB__);

# System calls by their numbers (x86-64), because the module POSIX is large.
my ($READ, $WRITE, $OPEN, $CLOSE, $LSEEK, $DUP, $DUP2, $FCNTL, $DUP3, $MEMFD) = (0, 1, 2, 3, 8, 32, 33, 72, 292, 319);
my $CLOEXEC = 0x80000;
my $EBADF = 9;
# `syscall` takes a number as it is, and a text as a place in memory.
my $fd = 0 + delete $ENV{REGROW_WARM};
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

# The descriptor that Perl reads the script from. Perl has opened nothing else.
my $identity = sub { join ":", (stat "/proc/self/fd/$_[0]")[0, 1] };
my $itself = join ":", (stat $0)[0, 1];
my ($number) = grep { $identity->($_) eq $itself } 3 .. 15;

# What a module reads from standard input or writes to standard output and error here, every run would lack. Two files take the
# places of the streams; their offsets tell whether anything was read or written.
my ($input, $output) = map { my $name = "$_\0"; syscall($MEMFD, $name, 0) } "input", "output";
syscall($WRITE, $input, $piece, 1);
syscall($LSEEK, $input, 0, 0);
my @standard = map { syscall($DUP, $_) } 0 .. 2;
syscall($DUP2, $_ ? $output : $input, $_) for 0 .. 2;
my $end_of_streams = sub {
    $refuse->("it reads its standard input while it is prepared") if syscall($LSEEK, $input, 0, 1);
    $refuse->("it writes to its standard output or error while it is prepared") if syscall($LSEEK, $output, 0, 1);
    syscall($DUP2, $standard[$_], $_) for 0 .. 2;
    syscall($CLOSE, $_) for $input, $output, @standard;
};

# Notes which variables are read: their values belong to the image. Every run repeats what was changed.
my (%asked, %changed);
my %given = my %now = %ENV;
my $note = sub { tie %ENV, "Regrow::Noted" };
my $through = sub {
    my $change = shift;
    local $^W = 0;
    untie %ENV;
    $change->();
    $note->();
};
*Regrow::Noted::TIEHASH = sub { bless [], "Regrow::Noted" };
*Regrow::Noted::FETCH = sub { $asked{$_[1]} = 1; $now{$_[1]} };
*Regrow::Noted::EXISTS = sub { $asked{$_[1]} = 1; exists $now{$_[1]} };
*Regrow::Noted::STORE = sub { my (undef, $name, $value) = @_; $now{$name} = $value; $through->(sub { $ENV{$name} = $value }) };
*Regrow::Noted::DELETE = sub { my (undef, $name) = @_; $asked{$name} = 1; $through->(sub { delete $ENV{$name} }); delete $now{$name} };
*Regrow::Noted::CLEAR = sub { $asked{"*"} = 1; %now = (); $through->(sub { %ENV = () }) };
*Regrow::Noted::FIRSTKEY = sub { $asked{"*"} = 1; keys %now; each %now };
*Regrow::Noted::NEXTKEY = sub { each %now };
*Regrow::Noted::SCALAR = sub { $asked{"*"} = 1; scalar %now };
*Regrow::Noted::UNTIE = *Regrow::Noted::DESTROY = sub { };
$note->();
my $end_of_notes = sub {
    untie %ENV;
    delete $main::{"Regrow::"};
    for my $name (keys %given) { $changed{$name} = undef unless exists $now{$name} }
    for my $name (keys %now) {
        $changed{$name} = $now{$name} unless exists $given{$name} && $given{$name} eq $now{$name};
    }
    # The variables of a request differ from run to run: each run would need an image of its own.
    my @read = $asked{"*"} ? keys %given : keys %asked;
    my @of_request = sort grep { /^(?:AUTH_TYPE|CONTENT_|HTTP_|PATH_INFO|PATH_TRANSLATED|QUERY_STRING|REMOTE_|REQUEST_)/ } @read;
    $refuse->("$of_request[0] is read while it is prepared") if @of_request;
    $report->("env $_") for keys %asked;
};

# Two copies of this process draw the same number if the process has drawn one: then all runs would. The fork writes out what is in
# the buffers.
my $draw = sub {
    my $child = open my $pipe, "-|";
    unless ($child) {
        my $number = rand() . "\0";
        syscall($WRITE, 1, $number, length $number);
        kill KILL => $$;
    }
    sysread $pipe, my $number, 64;
    $number;
};

for my $module (@modules) {
    my $optional = $module =~ s/\?\z//;
    (my $file = "$module.pm") =~ s{::}{/}g;
    next if eval { local $SIG{__DIE__}; require $file };
    my ($why) = split /\n/, $@;
    next if $optional && $why =~ /^Can't locate \Q$file\E in /;
    $refuse->("$module cannot be loaded: $why");
}

my $offset = 0;
my $reopen = sub {
    # The caller may have passed a descriptor of this number to the run.
    return 0 if syscall($FCNTL, $number, 1) >= 0;
    my $at = syscall($OPEN, $script, $CLOEXEC);
    return 0 if $at < 0;
    syscall($LSEEK, $at, $offset, 0) if $offset;
    return 1 if $at == $number;
    syscall($DUP3, $at, $number, $CLOEXEC);
    syscall($CLOSE, $at);
    1;
};
# Perl looks at a stream's place in its file when it starts, so a run has to look again. `$.` keeps the handle that was read last.
my $is_closed = sub {
    local $.;
    grep { !seek($_, 0, 1) && $! == $EBADF } *STDIN, *STDOUT, *STDERR;
};

my $stop = sub {
    $end_of_notes->();
    $refuse->("random numbers are drawn while it is prepared") if $draw->() eq $draw->();
    $end_of_streams->();
    # Perl has closed a script that it has compiled, but for one with a `__DATA__`.
    my $reads = $identity->($number) eq $itself;
    if ($reads) {
        $offset = syscall($LSEEK, $number, 0, 1);
        syscall($CLOSE, $number);
    }
    # Perl keeps a list of its own of the variables that it passes on. It is empty at the stop, and a run fills it in its own order.
    %ENV = ();
    $@ = "";
    $? = 0;
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
    # Of two entries with one name the first counts, and stands where neither stood. An entry without a name or a value is left out.
    my @twice;
    for my $entry (@strings) {
        my $at = index $entry, "=";
        next if $at < 1;
        my $name = substr $entry, 0, $at;
        if (exists $ENV{$name}) { push @twice, $name } else { $ENV{$name} = substr $entry, $at + 1 }
    }
    for my $name (@twice) { my $value = delete $ENV{$name}; $ENV{$name} = $value }
    # Perl decides how it buffers a stream when it starts, and has its own words for a script that is gone: here it starts again.
    my $other = -t STDIN || -t STDOUT || $is_closed->();
    if ($other || $reads && !$reopen->()) {
        exec { $^X } @argv;
        exit 127;
    }
    for my $name (keys %changed) {
        if (defined $changed{$name}) { $ENV{$name} = $changed{$name} } else { delete $ENV{$name} }
    }
    @ARGV = @argv[$skip .. $#argv];
    $^T = time;
    $! = 0;
};
